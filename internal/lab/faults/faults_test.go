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
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{Args: soon}) }

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
		subject("binaryladder", backend.Config{
			Backend:      "binaryladder",
			BinaryLadder: binaryladder.Config{Tick: tick, Steps: "100ms,200ms,400ms,800ms,1600ms,3200ms"},
		}),
		subject("controller rounds", backend.Config{Backend: "controller", Controller: controller.Config{Wheel: controller.Rounds, Levels: 4, Tick: tick}}),
	}
}

// slots takes longer: its 55 slots, and messages with tickets, which are due after seconds.
func slots(cfg controller.Config) faults.Subject {
	return subject("controller slots", backend.Config{Backend: "controller", Controller: cfg})
}

func subject(name string, cfg backend.Config) faults.Subject {
	cfg.QueueType, cfg.Logger = delayer.Quorum, slog.New(slog.DiscardHandler)
	return faults.NewSubject(name, cfg, 100*time.Millisecond, 700*time.Millisecond, 1500*time.Millisecond, 2100*time.Millisecond)
}

func short(t *testing.T) faults.Campaign {
	return faults.Campaign{
		Subjects: subjects(), Messages: 200, Times: 2, Hold: time.Second, Redeliver: retry, Logf: t.Logf,
		Load: faults.Load{Publishers: 8, Rate: 80, Patience: 5 * time.Second},
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
		assert.Empty(t, r.Problems, "%s, %s", f.Name, r.Backend)
		assert.Equal(t, r.Confirmed, r.Delivered+r.Kept+r.Deleted,
			"every confirmed message arrives, is kept as unroutable, or was deleted by the operator")
		assert.GreaterOrEqual(t, r.Confirmed, 100, "what was accounted for is more than nothing")
	}
	return rows
}

func named(t *testing.T, name string) faults.Fault {
	t.Helper()
	for _, f := range faults.All() {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no fault %q", name)
	return faults.Fault{}
}

// TestFaults_Killed: on one broker, because starting one is what takes time. Also what was cancelled
// stays cancelled, and what was postponed comes at its later time, also where the controller is what
// is killed. What clients publish with a header comes once the broker has confirmed it, whichever
// process of serve is killed meanwhile.
func TestFaults_Killed(t *testing.T) {
	t.Parallel()
	c := short(t)
	c.Broker = rabbittest.Own(t, rabbit.Options{Args: soon})
	c.Subjects = append(c.Subjects, slots(controller.Config{}))
	rows := expect(t, c, named(t, "broker killed"))
	assert.Positive(t, rows[len(rows)-1].Cancelled)
	assert.Positive(t, rows[len(rows)-1].Postponed)

	command := filepath.Join(t.TempDir(), "delayer")
	out, err := exec.Command("go", "build", "-o", command, "github.com/delayer-go/delayer/cmd/delayer").CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := func(ctx context.Context, args ...string) *exec.Cmd { return exec.CommandContext(ctx, command, args...) }
	alone := slots(controller.Config{PublishOnly: true})
	alone.Controller, alone.Env = run, []string{"DELAYER_BACKEND=controller"}
	c.Subjects = []faults.Subject{alone}
	rows = expect(t, c, named(t, "controller killed"))
	assert.Positive(t, rows[0].Cancelled)
	assert.Positive(t, rows[0].Postponed)

	c.Times = 4
	c.Subjects = []faults.Subject{faults.Serve("serve", run, 0, 100*time.Millisecond, time.Second)}
	expect(t, c, named(t, "serve killed"))
}

// TestFaults_Shared are faults that leave the broker of the package as it was. A full destination
// also makes RabbitMQ 3.10 to 3.12 forget the way of a message in a second attempt; the Delayer sends
// it on.
func TestFaults_Shared(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"connections cut", "destination full"} {
		c := short(t)
		c.Broker = rabbittest.Ours(t)
		expect(t, c, named(t, name))
	}
}

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
	var steps []string
	for i := range queues {
		steps = append(steps, (time.Second << i).String())
	}
	cfg := backend.Config{
		Options:      delayer.Options{URL: cluster.URLs()[0], Prefix: prefix},
		BinaryLadder: binaryladder.Config{Steps: binaryladder.Steps(strings.Join(steps, ","))},
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
