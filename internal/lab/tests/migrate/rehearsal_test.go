package migrate_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/evacuate"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/migrate"
	"github.com/delayer-go/delayer/topology"
)

const (
	// rehearsalVariable is how many messages are pending in each way of the full rehearsal.
	rehearsalVariable = "DELAYER_TEST_REHEARSAL"
	// rehearsalPatience bounds what hangs, and measures nothing.
	rehearsalPatience = 90 * time.Second
)

// A rehearsal is one way off the plugin, with the program delayer as an operator runs it.
type rehearsal struct {
	*rabbittest.Rig
	fillers   []*amqp091.Connection // fill the plugin, in turn
	cfg       backend.Config
	config    string // the file
	program   string
	ctl       string
	kinds     []string
	many      int             // messages are pending
	kills     []time.Duration // after which a step is killed, in turn
	account   *account.Account[string]
	user      string
	running   sync.WaitGroup // consumers,
	consumers []func()       // which these cancel
	lives     int            // the number of the next message of the series live, of each kind

	mishaps

	killed    int
	turn      int // of kills
	evacuated int
}

// TestRehearsal goes each way off the plugin with messages pending, publishers and consumers that
// go on, and a tool that is killed in every step. It is short; DELAYER_TEST_REHEARSAL=20000 runs
// the full one, whose table is in docs/results/migration.md.
func TestRehearsal(t *testing.T) {
	needPlugin(t)
	program := build(t)
	for name, way := range map[string]func(*rehearsal){"code": (*rehearsal).code, "serve": (*rehearsal).serve, "evacuation": (*rehearsal).evacuation} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			way(newRehearsal(t, name, program))
		})
	}
}

// full is how many messages the full rehearsal has, or 0.
func full(t testing.TB) int {
	value := os.Getenv(rehearsalVariable)
	if value == "" {
		return 0
	}
	n, err := strconv.Atoi(value)
	require.NoError(t, err, rehearsalVariable)
	return n
}

func newRehearsal(t testing.TB, name, program string) *rehearsal {
	b := needPlugin(t)
	kinds := map[string][]string{"code": {"direct"}, "serve": {"topic"}, "evacuation": {"headers"}}[name]
	all := []string{"topic", "direct", "fanout", "headers"}
	if inKhepri(t, b) {
		all = all[1:]
		kinds = slices.DeleteFunc(append(kinds, "fanout"), func(kind string) bool { return kind == "topic" })[:1]
	}
	if n := full(t); n > 0 {
		r := rehearse(t, b, program, b.CtlCommand(), all)
		r.many = n
		r.kills = []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, time.Second, 3 * time.Second, 6 * time.Second}
		return r
	}
	r := rehearse(t, b, program, rabbitmqctl(t, b), kinds)
	r.many, r.kills = 300, []time.Duration{50 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond}
	return r
}

// rehearse declares exchanges of some kinds, each with a queue that is consumed.
func rehearse(t testing.TB, b *rabbit.Broker, program, ctl string, kinds []string) *rehearsal {
	r := &rehearsal{Rig: rabbittest.NewRig(t, b), program: program, ctl: ctl, kinds: kinds}
	uri, err := url.Parse(b.URL())
	require.NoError(t, err)
	r.user, r.account = uri.User.Username(), account.New[string](time.Now())
	r.moved, r.refused = map[string]bool{}, map[string]int{}
	r.fillers = []*amqp091.Connection{r.Conn}
	t.Cleanup(func() {
		_ = r.Conn.Close()
		r.running.Wait()
	})
	r.configure()
	for _, kind := range r.kinds {
		require.NoError(t, r.Ch.ExchangeDeclare(r.exchange(kind), "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": kind}))
		_, err := r.Ch.QueueDeclare(r.queue(kind), true, false, false, false, nil)
		require.NoError(t, err)
		r.bind(r.Ch, kind)
		r.consume(kind)
	}
	t.Cleanup(r.tidy)
	return r
}

// configure writes the configuration file. The ladder is no longer than it must be: each queue is a
// Raft group.
func (r *rehearsal) configure() {
	var steps []time.Duration
	for step := 100 * time.Millisecond; step < r.far(); step *= 2 {
		steps = append(steps, step)
	}
	text := fmt.Sprintf("url: %q\nmanagement: %q\nprefix: %s\nbackend: binaryladder\nbinaryladder: {tick: 100ms, steps: %q}\nserve:\n  exchanges:\n",
		r.Broker.URL(), management(r.TB, r.Broker), r.Prefix, binaryladder.List(steps...))
	for _, kind := range r.kinds {
		text += fmt.Sprintf("    - {name: %q, type: %s, to: %q, move_bindings: true}\n", r.exchange(kind), kind, swap.DefaultTarget(r.exchange(kind)))
	}
	r.config = filepath.Join(r.TempDir(), "delayer.yaml")
	require.NoError(r, os.WriteFile(r.config, []byte(text), 0o600))
	var err error
	r.cfg, err = backend.Load(r.config)
	require.NoError(r, err)
	r.cfg.Logger = slog.New(slog.DiscardHandler) // each failure is a publisher's error
}

