package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/migrate"
	"github.com/delayer-go/delayer/topology"
)

// rehearsalPatience bounds what hangs, and measures nothing.
const rehearsalPatience = 90 * time.Second

// The series of messages.
const (
	pending = "pending" // in the plugin before the migration begins
	days    = "days"    // too, and still there when it ends: due in far
	live    = "live"    // published while it runs
)

// far is when the last of the series days is due, which no rehearsal awaits. It is an hour, which
// needs a short ladder.
const far = time.Hour

// A rehearsal is one way off the plugin, with the program delayer as an operator runs it.
type rehearsal struct {
	*rabbittest.Rig
	fillers  []*amqp091.Connection // fill the plugin, in turn
	cfg      backend.Config
	config   string // the file
	program  string
	ctl      string
	kind     string // of the exchange
	exchange string
	queue    string
	account  *account.Account[string]
	running  sync.WaitGroup // the consumer
	lives    int            // the number of the next message of the series live
	turn     int            // of kills

	mu      sync.Mutex
	refused []error // what publishers were told
}

// TestRehearsal goes each way off the plugin with messages pending, publishers and consumers that
// go on, and a tool that is killed in every step.
func TestRehearsal(t *testing.T) {
	needPlugin(t)
	program := build(t)
	for name, way := range map[string]struct {
		kind string
		goes func(*rehearsal)
	}{
		"code":       {"direct", (*rehearsal).code},
		"serve":      {topicOrFanout(t), (*rehearsal).serve},
		"evacuation": {"headers", (*rehearsal).evacuation},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := needPlugin(t)
			r := rehearse(t, b, program, rabbitmqctl(t, b), way.kind)
			way.goes(r)
			r.holds()
		})
	}
}

// rehearse declares an exchange with a queue that is consumed.
func rehearse(t testing.TB, b *rabbit.Broker, program, ctl, kind string) *rehearsal {
	r := &rehearsal{Rig: rabbittest.NewRig(t, b), program: program, ctl: ctl, kind: kind, account: account.New[string](time.Now())}
	r.exchange = r.Prefix + ` "it's" ` + kind
	r.queue, r.fillers = r.exchange+" queue", []*amqp091.Connection{r.Conn}
	t.Cleanup(func() {
		_ = r.Conn.Close()
		r.running.Wait()
	})
	r.configure()
	require.NoError(t, r.Ch.ExchangeDeclare(r.exchange, "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": kind}))
	_, err := r.Ch.QueueDeclare(r.queue, true, false, false, false, nil)
	require.NoError(t, err)
	require.NoError(t, r.Ch.QueueBind(r.queue, "order.new", r.exchange, false, amqp091.Table{"x-match": "all", "route": "here"}))
	deliveries, _ := r.ConsumeUntil(r.queue)
	r.running.Go(func() {
		for d := range deliveries {
			r.account.Arrive(d.MessageId, r.account.Now())
		}
	})
	t.Cleanup(r.tidy)
	return r
}

// configure writes the configuration file. The ladder is no longer than it must be: each queue is a
// Raft group.
func (r *rehearsal) configure() {
	var steps []time.Duration
	for step := 100 * time.Millisecond; step < far; step *= 2 {
		steps = append(steps, step)
	}
	text := fmt.Sprintf(`url: %q
management: %q
prefix: %s
backend: binaryladder
binaryladder: {tick: 100ms, steps: %q}
serve:
  exchanges:
    - {name: %q, type: %s, to: %q, move_bindings: true}
`, r.Broker.URL(), management(r.TB, r.Broker), r.Prefix, binaryladder.List(steps...), r.exchange, r.kind, swap.DefaultTarget(r.exchange))
	r.config = filepath.Join(r.TempDir(), "delayer.yaml")
	require.NoError(r, os.WriteFile(r.config, []byte(text), 0o600))
	var err error
	r.cfg, err = backend.Load(r.config)
	require.NoError(r, err)
	r.cfg.Logger = slog.New(slog.DiscardHandler) // each failure is a publisher's error
}

// tidy removes what the rehearsal has declared.
func (r *rehearsal) tidy() {
	conn, err := amqp091.Dial(r.Broker.URL())
	require.NoError(r, err)
	defer conn.Close() //nolint:errcheck // the test ends
	plan, err := backend.Topology(r.cfg)
	require.NoError(r, err)
	all := plan.Add(evacuate.Plan(r.cfg.Prefix)).Add(entry.Spec{Name: r.exchange, Type: r.kind}.Side(r.cfg.Prefix))
	all = all.Add(topology.Plan{
		Exchanges: []topology.Exchange{{Name: r.exchange}, {Name: swap.DefaultTarget(r.exchange)}, {Name: record.Name(r.cfg.Prefix, r.exchange)}},
		Queues:    []topology.Queue{{Name: r.queue}},
	})
	ch, err := conn.Channel()
	require.NoError(r, err)
	for _, q := range all.Queues {
		_, _ = ch.QueueDelete(q.Name, false, false, false)
	}
	for _, x := range all.AllExchanges() {
		_ = ch.ExchangeDelete(x.Name, false, false)
	}
}

