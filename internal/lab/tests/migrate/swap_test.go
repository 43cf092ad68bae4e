package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// kinds are the types by which the plugin's exchanges route in these tests.
var kinds = []string{"topic", "direct", "fanout", "headers"}

// TestSwap_OnNode: on the node an exchange changes its type there and back while it is used. It
// keeps its bindings on both sides, also to exclusive queues, and nobody sees it missing.
func TestSwap_OnNode(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			vhost, autoDelete := "/", kind == "direct"
			if kind == "headers" {
				vhost = "a vhost/with a slash"
				vhostOf(t, needPlugin(t), vhost)
			}
			r := newSwapRigAt(t, vhost)
			r.onNode = true
			r.delayed(kind, autoDelete, amqp091.Table{"alternate-exchange": "amq.fanout"})
			queue, behind, source, headers := r.neighbours(kind)
			r.exclusive()
			before := r.definition()

			const n = 20
			delay := 5 * time.Second
			if !r.delivers(kind) {
				delay = 20 * time.Second // what is due before the switch is dropped
			}
			r.publish(r.name, "a.key", n, delay, headers)
			r.publish(source, "a.key", n, delay, headers)
			result := r.switches(record.InPlace)
			require.True(t, result.Changed)
			require.Zero(t, result.Gap)
			after := r.definition()
			require.Equal(t, kind, after.Type)
			require.Equal(t, amqp091.Table{"alternate-exchange": "amq.fanout"}, after.Arguments)
			require.Equal(t, before.Out, after.Out)
			require.Equal(t, before.In, after.In)
			require.NoError(t, r.Ch.ExchangeDeclare(r.name, kind, true, autoDelete, false, false, amqp091.Table{"alternate-exchange": "amq.fanout"}), "as applications do now")
			r.publish(r.name, "a.key", n, 0, headers)
			r.publish(source, "a.key", n, 0, headers)
			for _, q := range []string{queue, behind} {
				r.arrives(q, 4*n)
			}
			late := r.queue("late", r.name, "late.key", amqp091.Table{"h": "late"})

			r.rollsBack()
			require.NoError(t, r.Ch.QueueUnbind(late, "late.key", r.name, amqp091.Table{"h": "late"}))
			require.Equal(t, before, r.definition())
			if r.delivers(kind) {
				r.publish(r.name, "a.key", 1, time.Second, headers)
				r.publish(r.name, "a.key", 1, 0, headers)
				r.arrives(queue, 4*n+2)
			}
			r.switches(record.InPlace)
			if kind != "fanout" {
				r.publish(r.name, "late.key", 1, 0, amqp091.Table{"h": "late"})
				require.Zero(t, r.depth(late), "nothing leads there any more")
			}
		})
	}
}

// neighbours binds two queues, one of them through an exchange, and lets an exchange lead here.
func (r *swapRig) neighbours(kind string) (queue, behind, source string, headers amqp091.Table) {
	r.Helper()
	pattern := "a.key"
	var match amqp091.Table
	switch kind {
	case "topic":
		pattern = "a.*"
	case "headers":
		headers, match = amqp091.Table{"n": int64(7), "s": "x"}, amqp091.Table{"x-match": "all", "n": int64(7), "s": "x"}
	}
	queue = r.queue("q", r.name, pattern, match)
	further := r.exchange("further", "topic", false)
	require.NoError(r, r.Ch.ExchangeBind(further, pattern, r.name, false, match))
	behind = r.queue("behind", further, "#", nil)
	source = r.exchange("source", "topic", true)
	require.NoError(r, r.Ch.ExchangeBind(r.name, "#", source, false, nil))
	return queue, behind, source, headers
}

// TestSwap_PendingArrives: what waits in the plugin arrives through the bindings of the exchange
// that took over, if it is not due while that is deleted and declared again.
func TestSwap_PendingArrives(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t)
			r.delayed(kind, false, amqp091.Table{"alternate-exchange": "amq.fanout"})
			queue, behind, source, headers := r.neighbours(kind)
			before := r.definition()
			const n = 20
			for delay := 5 * time.Second; ; delay *= 2 { // until the switch is faster
				r.publish(r.name, "a.key", n, delay, headers)
				r.publish(source, "a.key", n, delay, headers)
				due := time.Now().Add(delay / 2) // the first were published before
				require.Positive(t, r.switches(record.InPlace).Gap)
				if time.Now().Before(due) {
					break
				}
				r.rollsBack()
				for _, q := range []string{queue, behind} {
					_, err := r.Ch.QueuePurge(q, false)
					require.NoError(t, err)
				}
			}
			after := r.definition()
			require.Equal(t, kind, after.Type)
			require.Equal(t, before.Out, after.Out)
			require.Equal(t, before.In, after.In)
			for _, q := range []string{queue, behind} {
				r.arrives(q, 2*n)
			}
			r.rollsBack()
			require.Equal(t, before, r.definition())
			if r.delivers(kind) {
				r.publish(r.name, "a.key", 1, time.Second, headers)
				r.arrives(queue, 2*n+1)
			}
		})
	}
}