func (r *rehearsal) exchange(kind string) string { return r.Prefix + ` "it's" ` + kind }
func (r *rehearsal) queue(kind string) string    { return r.exchange(kind) + " queue" }

// bind routes every message once.
func (r *rehearsal) bind(ch *amqp091.Channel, kind string) {
	switch kind {
	case "topic":
		require.NoError(r, ch.QueueBind(r.queue(kind), "order.*", r.exchange(kind), false, nil))
	case "headers":
		require.NoError(r, ch.QueueBind(r.queue(kind), "", r.exchange(kind), false, amqp091.Table{"x-match": "all", "route": "here"}))
	default:
		for i := range keys {
			require.NoError(r, ch.QueueBind(r.queue(kind), letter{number: i}.key(), r.exchange(kind), false, nil))
		}
	}
}

// tidy removes what the rehearsal has declared.
func (r *rehearsal) tidy() {
	conn, err := amqp091.Dial(r.Broker.URL())
	require.NoError(r, err)
	defer conn.Close() //nolint:errcheck // the test ends
	plan, err := backend.Topology(r.cfg)
	require.NoError(r, err)
	all := plan.Add(evacuate.Plan(r.cfg.Prefix))
	for _, kind := range r.kinds {
		x := r.exchange(kind)
		side := entry.Spec{Name: x, Type: kind}.Side(r.cfg.Prefix)
		side.Exchanges, side.Markers = side.AllExchanges(), nil
		all = all.Add(side).Add(topology.Plan{
			Exchanges: []topology.Exchange{{Name: x}, {Name: swap.DefaultTarget(x)}, {Name: record.Name(r.cfg.Prefix, x)}}, Queues: []topology.Queue{{Name: r.queue(kind)}},
		})
	}
	ch, err := conn.Channel()
	require.NoError(r, err)
	for _, q := range all.Queues {
		_, _ = ch.QueueDelete(q.Name, false, false, false)
	}
	for _, x := range all.Exchanges {
		_ = ch.ExchangeDelete(x.Name, false, false)
	}
}

// publishers publish to all exchanges until stop is called.
func (r *rehearsal) publishers(of func() channelPublisher) (stop func()) {
	const most = 1_000_000 // in a test
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, kind := range r.kinds {
		p, from := of(), r.lives
		all.Go(func() { r.produce(ctx, kind, from, p) })
	}
	r.lives += most
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	r.Cleanup(stop)
	return stop
}

func (r *rehearsal) raw() channelPublisher { return &rawPublisher{conn: r.Conn} }

// wrapped opens a Delayer, as released code does.
func (r *rehearsal) wrapped() func() channelPublisher {
	d, err := backend.Open(r.Context(), r.cfg)
	require.NoError(r, err)
	r.Cleanup(func() { _ = d.Close() })
	return func() channelPublisher { return migrate.NewPublisher(d) }
}

// scale is short for the short rehearsal, and long for the full one.
func (r *rehearsal) scale(short, long time.Duration) time.Duration {
	if full(r.TB) > 0 {
		return long
	}
	return short
}

// far is when the last of the series days is due, which no rehearsal awaits. A short one has an
// hour for days: its ladder is shorter.
func (r *rehearsal) far() time.Duration {
	if _, benchmark := r.TB.(*testing.B); benchmark {
		return 50 * time.Hour
	}
	return r.scale(time.Hour, 50*time.Hour)
}

// fillDays publishes messages to the plugin that are due in days.
func (r *rehearsal) fillDays(kind string, n int) {
	r.Helper()
	r.fill(days, kind, n, r.far()*24/25, r.far())
}

// pending fills the plugin.
func (r *rehearsal) pending(from, to time.Duration, inDays int) {
	each := r.many / len(r.kinds)
	for _, kind := range r.kinds {
		r.fill(pending, kind, each-inDays, from, to)
		r.fillDays(kind, inDays)
	}
}

// code: the publishers use package migrate already. The exchanges are switched in place, and the
// plugin delivers what it has.
func (r *rehearsal) code() {
	stop := r.publishers(r.wrapped())
	r.pending(r.scale(5*time.Second, 20*time.Second), r.scale(20*time.Second, 150*time.Second), 0)
	r.switches("in-place")
	r.drain()
	stop()
	r.allArrive()
	r.report("code")
	r.retire()
}

// switches switches all exchanges. It is killed at several places.
func (r *rehearsal) switches(mode string) {
	for _, kind := range r.kinds {
		args := []string{"--exchange", r.exchange(kind), "--mode", mode, "--yes", "--rabbitmqctl", r.ctl}
		for range r.kills[1:] {
			r.killedStep("switch", args...)
		}
		r.step("switch", args...)
	}
}

