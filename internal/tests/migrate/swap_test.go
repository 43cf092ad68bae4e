package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/migration/inventory"
	"github.com/delayer-go/delayer/internal/migration/record"
	"github.com/delayer-go/delayer/internal/migration/swap"
)

// slowly holds the gap open until a message is due.
type slowly struct {
	swap.Wire
	open time.Duration
}

// Perform pauses after the deletion.
func (s slowly) Perform(ctx context.Context, ops []swap.Op) error {
	if len(ops) == 0 || ops[0].Verb != swap.Delete || ops[1].Verb != swap.Declare {
		return s.Wire.Perform(ctx, ops)
	}
	if err := s.Wire.Perform(ctx, ops[:1]); err != nil {
		return err
	}
	time.Sleep(s.open)
	return s.Wire.Perform(ctx, ops[1:])
}

// TestSwap_PendingArrives: what waits in the plugin arrives through the bindings of the exchange
// that took over, also what falls due while there is none and the plugin is suspended.
func TestSwap_PendingArrives(t *testing.T) {
	for _, kind := range []string{"topic", "direct", "fanout", "headers"} {
		t.Run(kind, func(t *testing.T) {
			r := newSwapRig(t)
			control := r.control()
			r.delayed(kind, false, amqp091.Table{"alternate-exchange": "amq.fanout"})
			key, pattern := "a.key", "a.key"
			var headers, match amqp091.Table
			switch kind {
			case "topic":
				pattern = "a.*"
			case "headers":
				headers, match = amqp091.Table{"n": int64(7), "s": "x"}, amqp091.Table{"x-match": "all", "n": int64(7), "s": "x"}
			}
			queue := r.queue("q", r.name, pattern, match)
			further := r.exchange("further", "topic", false)
			require.NoError(t, r.ch.ExchangeBind(further, pattern, r.name, false, match))
			behind := r.queue("behind", further, "#", nil)
			source := r.exchange("source", "topic", true)
			require.NoError(t, r.ch.ExchangeBind(r.name, "#", source, false, nil))
			before := r.definition()

			const gap, n = 2 * time.Second, 20
			r.publish(r.name, key, n, 15*time.Second, headers)
			r.publish(r.name, key, n, 6*time.Second, headers)
			r.publish(source, key, n, 6*time.Second, headers)
			r.tool(func(s *swap.Swapper) {
				s.Suspend = control
				s.Broker = slowly{swap.Wire{Conn: r.conn}, gap}
				result, err := s.Switch(t.Context(), record.InPlace)
				require.NoError(t, err)
				require.True(t, result.Changed)
				require.True(t, result.Suspended)
				require.GreaterOrEqual(t, result.Gap, gap)
			})
			after := r.definition()
			require.Equal(t, kind, after.Type)
			require.Equal(t, before.Out, after.Out)
			require.Equal(t, before.In, after.In)
			require.Equal(t, amqp091.Table{"alternate-exchange": "amq.fanout"}, after.Arguments)
			for _, q := range []string{queue, behind} {
				r.arrives(q, 3*n)
			}
			r.publish(source, key, n, 0, headers)
			r.arrives(queue, 4*n)
			r.tool(func(s *swap.Swapper) {
				_, err := s.Rollback(t.Context())
				require.NoError(t, err)
			})
			require.Equal(t, before, r.definition())
			r.publish(r.name, key, 1, time.Second, headers)
			r.arrives(queue, 4*n+1)
		})
	}
}