// TestSwap_Load: publishers go on. On the node none sees an error, and nothing is lost there and
// back. Without rabbitmqctl a publisher gets a closed channel, or for an instant its mandatory
// message back; what was confirmed and not returned arrives.
func TestSwap_Load(t *testing.T) {
	for name, c := range map[string]struct {
		mode   record.Mode
		onNode bool
	}{
		"in-place": {record.InPlace, false}, "serve": {record.Serving, false},
		"in-place on the node": {record.InPlace, true}, "serve on the node": {record.Serving, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t)
			r.onNode = c.onNode
			kind := "topic"
			if !r.delivers(kind) {
				kind = "fanout"
			}
			r.delayed(kind, false, nil)
			queue := r.queue("q", r.name, "#", nil)
			const many, pending = 200, 50
			for i := range many {
				require.NoError(t, r.Ch.QueueBind(queue, fmt.Sprint("k.", i), r.name, true, nil))
			}
			require.NoError(t, r.Ch.Qos(1, 0, false))
			ctx, stop := context.WithCancel(t.Context())
			load := load{lost: map[string]bool{}}
			var running sync.WaitGroup
			running.Go(func() { load.run(ctx, r) })
			if c.onNode { // some fall due while it changes
				r.publish(r.name, "k", pending, 4*time.Second, nil)
			}
			result := r.switches(c.mode)
			require.Equal(t, many+1, result.Bindings)
			if c.onNode {
				r.rollsBack()
			}
			stop()
			running.Wait()
			t.Logf("away for at most %v; %d confirmed, %d of them returned; %d refused with 404", result.Gap, load.confirmed, load.returned, load.refused)
			if c.onNode {
				require.Zero(t, result.Gap+time.Duration(load.refused+load.returned))
				for i := range pending {
					load.lost[fmt.Sprint(4*time.Second, i)] = true
				}
			}
			want := len(load.lost)
			sum := func() int { return r.depth(queue) + r.depth(r.served().Queue) }
			require.Eventually(t, func() bool { return sum() >= want }, time.Minute, 50*time.Millisecond, "%d of %d", sum(), want)
			if twice := sum() - want; c.mode == record.Serving && c.onNode {
				t.Logf("%d came twice", twice)
			} else {
				require.Zero(t, twice)
			}
			load.collect(r, queue, r.served().Queue)
		})
	}
}

// A load is a publisher, what it was told, and what has not arrived of that.
type load struct {
	name                         string // with which the ids of its messages begin
	confirmed, returned, refused int
	lost                         map[string]bool
}

// collect reads queues until all has arrived.
func (l *load) collect(r *swapRig, queues ...string) {
	r.Helper()
	var all sync.WaitGroup
	in, done := make(chan string), make(chan struct{})
	defer all.Wait()
	defer close(done)
	for _, name := range queues {
		if r.depth(name) == 0 {
			continue
		}
		deliveries, err := rabbittest.Channel(r.TB, r.Broker).Consume(name, "", true, false, false, false, nil)
		require.NoError(r, err)
		all.Go(func() {
			for {
				select {
				case d := <-deliveries:
					select {
					case in <- d.MessageId:
					case <-done:
						return
					}
				case <-done:
					return
				}
			}
		})
	}
	patience := time.After(time.Minute)
	for len(l.lost) > 0 {
		select {
		case id := <-in:
			delete(l.lost, id)
		case <-patience:
			require.Fail(r, "messages are lost", "%d", len(l.lost))
		}
	}
}

// run publishes mandatory messages without a delay until ctx ends.
func (l *load) run(ctx context.Context, r *swapRig) {
	for ctx.Err() == nil {
		ch, err := r.Conn.Channel()
		if err == nil {
			err = ch.Confirm(false)
		}
		if err != nil {
			r.Error(err)
			return
		}
		l.publish(ctx, ch, r)
	}
}

