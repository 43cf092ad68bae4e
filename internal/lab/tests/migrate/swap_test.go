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
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// kinds are the types by which the plugin's exchanges route in these tests.
var kinds = []string{"topic", "direct", "fanout", "headers"}

// TestSwap_InPlace: an exchange changes its type there and back while it is used. It keeps its
// bindings on both sides, also to exclusive queues, and nobody sees it missing.
func TestSwap_InPlace(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			vhost, autoDelete := "/", kind == "direct"
			if kind == "headers" {
				vhost = "a vhost/with a slash"
				vhostOf(t, needPlugin(t), vhost)
			}
			r := newSwapRigAt(t, vhost)
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

			require.True(t, r.recorded())
			r.rollsBack()
			require.False(t, r.recorded())
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

// TestSwap_Load: publishers go on, and messages fall due while the exchange changes, there and
// back. None sees an error, and nothing is lost.
func TestSwap_Load(t *testing.T) {
	for _, mode := range []record.Mode{record.InPlace, record.Serving} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t)
			kind := "topic"
			if !r.delivers(kind) {
				kind = "fanout"
			}
			r.delayed(kind, false, nil)
			queue := r.queue("q", r.name, "#", nil)
			const many, pending = 200, 50
			for i := range many {
				require.NoError(t, r.Ch.QueueBind(queue, fmt.Sprint("k.", i), r.name, false, nil))
			}
			before := r.definition()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var ids []string
			var refused error
			var running sync.WaitGroup
			running.Go(func() { ids, refused = r.publishes(ctx) })
			r.publish(r.name, "k", pending, 4*time.Second, nil)
			r.switches(mode)
			r.rollsBack()
			stop()
			running.Wait()
			require.NoError(t, refused)
			require.Equal(t, before, r.definition())
			for i := range pending {
				ids = append(ids, fmt.Sprint(4*time.Second, i))
			}
			queues := []string{queue}
			if mode == record.Serving {
				queues = append(queues, r.served().Queue)
			}
			came := map[string]int{}
			require.Eventually(t, func() bool {
				r.collect(came, queues...)
				return len(came) >= len(ids)
			}, time.Minute, 100*time.Millisecond)
			for _, id := range ids {
				require.Positive(t, came[id], "%s is lost", id)
				if mode == record.InPlace {
					require.Equal(t, 1, came[id], id)
				}
			}
		})
	}
}

// publishes sends mandatory messages without a pause until ctx ends, and returns their ids. None may
// be refused or returned.
func (r *swapRig) publishes(ctx context.Context) (ids []string, err error) {
	ch, err := r.Conn.Channel()
	if err != nil {
		return nil, err
	}
	defer func() { _ = ch.Close() }()
	if err := ch.Confirm(false); err != nil {
		return nil, err
	}
	returns := ch.NotifyReturn(make(chan amqp091.Return, 1))
	for ctx.Err() == nil {
		id := fmt.Sprint("live ", len(ids))
		const mandatory, immediate = true, false
		c, err := ch.PublishWithDeferredConfirm(r.name, "k", mandatory, immediate, amqp091.Publishing{MessageId: id, DeliveryMode: amqp091.Persistent})
		if err != nil {
			return ids, err
		}
		if ok, err := c.WaitContext(r.Context()); !ok || err != nil {
			return ids, fmt.Errorf("%s: confirmed: %v, %w", id, ok, err)
		}
		select {
		case <-returns: // comes before its confirm
			return ids, fmt.Errorf("%s was returned", id)
		default:
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// collect takes all messages out of queues, and counts how often each came.
func (r *swapRig) collect(came map[string]int, queues ...string) {
	r.Helper()
	for _, queue := range queues {
		for {
			d, ok, err := r.Ch.Get(queue, true)
			require.NoError(r, err)
			if !ok {
				break
			}
			came[d.MessageId]++
		}
	}
}

// A killedNode is the node of a tool that is killed before the node changes the exchange, or after.
type killedNode struct {
	swap.Node
	before bool
}

func (k killedNode) Reshape(ctx context.Context, r node.Reshaping) error {
	if !k.before {
		if err := k.Node.Reshape(ctx, r); err != nil {
			return err
		}
	}
	return errDead
}

var errDead = errors.New("killed")

// TestSwap_Killed: a tool that was killed has left a record. The same command finishes, and a
// rollback undoes, which may be killed too.
func TestSwap_Killed(t *testing.T) {
	for _, mode := range []record.Mode{record.InPlace, record.Serving} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t)
			r.delayed("direct", true, amqp091.Table{"alternate-exchange": "amq.fanout"})
			r.queue("a", r.name, "a", nil)
			r.queue("b", r.name, "b", nil)
			source := r.exchange("source", "topic", true)
			require.NoError(t, r.Ch.ExchangeBind(r.name, "#", source, false, nil))
			before, whole := r.definition(), r.node
			for _, early := range []bool{true, false} {
				for _, finish := range []bool{true, false} {
					r.node = killedNode{whole, early}
					_, err := r.trySwitch(mode)
					require.ErrorIs(t, err, errDead)
					require.True(t, r.recorded())
					r.node = whole
					if finish {
						r.switches(mode)
						after := r.definition()
						require.Equal(t, before.In, after.In)
						require.False(t, after.Delayed())
						if mode == record.InPlace {
							require.Equal(t, before.Out, after.Out)
						}
					}
					r.node = killedNode{whole, early}
					require.ErrorIs(t, r.tryRollback(), errDead)
					r.node = whole
					r.rollsBack()
					require.Equal(t, before, r.definition(), "killed early: %v, finished: %v", early, finish)
					require.False(t, r.recorded())
				}
			}
		})
	}
}

