package faults_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/postgres/postgrestest"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

func TestMain(m *testing.M) { rabbittest.Main(postgrestest.Wrap(m), rabbit.Options{Args: soon}) }

// soon makes a broker repeat a dead-lettering that found no way while it started after two seconds
// instead of three minutes. What is asked here is whether a message is lost; the long campaign asks
// it of a broker as it comes.
var soon = rabbit.DeadLetterRetry(retry)

const retry = 2 * time.Second

// tick is that of the backends of the short campaign.
const tick = 100 * time.Millisecond

// subjects are the backends of the short campaign. `make faults` does it to all.
func subjects() []faults.Subject {
	return []faults.Subject{
		subject("binaryladder", ladder()),
		subject("controller rounds", backend.Config{Backend: "controller", Controller: controller.Config{Wheel: controller.Rounds, Levels: 4, Tick: tick}}),
	}
}

func ladder() backend.Config {
	return backend.Config{
		Backend: "binaryladder", BinaryLadder: binaryladder.Config{Tick: tick, Steps: "100ms,200ms,400ms,800ms,1600ms,3200ms"},
		Options: delayer.Options{QueueType: delayer.Quorum, Logger: slog.New(slog.DiscardHandler)},
	}
}

// slots takes longer: its 127 slots, and messages with tickets, which are due after seconds.
func slots() faults.Subject {
	return subject("controller slots", backend.Config{Backend: "controller", Controller: controller.Config{Wheel: controller.Slots}})
}

func subject(name string, cfg backend.Config) faults.Subject {
	cfg.QueueType, cfg.Logger = delayer.Quorum, slog.New(slog.DiscardHandler)
	return faults.NewSubject(name, cfg, 100*time.Millisecond, 700*time.Millisecond, 1500*time.Millisecond, 2100*time.Millisecond)
}

func short(t *testing.T) faults.Campaign {
	return faults.Campaign{
		Subjects: subjects(), Messages: 200, Times: 2, Hold: time.Second, Redeliver: retry, Logf: t.Logf,
		Load:   faults.Load{Publishers: 8, Rate: 80, Patience: 5 * time.Second},
		Beside: true, // TestMain looks for goroutines that are left
	}
}

// expect does a fault and holds the accounts to the promises.
func expect(t *testing.T, c faults.Campaign, f faults.Fault) []faults.Row {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	rows, err := c.Run(ctx, f)
	require.NoError(t, err)
	require.Len(t, rows, len(c.Subjects))
	for _, r := range rows {
		t.Log(r)
		assert.Empty(t, r.Problems, "%s, %s", f.Name, r.Subject)
		assert.Equal(t, r.Totals.Confirmed, r.Totals.Delivered+r.Totals.Kept+r.Totals.Deleted,
			"every confirmed message arrives, is kept as unroutable, or had just come to a reply queue that was deleted")
		assert.GreaterOrEqual(t, r.Totals.Confirmed, 100, "what was accounted for is more than nothing")
	}
	return rows
}