// publish goes on until the channel is closed.
func (l *load) publish(ctx context.Context, ch *amqp091.Channel, r *swapRig) {
	defer func() { _ = ch.Close() }()
	returns := ch.NotifyReturn(make(chan amqp091.Return, 1))
	for ctx.Err() == nil {
		id := fmt.Sprint(l.name, " ", l.confirmed, " ", l.refused)
		c, err := ch.PublishWithDeferredConfirm(r.name, "k", true, false, amqp091.Publishing{MessageId: id, DeliveryMode: amqp091.Persistent})
		if err != nil {
			return
		}
		if ok, err := c.WaitContext(r.Context()); !ok || err != nil {
			l.refused++
			return
		}
		l.confirmed++
		select {
		case <-returns: // comes before its confirm
			l.returned++
		default:
			l.lost[id] = true
		}
	}
}

// dying does so many operations, and then none any more: what a killed tool has done.
type dying struct {
	swap.Wire
	left *int
}

var errDead = errors.New("killed")

// Perform sends what is left of its life.
func (d dying) Perform(ctx context.Context, ops []swap.Op) error {
	n := min(*d.left, len(ops))
	*d.left -= n
	if err := d.Wire.Perform(ctx, ops[:n]); err != nil || n == len(ops) && *d.left > 0 {
		return err
	}
	return errDead
}

// Exists is not answered either.
func (d dying) Exists(ctx context.Context, name string) (bool, error) {
	if *d.left == 0 {
		return false, errDead
	}
	return d.Wire.Exists(ctx, name)
}

// TestSwap_Killed: the tool is killed after each operation in turn; the same command run again
// finishes, and a rollback undoes.
func TestSwap_Killed(t *testing.T) {
	for _, mode := range []record.Mode{record.InPlace, record.Serving} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t)
			r.delayed("direct", true, nil)
			r.queue("a", r.name, "a", nil)
			r.queue("b", r.name, "b", nil)
			source := r.exchange("source", "topic", true)
			require.NoError(t, r.Ch.ExchangeBind(r.name, "#", source, false, nil))
			before := r.definition()
			for kill := 1; ; kill++ {
				left := kill
				var err error
				r.tool(func(s *swap.Swapper) {
					s.Broker = dying{swap.Wire{Conn: r.conn}, &left}
					_, err = s.Switch(t.Context(), mode, "")
				})
				if err != nil {
					require.ErrorIs(t, err, errDead)
					r.switches(mode)
				}
				after := r.definition()
				require.Equal(t, before.In, after.In)
				require.False(t, after.Delayed())
				if mode == record.InPlace {
					require.Equal(t, before.Out, after.Out, "killed after %d operations", kill)
				}
				r.rollsBack()
				require.Equal(t, before, r.definition(), "killed after %d operations", kill)
				if err == nil {
					break
				}
			}
		})
	}
}

// TestSwap_Exclusive: nobody but its connection can bind an exclusive queue again. Where that is
// needed the switch is refused before anything is changed, and says which queue and what to do.
func TestSwap_Exclusive(t *testing.T) {
	for name, c := range map[string]struct {
		mode   record.Mode
		onNode bool
		says   string
	}{
		"in-place":          {record.InPlace, false, "give --rabbitmqctl"},
		"serve":             {record.Serving, false, "delayer serve cannot feed an exclusive queue"},
		"serve on the node": {record.Serving, true, "delayer serve cannot feed an exclusive queue"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t)
			r.onNode = c.onNode
			r.delayed("fanout", false, nil)
			queue := r.queue("q", r.name, "k", nil)
			exclusive := r.exclusive()
			before := r.definition()
			r.refuses(exclusive, c.says, record.Prepared, func(s *swap.Swapper) error {
				_, err := s.Switch(t.Context(), c.mode, "")
				return err
			})
			require.Equal(t, before, r.definition())
			there, err := swap.Wire{Conn: r.conn}.Exists(t.Context(), r.target())
			require.NoError(t, err)
			require.False(t, there)
			r.publish(r.name, "k", 1, time.Second, nil)
			r.arrives(queue, 1)
		})
	}
}