// exclusive binds an exclusive queue to the exchange.
func (r *swapRig) exclusive() string {
	r.Helper()
	q, err := r.Ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(r, err)
	require.NoError(r, r.Ch.QueueBind(q.Name, "#", r.name, false, nil))
	return q.Name
}

// TestSwap_Refused: nothing is changed, and the error says why.
func TestSwap_Refused(t *testing.T) {
	for name, c := range map[string]struct {
		mode    record.Mode
		kind    error
		says    string
		prepare func(r *swapRig)
	}{
		"an exclusive queue": {record.Serving, delayer.ErrConflict, "delayer serve cannot feed an exclusive queue", func(r *swapRig) { r.exclusive() }},
		"no permission":      {record.Serving, delayer.ErrAccess, "rabbitmqctl set_permissions", (*swapRig).narrow},
		"a target that exists": {record.Serving, delayer.ErrConflict, "which exists already", func(r *swapRig) {
			require.NoError(r, r.Ch.ExchangeDeclare(r.target(), "topic", true, false, false, false, nil))
		}},
		"serve with another target": {record.Serving, delayer.ErrConflict, "delayer serve was configured in another way", func(r *swapRig) {
			other := entry.Spec{Name: r.name, Type: "topic", To: "elsewhere"}
			require.NoError(r, objects.Of(r.broker, "").Apply(r.Context(), other.Side(r.prefix)))
		}},
		"a circle": {record.Serving, delayer.ErrConflict, "messages would circle", func(r *swapRig) {
			other := r.exchange("other", "fanout", false)
			require.NoError(r, r.Ch.ExchangeBind(other, "k", r.name, false, nil))
			require.NoError(r, r.Ch.ExchangeBind(r.name, "k", other, false, nil))
		}},
		"an ordinary exchange": {record.InPlace, delayer.ErrConflict, "its type is topic", func(r *swapRig) {
			require.NoError(r, r.Ch.ExchangeDelete(r.name, false, false))
			require.NoError(r, r.Ch.ExchangeDeclare(r.name, "topic", true, false, false, false, nil))
		}},
		"no exchange": {record.InPlace, delayer.ErrUnroutable, "it does not exist", func(r *swapRig) {
			require.NoError(r, r.Ch.ExchangeDelete(r.name, false, false))
		}},
		"a transient exchange": {record.Serving, delayer.ErrConflict, "it is transient", func(r *swapRig) {
			require.NoError(r, r.Ch.ExchangeDelete(r.name, false, false))
			require.NoError(r, r.Ch.ExchangeDeclare(r.name, "x-delayed-message", false, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t)
			r.delayed("topic", false, nil)
			r.queue("q", r.name, "k", nil)
			c.prepare(r)
			before, there := r.api.Definition(t.Context(), r.name)
			_, err := r.trySwitch(c.mode)
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.says)
			after, err := r.api.Definition(t.Context(), r.name)
			require.Equal(t, there == nil, err == nil)
			require.Equal(t, before, after)
			require.False(t, r.recorded())
			_, err = r.api.Exchange(t.Context(), r.target())
			require.Equal(t, name == "a target that exists", err == nil)
			require.ErrorContains(t, r.tryRollback(), map[bool]string{true: "it has no record", false: "does not exist"}[there == nil])
		})
	}
}

// narrow lets the tool have a user who may do nothing outside the prefix and the target.
func (r *swapRig) narrow() {
	r.Helper()
	user, password := "narrow", "secret"
	change(r, r.Broker, http.MethodPut, map[string]string{"password": password, "tags": ""}, "users", user)
	r.Cleanup(func() { change(r, r.Broker, http.MethodDelete, nil, "users", user) })
	prefixAlone := map[string]string{"configure": ".*", "write": "^" + r.prefix + `[.:]`, "read": ".*"}
	change(r, r.Broker, http.MethodPut, prefixAlone, "permissions", "/", user)
	address, err := url.Parse(r.Broker.URL())
	require.NoError(r, err)
	address.User = url.UserPassword(user, password)
	conn, err := broker.Dial(r.Context(), broker.Options{URL: address.String()})
	require.NoError(r, err)
	r.broker = broker.NewControl(conn)
	r.Cleanup(r.broker.Close)
}