func named(t *testing.T, all []faults.Fault, name string) faults.Fault {
	t.Helper()
	for _, f := range all {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no fault %q", name)
	return faults.Fault{}
}

// TestFaults_Killed: on one broker, because starting one is what takes time.
func TestFaults_Killed(t *testing.T) {
	t.Parallel()
	c := short(t)
	c.Broker = rabbittest.Own(t, rabbit.Options{Args: soon})
	t.Run("broker", func(t *testing.T) { killed(t, c) })
	t.Run("serve", func(t *testing.T) { serveKilled(t, c) })
}

func TestFaults_Network(t *testing.T) {
	t.Parallel()
	c := short(t)
	c.Broker = rabbittest.Ours(t)
	expect(t, c, faults.Fault{Name: "network", Inject: faults.Network})
}

// killed: also what was cancelled stays cancelled, and what was postponed comes at its later time.
// What an application has in a queue of its own, or in a database, comes too.
func killed(t *testing.T, c faults.Campaign) {
	t.Helper()
	delay := 700 * time.Millisecond
	c.Subjects = append(c.Subjects, faults.Retry(ladder(), delay), faults.Outbox(postgrestest.URL(t), ladder(), delay), slots())
	rows := expect(t, c, named(t, faults.OneNode(), "broker killed"))
	ofSlots := rows[len(rows)-1].Totals
	assert.Positive(t, ofSlots.Cancelled)
	assert.Positive(t, ofSlots.Postponed)
}

// serveKilled: what clients publish with a header comes once the broker has confirmed it, whichever
// process is killed meanwhile.
func serveKilled(t *testing.T, c faults.Campaign) {
	t.Helper()
	command := filepath.Join(t.TempDir(), "delayer")
	out, err := exec.Command("go", "build", "-o", command, "github.com/delayer-go/delayer/cmd/delayer").CombinedOutput()
	require.NoError(t, err, "%s", out)
	s := faults.Serve(func(args ...string) *exec.Cmd { return exec.Command(command, args...) }, 0, 100*time.Millisecond, time.Second)
	c.Subjects, c.Times = []faults.Subject{s}, 4
	rows := expect(t, c, named(t, faults.Services(), "serve killed"))
	require.Equal(t, []string{s.Name + ": SIGKILL 2 times to each of 2 processes, and 1 times to the broker"}, rows[0].Notes)
}

// TestFaults_Misrouted: of messages that are missing it is said if a queue of the run still holds
// them, such as the one from which a Delayer was to send them on.
func TestFaults_Misrouted(t *testing.T) {
	t.Parallel()
	c := short(t)
	c.Broker = rabbittest.Ours(t)
	var opened []*straying
	straysTo := func(name, exchange string) faults.Subject {
		return faults.Subject{
			Name: name, QueueType: faults.Quorum, Delays: []time.Duration{0}, Unroutable: func(string) string { return "" },
			Open: func(_ context.Context, _ []string, prefix string) (delayer.Delayer, error) {
				d := &straying{ch: rabbittest.Channel(t, c.Broker), exchange: exchange, misrouted: prefix + ".misrouted"}
				opened = append(opened, d)
				_, err := d.ch.QueueDeclare(d.misrouted, true, false, false, false, nil)
				return d, errors.Join(err, d.ch.Confirm(false))
			},
			Remove: func(_ context.Context, _ []string, prefix string) error {
				_, err := rabbittest.Channel(t, c.Broker).QueueDelete(prefix+".misrouted", false, false, false)
				return err
			},
		}
	}
	c.Subjects = []faults.Subject{straysTo("misroutes", ""), straysTo("loses", "amq.direct")}
	c.Messages, c.Patience = 20, 2*time.Second
	rows, err := c.Run(t.Context(), named(t, faults.OneNode(), "none"))
	require.NoError(t, err)
	require.Len(t, rows, 2)
	for _, r := range rows {
		assert.NotEmpty(t, r.Totals.Missing, r.Subject)
	}
	held := fmt.Sprintf(".misrouted (running) still holds %d messages", opened[0].strays)
	assert.Contains(t, strings.Join(rows[0].Problems, "\n"), held)
	assert.NotContains(t, strings.Join(rows[1].Problems, "\n"), "still holds")
}

// A straying Delayer delays nothing, and publishes each fifth message elsewhere.
type straying struct {
	delayer.Delayer
	ch                  *amqp091.Channel
	exchange, misrouted string

	mu                sync.Mutex
	published, strays int
}

func (s *straying) Publish(ctx context.Context, exchange, key string, _ time.Duration, msg amqp091.Publishing) error {
	const each = 5
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.published++; s.published%each == 0 {
		s.strays++
		exchange, key = s.exchange, s.misrouted
	}
	confirm, err := s.ch.PublishWithDeferredConfirm(exchange, key, false, false, msg)
	if err != nil {
		return err
	}
	_, err = confirm.WaitContext(ctx)
	return err
}

func (s *straying) Limits() delayer.Limits { return delayer.Limits{} }
func (s *straying) Close() error           { return nil }

// TestFaults_ReplyQueuesGone: a Delayer that holds everybody up while it mends one destination is
// noticed. That no other does so is asked by the long campaign: here a busy machine could hold them
// up as well.
func TestFaults_ReplyQueuesGone(t *testing.T) {
	t.Parallel()
	c := short(t)
	c.Broker = rabbittest.Ours(t)
	broken := subjects()[0]
	broken.Name = "broken"
	broken.Open = func(ctx context.Context, urls []string, prefix string) (delayer.Delayer, error) {
		d, err := subjects()[0].Open(ctx, urls, prefix)
		if err != nil {
			return nil, err
		}
		conn, err := amqp091.Dial(c.Broker.URL())
		return &mender{Delayer: d, conn: conn, waits: make(chan struct{}, 1)}, err
	}
	c.Subjects = append(c.Subjects, broken)
	c.Hold = 4 * time.Second
	rows, err := c.Run(t.Context(), named(t, faults.Destinations(), "reply queues gone"))
	require.NoError(t, err)
	require.Len(t, rows, len(c.Subjects))
	t.Log(strings.Join(rows[0].Notes, "\n"))
	for _, r := range rows {
		t.Log(r)
		assert.Equal(t, r.Totals.Confirmed, r.Totals.Delivered+r.Totals.Kept+r.Totals.Deleted,
			"every confirmed message arrives, is kept as unroutable, or had just come to a reply queue that was deleted")
		assert.Empty(t, r.Problems, r.Subject)
		if r.Subject == broken.Name {
			assert.Contains(t, strings.Join(r.Slow, "\n"), "others were held up")
		}
	}
}

// A mender finds a reply queue gone, once, and lets nobody publish meanwhile: for longer than the
// slowest Publish before explains.
type mender struct {
	delayer.Delayer
	conn   *amqp091.Connection
	once   sync.Once
	busy   sync.RWMutex
	waits  chan struct{} // somebody is held up
	timing sync.Mutex
	most   time.Duration // that a Publish took
}

func (m *mender) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	began := time.Now()
	if strings.Contains(key, "-reply-") && m.gone(key) {
		m.once.Do(m.mend)
	}
	if !m.busy.TryRLock() {
		if strings.Contains(exchange, "-by-") {
			select {
			case m.waits <- struct{}{}:
			default:
			}
		}
		m.busy.RLock()
	}
	defer m.busy.RUnlock()
	err := m.Delayer.Publish(ctx, exchange, key, delay, msg)
	m.timing.Lock()
	defer m.timing.Unlock()
	m.most = max(m.most, time.Since(began))
	return err
}