// TestSwap_ExclusiveServe: a consumer that binds an exclusive queue to an exchange of serve keeps
// it there until it is closed. Nothing is changed before.
func TestSwap_ExclusiveServe(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t)
	r.onNode = true
	r.delayed("topic", false, nil)
	r.queue("q", r.name, "k", nil)
	before := r.definition()
	r.switches(record.Serving)
	exclusive := r.exclusive()
	front := r.definition()
	for says, step := range map[string]func(*swap.Swapper) error{
		"delayer serve cannot feed an exclusive queue": func(s *swap.Swapper) error { _, err := s.Switch(t.Context(), record.Serving, ""); return err },
		"close that consumer, and let it bind":         func(s *swap.Swapper) error { _, err := s.Rollback(t.Context()); return err },
	} {
		r.refuses(exclusive, says, record.Switched, step)
		require.Equal(t, front, r.definition())
	}
	_, err := r.Ch.QueueDelete(exclusive, false, false, false)
	require.NoError(t, err)
	r.rollsBack()
	require.Equal(t, before, r.definition())
}

// exclusive binds an exclusive queue to the exchange.
func (r *swapRig) exclusive() string {
	r.Helper()
	q, err := r.Ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(r, err)
	require.NoError(r, r.Ch.QueueBind(q.Name, "#", r.name, false, nil))
	return q.Name
}

// refuses expects that a step is refused because of a queue, and leaves the record at its step.
func (r *swapRig) refuses(queue, says string, at record.Step, step func(*swap.Swapper) error) {
	r.Helper()
	r.tool(func(s *swap.Swapper) {
		err := step(s)
		require.ErrorIs(r, err, delayer.ErrConflict)
		require.ErrorContains(r, err, queue)
		require.ErrorContains(r, err, says)
		latest, _ := s.Journal.Record()
		require.Equal(r, at, latest.Step)
	})
}

// TestSwap_FrontPending: what waits in the plugin reaches serve's queue when it is due. The
// plugin routes it by the former type.
func TestSwap_FrontPending(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t)
			r.delayed(kind, false, nil)
			queue := r.queue("q", r.name, "a.key", amqp091.Table{"x-match": "all", "h": true})
			served := func() (gap time.Duration) {
				for delay := 5 * time.Second; ; delay *= 2 { // until the switch is faster
					for _, q := range []string{queue, r.served().Queue} {
						r.Fresh(func(ch *amqp091.Channel) error { _, err := ch.QueuePurge(q, false); return err })
					}
					due := time.Now().Add(delay)
					r.publish(r.name, "a.key", 3, delay, amqp091.Table{"h": true})
					gap = r.switches(record.Serving).Gap
					if time.Now().Before(due) {
						break
					}
					r.rollsBack()
				}
				r.publish(r.name, "a.key", 2, 0, amqp091.Table{"h": true})
				r.arrives(r.served().Queue, 5)
				require.Zero(t, r.depth(queue))
				return gap
			}
			served()
			r.onNode = true
			r.rollsBack()
			if r.delivers(kind) {
				r.publish(r.name, "a.key", 1, 0, amqp091.Table{"h": true})
				r.arrives(queue, 1)
			}
			require.Zero(t, served())
			before := r.definition()
			front := entry.Spec{Name: r.name, Type: kind, To: r.target()}.Front(r.prefix).Exchanges[0]
			require.NoError(t, r.Ch.ExchangeDeclare(r.name, kind, true, false, false, false, front.Args()), "as serve declares it")
			require.Equal(t, before, r.definition())
			r.tool(func(s *swap.Swapper) { require.NoError(t, s.Settle(t.Context())) })
			r.publish(r.name, "a.key", 1, 0, amqp091.Table{"h": true})
			r.publish(r.name, "another.key", 1, 0, nil)
			r.arrives(r.served().Queue, 7)
			require.Zero(t, r.depth(queue))
		})
	}
}