// TestSwap_Load: publishers go on. What was confirmed and not returned arrives. In the gap a
// publisher gets a closed channel, or for an instant its mandatory message back.
func TestSwap_Load(t *testing.T) {
	for _, mode := range []record.Mode{record.InPlace, record.Bridging} {
		t.Run(string(mode), func(t *testing.T) {
			r := newSwapRig(t)
			control := r.control()
			r.delayed("topic", false, nil)
			queue := r.queue("q", r.name, "#", nil)
			const many, pending = 2000, 50
			for i := range many {
				require.NoError(t, r.ch.QueueBind(queue, fmt.Sprint("k.", i), r.name, true, nil))
			}
			require.NoError(t, r.ch.Qos(1, 0, false))
			ctx, stop := context.WithCancel(t.Context())
			var load load
			var running sync.WaitGroup
			running.Go(func() { load.run(ctx, r) })
			r.publish(r.name, "k", pending, 10*time.Second, nil)
			r.tool(func(s *swap.Swapper) {
				s.Suspend = control
				result, err := s.Switch(t.Context(), mode)
				require.NoError(t, err)
				require.Equal(t, many+1, result.Bindings)
				t.Logf("%s: away for at most %v", mode, result.Gap)
			})
			stop()
			running.Wait()
			t.Logf("%s: %d confirmed, %d of them returned; %d refused with 404", mode, load.confirmed, load.returned, load.refused)
			want := load.confirmed - load.returned + pending
			sum := func() int { return r.depth(queue) + r.depth(record.Bridge(r.prefix, r.name)) }
			require.Eventually(t, func() bool { return sum() >= want }, time.Minute, 50*time.Millisecond, "%d of %d", sum(), want)
			require.Equal(t, want, sum())
		})
	}
}

// A load is a publisher, and what it was told.
type load struct{ confirmed, returned, refused int }

