package migrate_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

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
	return errKilled
}

// TestSwap_Killed goes the whole way there and back in both modes, with an exchange of each type.
// Each step is killed before the node has changed the exchange, or after: the same command finishes,
// and a rollback undoes. In place the exchange keeps its bindings on both sides, also to exclusive
// queues. What waits in the plugin arrives where the exchange leads by then.
func TestSwap_Killed(t *testing.T) {
	for _, mode := range []record.Mode{record.InPlace, record.Serving} {
		for _, kind := range []string{"topic", "direct", "fanout", "headers"} {
			t.Run(string(mode)+" "+kind, func(t *testing.T) {
				t.Parallel()
				vhost, autoDelete := "/", kind == "direct"
				if kind == "headers" {
					vhost = "a vhost/with a slash, " + string(mode)
				}
				r := newRigAt(t, needPlugin(t), vhost)
				arguments := amqp091.Table{"alternate-exchange": "amq.fanout"}
				r.delayed(kind, autoDelete, arguments)
				queue, behind, source, headers := r.neighbours(kind)
				if mode == record.InPlace {
					r.exclusive()
				}
				before := r.definition()
				for _, early := range []bool{true, false} {
					for _, finish := range []bool{true, false} {
						r.node = killedNode{r.control, early}
						_, err := r.trySwitch(mode)
						require.ErrorIs(t, err, errKilled)
						require.True(t, r.recorded())
						r.node = r.control
						if finish {
							r.switches(mode)
							require.False(t, r.definition().Delayed())
						}
						r.node = killedNode{r.control, early}
						require.ErrorIs(t, r.tryRollback(), errKilled)
						r.node = r.control
						require.NoError(t, r.tryRollback())
						require.Equal(t, before, r.definition(), "killed early: %v, finished: %v", early, finish)
						require.False(t, r.recorded())
					}
				}

				const n = 20
				delay := 4 * time.Second
				if mode == record.InPlace && !r.delivers(kind) {
					delay = 20 * time.Second // what is due before the switch is dropped
				}
				due := time.Now().Add(delay)
				r.publish(r.name, "a.key", n, delay, headers)
				r.publish(source, "a.key", n, delay, headers)
				require.True(t, r.switches(mode).Changed)
				require.True(t, time.Now().Before(due.Add(-time.Second)), "the machine is too slow for this test")
				after := r.definition()
				require.Equal(t, before.In, after.In)
				ends, all := []string{queue, behind}, 4*n
				if mode == record.Serving {
					ends, all = []string{r.served().Queue}, 4*n+1
					front := entry.Spec{Name: r.name, Type: kind, To: r.target()}.Front(r.Prefix).Exchanges[0]
					require.NoError(t, r.Ch.ExchangeDeclare(r.name, kind, true, false, false, false, front.Args()), "as serve declares it")
					require.Equal(t, after, r.definition())
					r.publish(r.name, "another.key", 1, 0, nil)
				} else {
					require.Equal(t, arguments, after.Arguments)
					require.Equal(t, before.Out, after.Out)
					require.NoError(t, r.Ch.ExchangeDeclare(r.name, kind, true, autoDelete, false, false, arguments), "as applications do now")
				}
				r.publish(r.name, "a.key", n, 0, headers)
				r.publish(source, "a.key", n, 0, headers)
				for _, q := range ends {
					r.arrives(q, all)
				}
				late := r.bound("late", r.name, "late.key", amqp091.Table{"h": "late"})
				require.NoError(t, r.tryRollback())
				require.NoError(t, r.Ch.QueueUnbind(late, "late.key", r.name, amqp091.Table{"h": "late"}))
				require.Equal(t, before, r.definition())
				if r.delivers(kind) {
					had := r.depth(queue)
					r.publish(r.name, "a.key", 1, time.Second, headers)
					r.publish(r.name, "a.key", 1, 0, headers)
					r.arrives(queue, had+2)
				}
				had := r.depth(late)
				r.switches(mode)
				r.publish(r.name, "late.key", 1, 0, amqp091.Table{"h": "late"})
				require.Equal(t, had, r.depth(late), "nothing leads there any more")
			})
		}
	}
}