// code: the publishers use package migrate already. The exchange is switched in place, and the
// plugin delivers what it has.
func (r *rehearsal) code() {
	stop := r.publishers(r.wrapped())
	r.fill(pending, 300, 5*time.Second, 20*time.Second)
	r.switches("in-place")
	r.empty()
	stop()
	r.step("retire", r.flags()...)
}

// serve: the publishers know nothing, and do not stop before the end. Meanwhile the processes that
// serve are killed, and one rollback is made.
func (r *rehearsal) serve() {
	stop := r.publishers(&rawPublisher{conn: r.Conn})
	const inDays = 100
	r.fill(pending, 200, 12*time.Second, 24*time.Second)
	r.fill(days, inDays, far*24/25, far)
	r.wholeStep("assess", "--rabbitmqctl", r.ctl)
	all := []*serveProcess{r.startServe(), r.startServe()} // before the switch, or after it
	r.switches("serve")
	for range kills {
		for _, s := range all {
			time.Sleep(300 * time.Millisecond) // in which it passes on some
			s.kill()
		}
	}
	r.step("rollback", r.flags()...)
	r.switches("serve")
	r.step("evacuate", r.flags("--leave", "10s")...)
	r.empty()
	r.step("retire", r.flags()...)
	stop()
	require.NoError(r, r.account.Await(r.Context(), rehearsalPatience))
	for _, s := range all {
		s.stop()
	}
	assert.Len(r, r.inLadder(), inDays)
}

// evacuation: as code, and what the plugin has is moved.
func (r *rehearsal) evacuation() {
	stop := r.publishers(r.wrapped())
	const inDays = 100
	r.fill(pending, 200, 25*time.Second, 35*time.Second)
	r.fill(days, inDays, far*24/25, far)
	r.switches("in-place")
	for range kills[1:] { // in the middle of each of its stages
		r.killedStep("evacuate", r.flags("--leave", "10s")...)
	}
	r.step("evacuate", r.flags("--leave", "10s")...)
	stop()
	require.NoError(r, r.account.Await(r.Context(), rehearsalPatience))
	assert.Len(r, r.inLadder(), inDays)
	r.step("retire", r.flags()...)
}

// flags are those of a step that works on the exchange.
func (r *rehearsal) flags(more ...string) []string {
	return append([]string{"--exchange", r.exchange, "--rabbitmqctl", r.ctl}, more...)
}

// switches switches the exchange. It is killed at several places.
func (r *rehearsal) switches(mode string) {
	args := r.flags("--mode", mode, "--yes")
	for range kills[1:] {
		r.killedStep("switch", args...)
	}
	r.step("switch", args...)
}

// holds holds what was promised.
func (r *rehearsal) holds() {
	r.Helper()
	require.NoError(r, r.account.Await(r.Context(), rehearsalPatience))
	v := r.account.Verdict()
	r.Logf("%d confirmed, %d delivered, %d of them twice", v.Confirmed, v.Delivered, len(v.Twice))
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Empty(r, r.refused, "publishers were refused")
	for what, messages := range map[string][]account.Course[string]{"lost": v.Missing, "early": v.Early, "never published": v.Strangers} {
		assert.Empty(r, messages[:min(5, len(messages))], "%d %s", len(messages), what)
	}
}

// empty waits until the plugin holds nothing for the exchange.
func (r *rehearsal) empty() {
	r.Helper()
	require.Eventually(r, func() bool {
		for _, t := range r.tables() {
			for _, w := range t.Exchanges {
				if w.Exchange == r.exchange {
					return false
				}
			}
		}
		return true
	}, rehearsalPatience, 500*time.Millisecond)
}

// tables are what waits in the plugin, node by node.
func (r *rehearsal) tables() []node.Table {
	r.Helper()
	control, err := node.New(r.ctl)
	require.NoError(r, err)
	tables, err := control.Pending(r.Context())
	require.NoError(r, err)
	return tables
}