// TestSwap_SecondTool is refused while the first is at work.
func TestSwap_SecondTool(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t)
	r.delayed("topic", false, nil)
	_, release := swapperOf(t, r.broker, r.node, r.api, r.vhost, r.prefix, r.name)
	second, err := broker.Dial(t.Context(), broker.Options{URL: r.Broker.URL()})
	require.NoError(t, err)
	defer second.Close()
	const patience = 300 * time.Millisecond
	began := time.Now()
	_, err = record.Take(t.Context(), second, r.prefix, r.name, patience)
	require.ErrorIs(t, err, record.ErrLocked)
	require.ErrorContains(t, err, "another delayer migrate is at work")
	require.GreaterOrEqual(t, time.Since(began), patience-250*time.Millisecond)
	release()
	lock, err := record.Take(t.Context(), second, r.prefix, r.name, time.Minute)
	require.NoError(t, err)
	lock.Release()
}

// TestSwap_ServePending: what waits in the plugin reaches serve's queue when it is due. The plugin
// routes it by the former type.
func TestSwap_ServePending(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newSwapRig(t)
			r.delayed(kind, false, nil)
			queue := r.queue("q", r.name, "a.key", amqp091.Table{"x-match": "all", "h": true})
			const delay = 4 * time.Second
			r.publish(r.name, "a.key", 3, delay, amqp091.Table{"h": true})
			due := time.Now().Add(delay)
			r.switches(record.Serving)
			require.True(t, time.Now().Before(due.Add(-time.Second)), "the machine is too slow for this test")
			r.publish(r.name, "a.key", 2, 0, amqp091.Table{"h": true})
			r.arrives(r.served().Queue, 5)
			require.Zero(t, r.depth(queue))
			before := r.definition()
			front := entry.Spec{Name: r.name, Type: kind, To: r.target()}.Front(r.prefix).Exchanges[0]
			require.NoError(t, r.Ch.ExchangeDeclare(r.name, kind, true, false, false, false, front.Args()), "as serve declares it")
			require.Equal(t, before, r.definition())
			r.publish(r.name, "another.key", 1, 0, nil)
			r.arrives(r.served().Queue, 6)
			r.rollsBack()
			if r.delivers(kind) {
				r.publish(r.name, "a.key", 1, 0, amqp091.Table{"h": true})
				r.arrives(queue, 1)
			}
		})
	}
}

// TestSwap_Serve: bindings go to the target, and those that come later too when the switch is
// repeated. A queue that is exclusive to its connection stays where it is, and a rollback keeps it.
func TestSwap_Serve(t *testing.T) {
	t.Parallel()
	r := newSwapRig(t)
	r.delayed("headers", true, nil)
	queue := r.queue("q", r.name, "", amqp091.Table{"x-match": "any", "h": true})
	r.switches(record.Serving)
	r.publish(r.target(), "k", 1, 0, amqp091.Table{"h": true})
	r.arrives(queue, 1)
	late := r.queue("late", r.name, "", amqp091.Table{"h": "late"})
	require.False(t, r.switches(record.Serving).Changed)
	require.False(t, slices.ContainsFunc(r.definition().Out, func(b inventory.BindingInfo) bool { return b.Target == late }))
	r.publish(r.target(), "k", 1, 0, amqp091.Table{"h": "late"})
	r.arrives(late, 1)
	exclusive := r.exclusive()
	front := r.definition()
	_, err := r.trySwitch(record.Serving)
	require.ErrorContains(t, err, "delayer serve cannot feed an exclusive queue")
	require.Equal(t, front, r.definition())
	_, err = r.trySwitch(record.InPlace)
	require.ErrorContains(t, err, "rollback first")

	r.rollsBack()
	back := r.definition()
	require.True(t, back.Delayed())
	require.True(t, back.AutoDelete)
	var bound []string
	for _, b := range back.Out {
		bound = append(bound, b.Target)
	}
	require.ElementsMatch(t, []string{queue, late, exclusive}, bound)
	_, err = r.Ch.QueueDelete(exclusive, false, false, false)
	require.NoError(t, err)
	r.switches(record.Serving) // to the same target
	consumed := r.Consume(r.served().Queue)
	require.NotNil(t, consumed)
	r.rollsBack()
	_, err = r.trySwitch(record.InPlace)
	require.ErrorContains(t, err, "delayer serve serves it")
}