func (m *mender) gone(queue string) bool {
	ch, err := m.conn.Channel()
	if err != nil {
		return false // closed
	}
	defer ch.Close() //nolint:errcheck // closed by the broker where the queue is gone
	_, err = ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return err != nil
}

// mend is called in the midst of the campaign's phase. Its time begins when somebody of that phase
// waits, however late that is.
func (m *mender) mend() {
	const more = 5 * time.Second // the judge allows three
	m.busy.Lock()
	defer m.busy.Unlock()
	m.timing.Lock()
	most := m.most
	m.timing.Unlock()
	<-m.waits
	<-time.After(most + more)
}

func (m *mender) Close() error { return errors.Join(m.Delayer.Close(), m.conn.Close()) }

func TestFaultsOfACluster(t *testing.T) {
	t.Parallel()
	if os.Getenv("DELAYER_BROKER") == rabbit.Docker {
		rabbittest.Skipf(t, "a cluster is of private nodes, and DELAYER_BROKER=%s", rabbit.Docker)
	}
	cluster, err := rabbit.StartCluster(t.Context(), rabbit.Options{Args: soon, InMemory: true, Logf: t.Logf}, 3)
	if errors.Is(err, rabbit.ErrNone) {
		rabbittest.Skipf(t, "%v", err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, cluster.Close()) })
	t.Run("leaders are spread", func(t *testing.T) { leadersAreSpread(t, cluster) })
	t.Run("acknowledged while the leader changes", func(t *testing.T) { acknowledgedWhileTheLeaderChanges(t, cluster) })
	c := short(t)
	c.Cluster, c.Leave = cluster, true // to delete queues of which a replica is down takes long
	expect(t, c, faults.Fault{Name: "leader lost", Cluster: true, Inject: faults.LoseLeader})
}