// inLadder takes all messages out of the Delayer's queues, and counts those of the series days by
// their id.
func (r *rehearsal) inLadder() map[string]int {
	ids := map[string]int{}
	for _, d := range inLadder(r.Rig, r.cfg) {
		if strings.HasPrefix(d.MessageId, days) {
			ids[d.MessageId]++
		}
	}
	return ids
}

// fill publishes messages to the plugin, whose delays are spread over a span.
func (r *rehearsal) fill(series string, n int, from, to time.Duration) {
	r.Helper()
	var channels []*amqp091.Channel
	for _, conn := range r.fillers {
		ch, err := conn.Channel()
		require.NoError(r, err)
		defer ch.Close() //nolint:errcheck // all is confirmed
		require.NoError(r, ch.Confirm(false))
		channels = append(channels, ch)
	}
	var confirms []*amqp091.DeferredConfirmation
	for i := range n {
		id, delay := fmt.Sprint(series, i), (from + (to-from)*time.Duration(i)/time.Duration(n)).Truncate(time.Millisecond)
		confirm, err := channels[i%len(channels)].PublishWithDeferredConfirm(r.exchange, "order.new", false, false, r.ask(id, series, delay))
		require.NoError(r, err)
		confirms = append(confirms, confirm)
		r.account.Answer(id, r.account.Now(), nil)
	}
	for _, confirm := range confirms {
		require.True(r, confirm.Wait())
	}
}

// ask notes a message that is about to be published. A broker counts in milliseconds.
func (r *rehearsal) ask(id, series string, delay time.Duration) amqp091.Publishing {
	now := r.account.At(time.Now().Truncate(time.Millisecond))
	r.account.Ask(account.Course[string]{ID: id, Asked: now, Delay: delay, Aside: series == days})
	msg := amqp091.Publishing{MessageId: id, DeliveryMode: amqp091.Persistent, Headers: amqp091.Table{"route": "here"}}
	if delay > 0 {
		msg.Headers["x-delay"] = delay.Milliseconds()
	}
	return msg
}

// A channelPublisher is a channel of amqp091-go, and so is what migrate.NewPublisher returns.
type channelPublisher interface {
	PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error
}

// wrapped opens a Delayer, as released code does.
func (r *rehearsal) wrapped() channelPublisher {
	d, err := backend.Open(r.Context(), r.cfg)
	require.NoError(r, err)
	r.Cleanup(func() { _ = d.Close() })
	return migrate.NewPublisher(d)
}

// publishers publish until stop is called. What fails is tried again, as an application does; every
// fourth message has no delay.
func (r *rehearsal) publishers(p channelPublisher) (stop func()) {
	const most, longest = 1_000_000, 3000
	ctx, cancel := context.WithCancel(context.Background())
	from := r.lives
	r.lives += most
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := from; ctx.Err() == nil; i++ {
			id, delay := fmt.Sprint(live, i), time.Duration(i*37%longest)*time.Millisecond
			if i%4 == 0 {
				delay = 0
			}
			for began := time.Now(); ; {
				within, end := context.WithTimeout(context.Background(), rehearsalPatience)
				err := p.PublishWithContext(within, r.exchange, "order.new", delay == 0, false, r.ask(id, live, delay))
				end()
				r.account.Answer(id, r.account.Now(), err)
				if err == nil || time.Since(began) > rehearsalPatience {
					break
				}
				r.mu.Lock()
				r.refused = append(r.refused, err)
				r.mu.Unlock()
				<-tick.C
			}
			<-tick.C
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	r.Cleanup(stop)
	return stop
}

// rawPublisher publishes as an application that knows nothing of the migration. It waits for each
// confirm, and opens its channel again.
type rawPublisher struct {
	conn    *amqp091.Connection
	ch      *amqp091.Channel
	returns chan amqp091.Return
}

func (p *rawPublisher) PublishWithContext(ctx context.Context, exchange, key string, mandatory, immediate bool, msg amqp091.Publishing) error {
	if p.ch == nil {
		ch, err := p.conn.Channel()
		if err != nil {
			return err
		}
		if err := ch.Confirm(false); err != nil {
			return err
		}
		p.ch, p.returns = ch, ch.NotifyReturn(make(chan amqp091.Return, 1))
	}
	confirm, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, exchange, key, mandatory, immediate, msg)
	ok := false
	if err == nil {
		ok, err = confirm.WaitContext(ctx)
	}
	if err == nil && !ok {
		err = errors.New("not confirmed")
	}
	if err != nil {
		_ = p.ch.Close()
		p.ch = nil
		return err
	}
	select {
	case <-p.returns: // comes before its confirm
		return errors.New("basic.return")
	default:
		return nil
	}
}