// TestSwap_Front: what is published to a front is in serve's queue, what the plugin held too.
func TestSwap_Front(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t)
	r.delayed("headers", false, nil)
	queue := r.queue("q", r.name, "", amqp091.Table{"x-match": "any", "h": true})
	r.publish(r.name, "k", 3, 3*time.Second, amqp091.Table{"h": true})
	r.tool(func(s *swap.Swapper) {
		_, err := s.Switch(t.Context(), record.Serving, "")
		require.NoError(t, err)
	})
	r.publish(r.name, "k", 2, time.Hour, nil)
	r.arrives(r.served().Queue, 5)
	require.Zero(t, r.depth(queue))
	r.publish(r.target(), "k", 1, 0, amqp091.Table{"h": true})
	r.arrives(queue, 1)

	late := r.queue("late", r.name, "", amqp091.Table{"h": "late"})
	r.tool(func(s *swap.Swapper) {
		_, err := s.Switch(t.Context(), record.Serving, "")
		require.NoError(t, err)
	})
	require.False(t, slices.ContainsFunc(r.definition().Out, func(b inventory.BindingInfo) bool { return b.Target == late }))
	r.publish(r.target(), "k", 1, 0, amqp091.Table{"h": "late"})
	r.arrives(late, 1)

	r.tool(func(s *swap.Swapper) {
		_, err := s.Rollback(t.Context())
		require.NoError(t, err)
		require.True(t, r.definition().Delayed())
		require.ErrorContains(t, s.RemoveServe(t.Context(), swap.Wire{Conn: r.conn}, swap.Left{}), "has 5 messages")
		_, err = r.Ch.QueuePurge(r.served().Queue, false)
		require.NoError(t, err)
		require.NoError(t, s.RemoveServe(t.Context(), swap.Wire{Conn: r.conn}, swap.Left{}))
		latest, _ := s.Journal.Record()
		require.Equal(t, record.Prepared, latest.Step)
		require.Empty(t, latest.Target)
	})
}

// TestSwap_Left: the end of serve waits for no message of others. What waits for the target is
// delivered by the exchange, and only what serve must deliver holds it up.
func TestSwap_Left(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t)
	r.delayed("fanout", false, nil)
	queue := r.queue("q", r.name, "k", nil)
	d := rabbittest.Open(t, ladder(r.url, r.prefix))
	const another, soon, late = "another", 2 * time.Second, time.Hour
	require.NoError(t, d.Publish(t.Context(), "", r.Queue(another, nil), late, amqp091.Publishing{}))
	remove := func(left swap.Left) (err error) {
		r.tool(func(s *swap.Swapper) { err = s.RemoveServe(t.Context(), swap.Wire{Conn: r.conn}, left) })
		return err
	}
	r.switches(record.Serving)
	r.rollsBack()
	require.NoError(t, remove(swap.Left{Waiting: 1}), "nothing waits for serve")

	r.switches(record.Serving)
	require.NoError(t, d.Publish(t.Context(), r.target(), "k", soon, amqp091.Publishing{MessageId: "soon"}))
	r.rollsBack()
	require.ErrorContains(t, remove(swap.Left{Waiting: 2, ByName: true}), fmt.Sprintf("the Delayer has 2 messages that may be for %q", r.target()))
	require.NoError(t, remove(swap.Left{Waiting: 2}))
	there, err := swap.Wire{Conn: r.conn}.Exists(t.Context(), r.target())
	require.NoError(t, err)
	require.False(t, there)
	require.Equal(t, "soon", rabbittest.Next(t, r.Consume(queue)).MessageId)

	r.switches(record.Serving)
	back := r.served().Back
	require.NoError(t, d.Publish(t.Context(), "", back, late, amqp091.Publishing{}))
	r.rollsBack()
	require.ErrorContains(t, remove(swap.Left{Waiting: 2}), fmt.Sprintf("the Delayer has 2 messages that may be for %q", back))
	require.NoError(t, remove(swap.Left{Waiting: 2, Force: true}))
}

// TestSwap_Permissions: a user who may not configure the exchange finds out before it is deleted.
func TestSwap_Permissions(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t)
	r.delayed("topic", false, nil)
	r.queue("q", r.name, "#", nil)
	const user, password = "narrow", "secret"
	change(t, r.Broker, http.MethodPut, map[string]string{"password": password, "tags": ""}, "users", user)
	t.Cleanup(func() { change(t, r.Broker, http.MethodDelete, nil, "users", user) })
	prefixAlone := map[string]string{"configure": "^" + r.prefix + `\.`, "write": ".*", "read": ".*"}
	change(t, r.Broker, http.MethodPut, prefixAlone, "permissions", "/", user)
	address, err := url.Parse(r.Broker.URL())
	require.NoError(t, err)
	address.User = url.UserPassword(user, password)
	r.conn, err = broker.Dial(t.Context(), broker.Options{URL: address.String()})
	require.NoError(t, err)
	defer r.conn.Close()
	before := r.definition()
	r.tool(func(s *swap.Swapper) {
		_, err := s.Switch(t.Context(), record.InPlace, "")
		require.ErrorIs(t, err, delayer.ErrAccess)
		require.ErrorContains(t, err, "configure")
		latest, _ := s.Journal.Record()
		require.Equal(t, record.Prepared, latest.Step)
	})
	require.Equal(t, before, r.definition())
}