// neighbours binds two queues, one of them through an exchange, and lets an exchange lead here.
func (r *rig) neighbours(kind string) (queue, behind, source string, headers amqp091.Table) {
	r.Helper()
	pattern := "a.key"
	var match amqp091.Table
	switch kind {
	case "topic":
		pattern = "a.*"
	case "headers":
		headers, match = amqp091.Table{"n": int64(7), "s": "x"}, amqp091.Table{"x-match": "all", "n": int64(7), "s": "x"}
	}
	queue = r.bound("q", r.name, pattern, match)
	further := r.Exchange("further", "topic", nil)
	require.NoError(r, r.Ch.ExchangeBind(further, pattern, r.name, false, match))
	behind = r.bound("behind", further, "#", nil)
	source = r.Prefix + "-source"
	require.NoError(r, r.Ch.ExchangeDeclare(source, "topic", true, true, false, false, nil)) // deletes itself
	require.NoError(r, r.Ch.ExchangeBind(r.name, "#", source, false, nil))
	return queue, behind, source, headers
}

// TestSwap_Load: publishers go on, and messages fall due while the exchange changes, there and
// back. None sees an error, and nothing is lost.
func TestSwap_Load(t *testing.T) {
	for _, mode := range []record.Mode{record.InPlace, record.Serving} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := newDelayed(t, topicOrFanout(t))
			const many, pending = 200, 50
			for i := range many {
				r.Bind(r.queue, fmt.Sprint("k.", i), r.name, nil)
			}
			before := r.definition()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var ids []string
			var refused error
			var running sync.WaitGroup
			running.Go(func() { ids, refused = r.publishes(ctx) })
			var waiting []amqp091.Publishing
			for i := range pending {
				waiting = append(waiting, asked(4*time.Second, amqp091.Publishing{MessageId: fmt.Sprint("pending ", i)}))
			}
			r.PublishDelayed(r.name, "k", waiting...)
			r.switches(mode)
			require.NoError(t, r.tryRollback())
			stop()
			running.Wait()
			require.NoError(t, refused)
			require.Equal(t, before, r.definition())
			for _, m := range waiting {
				ids = append(ids, m.MessageId)
			}
			queues := []string{r.queue}
			if mode == record.Serving {
				queues = append(queues, r.served().Queue)
			}
			came := map[string]int{}
			require.Eventually(t, func() bool {
				for _, queue := range queues {
					for d, ok, err := r.Ch.Get(queue, true); ok; d, ok, err = r.Ch.Get(queue, true) {
						require.NoError(t, err)
						came[d.MessageId]++
					}
				}
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
func (r *rig) publishes(ctx context.Context) (ids []string, err error) {
	p := rawPublisher{conn: r.Conn}
	for ctx.Err() == nil && err == nil {
		id := fmt.Sprint("live ", len(ids))
		msg := amqp091.Publishing{MessageId: id, DeliveryMode: amqp091.Persistent}
		const mandatory, immediate = true, false
		if err = p.PublishWithContext(r.Context(), r.name, "k", mandatory, immediate, msg); err == nil {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// TestSwap_Refused: nothing is changed, and the error says why.
func TestSwap_Refused(t *testing.T) {
	for name, c := range map[string]struct {
		mode    record.Mode
		kind    error
		says    string
		prepare func(r *rig)
	}{
		"an exclusive queue": {record.Serving, delayer.ErrConflict, "delayer serve cannot feed an exclusive queue", func(r *rig) { r.exclusive() }},
		"no permission":      {record.Serving, delayer.ErrAccess, "rabbitmqctl set_permissions", (*rig).narrow},
		"a target that exists": {record.Serving, delayer.ErrConflict, "which exists already", func(r *rig) {
			require.NoError(r, r.Ch.ExchangeDeclare(r.target(), "topic", true, false, false, false, nil))
		}},
		"serve with another target": {record.Serving, delayer.ErrConflict, "delayer serve was configured in another way", func(r *rig) {
			other := entry.Spec{Name: r.name, Type: "topic", To: "elsewhere"}
			require.NoError(r, objects.Of(r.broker, "").Apply(r.Context(), other.Side(r.Prefix)))
		}},
		"a circle": {record.Serving, delayer.ErrConflict, "messages would circle", func(r *rig) {
			other := r.Exchange("other", "fanout", nil)
			require.NoError(r, r.Ch.ExchangeBind(other, "k", r.name, false, nil))
			require.NoError(r, r.Ch.ExchangeBind(r.name, "k", other, false, nil))
		}},
		"an ordinary exchange": {record.InPlace, delayer.ErrConflict, "its type is topic", func(r *rig) {
			require.NoError(r, r.Ch.ExchangeDelete(r.name, false, false))
			require.NoError(r, r.Ch.ExchangeDeclare(r.name, "topic", true, false, false, false, nil))
		}},
		"a transient exchange": {record.Serving, delayer.ErrConflict, "it is transient", func(r *rig) {
			require.NoError(r, r.Ch.ExchangeDelete(r.name, false, false))
			require.NoError(r, r.Ch.ExchangeDeclare(r.name, "x-delayed-message", false, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newDelayed(t, "topic")
			c.prepare(r)
			before := r.definition()
			_, err := r.trySwitch(c.mode)
			require.ErrorIs(t, err, c.kind)
			require.ErrorContains(t, err, c.says)
			require.Equal(t, before, r.definition())
			require.False(t, r.recorded())
			_, err = r.api.Exchange(t.Context(), r.target())
			require.Equal(t, name == "a target that exists", err == nil)
			require.ErrorContains(t, r.tryRollback(), "it has no record")
		})
	}
}

// narrow lets the tool have a user who may do nothing outside the prefix and the target.
func (r *rig) narrow() {
	r.Helper()
	url := rabbittest.User(r, r.Broker, r.Broker.URL(), ".*", "^"+r.Prefix+`[.:]`, ".*")
	conn, err := broker.Dial(r.Context(), broker.Options{URL: url})
	require.NoError(r, err)
	r.broker = broker.NewControl(conn)
	r.Cleanup(r.broker.Close)
}

// TestSwap_SecondTool is refused while the first is at work.
func TestSwap_SecondTool(t *testing.T) {
	t.Parallel()
	r := newDelayed(t, "topic")
	_, release := r.swapper()
	second, err := broker.Dial(t.Context(), broker.Options{URL: r.Broker.URL()})
	require.NoError(t, err)
	defer second.Close()
	const patience = 300 * time.Millisecond
	began := time.Now()
	_, err = record.Take(t.Context(), second, r.Prefix, r.name, patience)
	require.ErrorIs(t, err, record.ErrLocked)
	require.ErrorContains(t, err, "another delayer migrate is at work")
	require.GreaterOrEqual(t, time.Since(began), patience-250*time.Millisecond)
	release()
	lock, err := record.Take(t.Context(), second, r.Prefix, r.name, time.Minute)
	require.NoError(t, err)
	lock.Release()
}

// TestSwap_Serve: bindings go to the target, and those that come later too when the switch is
// repeated. A queue that is exclusive to its connection stays where it is, and a rollback keeps it.
func TestSwap_Serve(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.delayed("headers", true, nil)
	queue := r.bound("q", r.name, "", amqp091.Table{"x-match": "any", "h": true})
	r.switches(record.Serving)
	r.publish(r.target(), "k", 1, 0, amqp091.Table{"h": true})
	r.arrives(queue, 1)
	late := r.bound("late", r.name, "", amqp091.Table{"h": "late"})
	require.False(t, r.switches(record.Serving).Changed)
	require.False(t, slices.ContainsFunc(r.definition().Out, func(b objects.Bound) bool { return b.Target == late }))
	r.publish(r.target(), "k", 1, 0, amqp091.Table{"h": "late"})
	r.arrives(late, 1)
	exclusive := r.exclusive()
	front := r.definition()
	_, err := r.trySwitch(record.Serving)
	require.ErrorContains(t, err, "delayer serve cannot feed an exclusive queue")
	require.Equal(t, front, r.definition())

	require.NoError(t, r.tryRollback())
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
	require.NotNil(t, r.Consume(r.served().Queue))
	require.NoError(t, r.tryRollback())
	_, err = r.trySwitch(record.InPlace)
	require.ErrorContains(t, err, "delayer serve serves it")
}