// acknowledgedWhileTheLeaderChanges: what a leader did not take any more, and what the channel has
// kept back meanwhile, the next leader stores before the consumer ends. The former leader is asked
// to hand over first of all, and goes on when the end of the consumer is asked for.
func acknowledgedWhileTheLeaderChanges(t *testing.T, cluster *rabbit.Cluster) {
	t.Helper()
	const many = 300
	queue := rabbittest.Prefix(t)
	leader, other := cluster.Nodes()[0], cluster.Nodes()[1]
	rig := rabbittest.NewRig(t, leader)
	rig.Declare(queue, amqp091.Table{
		"x-queue-type": "quorum", "x-single-active-consumer": true, "x-queue-leader-locator": "client-local",
	})
	rig.Publish("", queue, slices.Repeat([]amqp091.Publishing{{DeliveryMode: amqp091.Persistent}}, many)...)
	ch := rabbittest.NewRig(t, other).Channel()
	require.NoError(t, ch.Qos(many, 0, false))
	got, err := ch.Consume(queue, "", false, false, false, false, nil)
	require.NoError(t, err)
	var all []amqp091.Delivery
	for range many {
		all = append(all, rabbittest.Next(t, got))
	}
	const do = `Queue = binary_to_existing_atom(<<"%%2F_%s">>), [Next | _] = nodes(), sys:suspend(Queue),
		spawn(fun() -> ra:transfer_leadership({Queue, node()}, {Queue, Next}) end),
		spawn(fun Resume() ->
			{messages, Waiting} = process_info(whereis(Queue), messages),
			case [asked || {'$gen_call', _, {leader_call, {command, _, _}}} <- Waiting] of
				[] -> timer:sleep(10), Resume();
				_ -> sys:resume(Queue)
			end
		end).`
	out, err := leader.Ctl(t.Context(), "eval", fmt.Sprintf(do, queue))
	require.NoError(t, err, out)
	for _, d := range all {
		require.NoError(t, d.Ack(false))
	}
	require.True(t, broker.EndActive(ch, queue))
	again := rig.Consume(queue) // it gets what was given back, and then what comes
	rig.Publish("", queue, amqp091.Publishing{MessageId: "last"})
	require.Equal(t, "last", rabbittest.Next(t, again).MessageId, "they were acknowledged, and come again")
}

// leadersAreSpread: each node leads some of the waiting queues, whichever one declared them. Two
// dozen tell that from all on one node, also where one leads the other queues; each is a Raft group
// of three.
func leadersAreSpread(t *testing.T, cluster *rabbit.Cluster) {
	t.Helper()
	prefix := rabbittest.Prefix(t)
	const queues, nodes = 24, 3
	var steps []time.Duration
	for i := range queues {
		steps = append(steps, time.Second<<i)
	}
	cfg := backend.Config{
		Options:      delayer.Options{URL: cluster.URLs()[0], Prefix: prefix},
		BinaryLadder: binaryladder.Config{Steps: binaryladder.List(steps...)},
	}
	d, err := backend.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer func() {
		assert.NoError(t, d.Close())
		assert.NoError(t, backend.Remove(context.Background(), cfg, true))
	}()
	leaders, err := cluster.Leaders(t.Context())
	require.NoError(t, err)
	byNode := map[int]int{}
	for _, l := range leaders {
		if strings.HasPrefix(l.Queue, prefix+".ladder.wait.") {
			byNode[l.Node]++
		}
	}
	t.Logf("waiting queues that each node leads: %v", byNode)
	for node := range nodes {
		assert.GreaterOrEqual(t, byNode[node], queues/nodes/2, "node %d", node)
	}
}

// TestFaults_Churn: what a Delayer has is gone when it is closed, also while it publishes. The long
// campaign does it for ten minutes; what is left of goroutines TestMain sees, too. It counts them,
// so it runs beside no other.
func TestFaults_Churn(t *testing.T) {
	b := rabbittest.Ours(t)
	for _, s := range subjects() {
		grown, err := faults.Churn(t.Context(), s, b, 0)
		require.NoError(t, err)
		t.Logf("%s: %v", s.Name, grown)
		assert.False(t, grown.Bad(), "%s: %v", s.Name, grown)
		assert.GreaterOrEqual(t, grown.Rounds, 10)
	}
}