// run publishes mandatory messages without a delay until ctx ends.
func (l *load) run(ctx context.Context, r *swapRig) {
	for ctx.Err() == nil {
		ch, err := r.user.Channel()
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
		c, err := ch.PublishWithDeferredConfirm(r.name, "k", true, false, amqp091.Publishing{DeliveryMode: amqp091.Persistent})
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
	for _, mode := range []record.Mode{record.InPlace, record.Bridging} {
		t.Run(string(mode), func(t *testing.T) {
			r := newSwapRig(t)
			r.delayed("direct", true, nil)
			r.queue("a", r.name, "a", nil)
			r.queue("b", r.name, "b", nil)
			source := r.exchange("source", "topic", true)
			require.NoError(t, r.ch.ExchangeBind(r.name, "#", source, false, nil))
			before := r.definition()
			for kill := 1; ; kill++ {
				left := kill
				var err error
				r.tool(func(s *swap.Swapper) {
					s.Broker = dying{swap.Wire{Conn: r.conn}, &left}
					_, err = s.Switch(t.Context(), mode)
				})
				if err != nil {
					require.ErrorIs(t, err, errDead)
					r.tool(func(s *swap.Swapper) {
						_, err := s.Switch(t.Context(), mode)
						require.NoError(t, err, "killed after %d operations", kill)
					})
				}
				after := r.definition()
				require.Equal(t, before.In, after.In)
				require.False(t, after.Delayed())
				if mode == record.InPlace {
					require.Equal(t, before.Out, after.Out, "killed after %d operations", kill)
				}
				r.tool(func(s *swap.Swapper) {
					_, err := s.Rollback(t.Context())
					require.NoError(t, err)
				})
				require.Equal(t, before, r.definition(), "killed after %d operations", kill)
				if err == nil {
					break
				}
			}
		})
	}
}

// TestSwap_Exclusive: nobody but its connection can bind an exclusive queue again.
func TestSwap_Exclusive(t *testing.T) {
	r := newSwapRig(t)
	r.delayed("topic", false, nil)
	q, err := r.ch.QueueDeclare("", false, true, true, false, nil)
	require.NoError(t, err)
	require.NoError(t, r.ch.QueueBind(q.Name, "#", r.name, false, nil))
	before := r.definition()
	r.tool(func(s *swap.Swapper) {
		_, err := s.Switch(t.Context(), record.InPlace)
		require.ErrorIs(t, err, delayer.ErrConflict)
		require.ErrorContains(t, err, "exclusive")
		latest, _ := s.Keeper.Record()
		require.Equal(t, record.Prepared, latest.Step)
	})
	require.Equal(t, before, r.definition())
}

// TestSwap_FrontPending: what waits in the plugin reaches the bridge's queue when it is due. The
// plugin routes it by the former type.
func TestSwap_FrontPending(t *testing.T) {
	for _, kind := range []string{"topic", "direct", "fanout", "headers"} {
		t.Run(kind, func(t *testing.T) {
			r := newSwapRig(t)
			r.delayed(kind, false, nil)
			queue := r.queue("q", r.name, "a.key", amqp091.Table{"x-match": "all", "h": true})
			r.publish(r.name, "a.key", 3, 6*time.Second, amqp091.Table{"h": true})
			r.tool(func(s *swap.Swapper) {
				_, err := s.Switch(t.Context(), record.Bridging)
				require.NoError(t, err)
			})
			r.publish(r.name, "a.key", 2, 0, amqp091.Table{"h": true})
			r.arrives(record.Bridge(r.prefix, r.name), 5)
			require.Zero(t, r.depth(queue))
			r.tool(func(s *swap.Swapper) {
				_, err := s.Switch(t.Context(), record.InPlace)
				require.NoError(t, err)
			})
			r.publish(r.name, "a.key", 1, 0, amqp091.Table{"h": true})
			r.arrives(queue, 1)
			require.Equal(t, 5, r.depth(record.Bridge(r.prefix, r.name)))
		})
	}
}

// TestSwap_Front: what is published to a front is in the bridge's queue, what the plugin held too.
func TestSwap_Front(t *testing.T) {
	r := newSwapRig(t)
	r.delayed("headers", false, nil)
	queue := r.queue("q", r.name, "", amqp091.Table{"x-match": "any", "h": true})
	r.publish(r.name, "k", 3, 3*time.Second, amqp091.Table{"h": true})
	r.tool(func(s *swap.Swapper) {
		_, err := s.Switch(t.Context(), record.Bridging)
		require.NoError(t, err)
	})
	r.publish(r.name, "k", 2, time.Hour, nil)
	r.arrives(record.Bridge(r.prefix, r.name), 5)
	require.Zero(t, r.depth(queue))
	r.publish(record.Behind(r.prefix, r.name), "k", 1, 0, amqp091.Table{"h": true})
	r.arrives(queue, 1)

	late := r.queue("late", r.name, "", amqp091.Table{"h": "late"})
	r.tool(func(s *swap.Swapper) {
		_, err := s.Switch(t.Context(), record.Bridging)
		require.NoError(t, err)
	})
	require.False(t, slices.ContainsFunc(r.definition().Out, func(b inventory.Binding) bool { return b.Target == late }))
	r.publish(record.Behind(r.prefix, r.name), "k", 1, 0, amqp091.Table{"h": "late"})
	r.arrives(late, 1)

	r.tool(func(s *swap.Swapper) {
		_, err := s.Rollback(t.Context())
		require.NoError(t, err)
		require.True(t, r.definition().Delayed())
		require.ErrorContains(t, s.RemoveBridge(t.Context(), swap.Wire{Conn: r.conn}, 0), "5 messages are in queue")
		_, err = r.ch.QueuePurge(record.Bridge(r.prefix, r.name), false)
		require.NoError(t, err)
		require.ErrorContains(t, s.RemoveBridge(t.Context(), swap.Wire{Conn: r.conn}, 9), "9 messages wait in the Delayer")
		require.NoError(t, s.RemoveBridge(t.Context(), swap.Wire{Conn: r.conn}, 0))
		latest, _ := s.Keeper.Record()
		require.Equal(t, record.Prepared, latest.Step)
		require.False(t, latest.Bridged)
	})
}

// TestSwap_Permissions: a user who may not configure the exchange finds out before it is deleted.
func TestSwap_Permissions(t *testing.T) {
	r := newSwapRig(t)
	r.delayed("topic", false, nil)
	r.queue("q", r.name, "#", nil)
	const user, password = "narrow", "secret"
	for _, args := range [][]string{
		{"add_user", user, password},
		{"set_permissions", "-p", "/", user, "^" + r.prefix + `\.`, ".*", ".*"}, // the prefix alone
	} {
		_, err := r.broker.Ctl(t.Context(), args...)
		require.NoError(t, err)
	}
	t.Cleanup(func() { _, _ = r.broker.Ctl(context.Background(), "delete_user", user) })
	address, err := url.Parse(r.broker.URL())
	require.NoError(t, err)
	address.User = url.UserPassword(user, password)
	r.conn, err = broker.Dial(t.Context(), broker.Options{URL: address.String()})
	require.NoError(t, err)
	defer r.conn.Close()
	before := r.definition()
	r.tool(func(s *swap.Swapper) {
		_, err := s.Switch(t.Context(), record.InPlace)
		require.ErrorIs(t, err, delayer.ErrAccess)
		require.ErrorContains(t, err, "configure")
		latest, _ := s.Keeper.Record()
		require.Equal(t, record.Prepared, latest.Step)
	})
	require.Equal(t, before, r.definition())
}