// drain waits until the plugin has delivered what is its.
func (r *rehearsal) drain() {
	r.Helper()
	require.Eventually(r, func() bool { return r.inPlugin() == 0 }, rehearsalPatience, 500*time.Millisecond)
}

// selection names all exchanges.
func (r *rehearsal) selection() (args []string) {
	for _, kind := range r.kinds {
		args = append(args, "--exchange", r.exchange(kind))
	}
	return args
}

func (r *rehearsal) retire() {
	for _, kind := range r.kinds {
		r.step("retire", "--exchange", r.exchange(kind), "--rabbitmqctl", r.ctl)
	}
}

// serve: the publishers know nothing, and do not stop before the exchanges are retired. Meanwhile
// the processes that serve are killed, and one rollback is made.
func (r *rehearsal) serve() {
	stop := r.publishers(r.raw)
	inDays := r.many / len(r.kinds) / 3
	r.pending(r.scale(12*time.Second, 90*time.Second), r.scale(24*time.Second, 150*time.Second), inDays)
	r.wholeStep("assess", "--rabbitmqctl", r.ctl)
	all := []*serveProcess{r.startServe(), r.startServe()} // before the switch, or after it
	r.switches("serve")
	for range r.kills {
		for _, s := range all {
			select {
			case <-r.Context().Done():
			case <-time.After(r.scale(300*time.Millisecond, time.Second)):
			}
			s.kill()
		}
	}
	for _, kind := range r.kinds {
		r.step("rollback", "--exchange", r.exchange(kind), "--rabbitmqctl", r.ctl)
	}
	r.switches("serve")
	r.step("evacuate", append(r.selection(), "--rabbitmqctl", r.ctl, "--leave", "10s")...)
	r.drain()
	r.retire()
	stop()
	r.allArrive()
	for _, s := range all {
		s.stop()
	}
	r.inDays(inDays)
	r.report("serve")
}

// evacuation: as code, and what the plugin has is moved.
func (r *rehearsal) evacuation() {
	stop := r.publishers(r.wrapped())
	inDays, args := r.many/len(r.kinds)/3, append(r.selection(), "--rabbitmqctl", r.ctl, "--leave", "10s")
	r.pending(r.scale(25*time.Second, 120*time.Second), r.scale(35*time.Second, 180*time.Second), inDays)
	r.switches("in-place")
	for range r.kills[1:] { // in the middle of each of its stages
		r.killedStep("evacuate", args...)
	}
	r.step("evacuate", args...)
	stop()
	r.allArrive()
	r.inDays(inDays)
	r.report("evacuation")
	r.retire()
}

// inDays looks for what is due in days: so many messages of each exchange wait in the Delayer, as
// they were published. How many of the others were moved, and have arrived, depends on how long the
// steps took.
func (r *rehearsal) inDays(each int) {
	r.Helper()
	inLadder := r.inLadder()
	r.evacuated = len(inLadder) + len(r.moved)
	assert.Len(r, inLadder, each*len(r.kinds), "what is due in days waits in the Delayer")
	r.Logf("%d messages wait in the Delayer for days, %d of them twice; %d have arrived", len(inLadder), repeated(inLadder), len(r.moved))
}

// inPlugin counts what the plugin holds for these exchanges.
func (r *rehearsal) inPlugin() (n int) {
	for _, t := range r.tables() {
		for _, w := range t.Exchanges {
			if strings.HasPrefix(w.Exchange, r.cfg.Prefix) {
				n += w.Rows
			}
		}
	}
	return n
}

// inLadder takes all messages out of the Delayer's queues, and counts those that are due in days by
// their id.
func (r *rehearsal) inLadder() map[string]int {
	plan, err := backend.Topology(r.cfg)
	require.NoError(r, err)
	ch, err := r.Conn.Channel()
	require.NoError(r, err)
	ids := map[string]int{}
	for _, q := range plan.Queues {
		for {
			d, ok, err := ch.Get(q.Name, true)
			require.NoError(r, err)
			if !ok {
				break
			}
			if strings.HasPrefix(d.MessageId, days) {
				ids[d.MessageId]++
				delete(d.Headers, "x-delivery-count") // of a quorum queue that is read
				r.compare(d)
			}
		}
	}
	return ids
}

func repeated(counts map[string]int) (n int) {
	for _, count := range counts {
		if count > 1 {
			n++
		}
	}
	return n
}

// report holds what was promised, and prints a row of the table.
func (r *rehearsal) report(way string) {
	v := r.account.Verdict()
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Printf("| %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", way, r.Broker.Version(), r.many, r.evacuated,
		v.Confirmed, v.Delivered, len(v.Twice), len(v.Early), len(v.Missing), r.changed, len(r.refused), r.gap.Milliseconds(), r.killed)
	assert.Empty(r, r.refused, "publishers were refused")
	assert.Empty(r, r.described(v.Missing), "lost")
	assert.Empty(r, r.described(v.Early), "early")
	assert.Empty(r, r.described(v.Strangers), "nobody has published these")
	assert.Zero(r, r.changed, r.strange)
}
