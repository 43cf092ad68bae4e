package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// slow is a control whose calls take long, and reach no broker.
type slow struct {
	takes atomic.Int64 // nanoseconds
	calls atomic.Int64
}

func (s *slow) Do(context.Context, func(*amqp091.Channel) error) error {
	time.Sleep(time.Duration(s.takes.Load()))
	s.calls.Add(1)
	return nil
}

var quiet = slog.New(slog.DiscardHandler)

// TestDestinations_SlowFirstBinding: a route that takes long to bind, as in a reconnect, is looked
// after from then on.
func TestDestinations_SlowFirstBinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		control := &slow{}
		control.takes.Store(int64(3 * time.Second))
		d := NewDestinations(NewStage("p", true), control, "test", quiet)
		defer d.Close()
		_, err := d.Bind(t.Context(), "", "queue", nil, time.Hour)
		require.NoError(t, err)
		control.takes.Store(0)
		bound := control.calls.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Greater(t, control.calls.Load(), bound+30, "the binding is made again every second")
	})
}

// TestDestinations_Forget: a route is dropped ten minutes after its last message was due, and made
// anew on use.
func TestDestinations_Forget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		control := &slow{}
		d := NewDestinations(NewStage("p", true), control, "test", quiet)
		defer d.Close()
		_, err := d.Bind(t.Context(), "", "queue", nil, time.Minute)
		require.NoError(t, err)
		r := d.route(routeID{"", "queue", 1})
		time.Sleep(time.Minute + forgetAfter + 5*time.Second)
		synctest.Wait()
		require.EqualValues(t, forgotten, r.lastDue.Load())
		require.False(t, r.note(d.now()))
		_, err = d.Bind(t.Context(), "", "queue", nil, time.Minute)
		require.NoError(t, err)
		require.NotSame(t, r, d.route(routeID{"", "queue", 1}))
	})
}

// nowhere is a control of a broker that has no queue and no exchange.
type nowhere struct{ *slow }

func (n nowhere) Do(context.Context, func(*amqp091.Channel) error) error {
	n.calls.Add(1)
	return &amqp091.Error{Code: amqp091.NotFound, Reason: "NOT_FOUND - no queue 'gone' in vhost '/'"}
}

// TestDestinations_NeverThere: a name that never existed takes no memory, and nobody warns of it
// later.
func TestDestinations_NeverThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		control := nowhere{&slow{}}
		d := NewDestinations(NewStage("p", true), control, "test", slog.New(slog.NewTextHandler(&log, nil)))
		defer d.Close()
		for i := range 100 {
			for _, exchange := range []string{"", "x"} {
				_, err := d.Bind(t.Context(), exchange, fmt.Sprint("q", i), nil, time.Hour)
				require.ErrorIs(t, err, delayer.ErrUnroutable)
			}
		}
		require.NoError(t, d.Rebind(t.Context()))
		require.NoError(t, d.BindAgain(t.Context(), "", "q"))
		d.routes.Range(func(id, _ any) bool { require.Fail(t, "kept", "%v", id); return true })
		asked := control.calls.Load()
		time.Sleep(2 * forgetAfter)
		synctest.Wait()
		require.Equal(t, asked, control.calls.Load())
		require.Empty(t, log.String())
	})
}

// TestMover_FixesOneDestination: a message that has missed its bindings costs those of its own
// destination, however many others are bound.
func TestMover_FixesOneDestination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		control := &slow{}
		d := NewDestinations(NewStage("p", true), control, "test", quiet)
		defer d.Close()
		for i := range 300 {
			_, err := d.Bind(t.Context(), "", fmt.Sprint("q", i), nil, time.Hour)
			require.NoError(t, err)
		}
		m := &Mover{
			cfg: MoverConfig{Destinations: d}, stage: d.stage, log: quiet, fixed: pace.Pauses[gap]{First: fixEvery, Longest: fixEvery},
		}
		time.Sleep(time.Millisecond)
		missed := func(queue string) int64 {
			before := control.calls.Load()
			m.fix(t.Context(), &letter{Delivery: &amqp091.Delivery{
				RoutingKey: queue, Headers: amqp091.Table{"x-death": []any{amqp091.Table{"queue": "wait.01"}}},
			}})
			return control.calls.Load() - before
		}
		require.EqualValues(t, 1, missed("q7"))
		require.Zero(t, missed("q7"), "it was just fixed")
		require.EqualValues(t, 1, missed("q8"))
		require.EqualValues(t, 1, missed("another process's"))
		time.Sleep(fixEvery)
		require.EqualValues(t, 1, missed("q7"))
	})
}

// TestOwns reads the broker's 404, in which names are quoted as they are.
func TestOwns(t *testing.T) {
	s := NewStage("p", true)
	for reason, want := range map[string]bool{
		"NOT_FOUND - no exchange 'p.delivery' in vhost '/'":              true,
		"NOT_FOUND - no exchange 'p.delivery.exchanges' in vhost 'a'b'":  true,
		"NOT_FOUND - no exchange 'p.delivery.fork' in vhost '/'":         true,
		"NOT_FOUND - no queue 'p.delivery' in vhost '/'":                 false,
		"NOT_FOUND - no queue 'x'p.delivery'y' in vhost '/'":             false,
		"NOT_FOUND - no exchange 'x'p.delivery'y' in vhost '/'":          false,
		"NOT_FOUND - no exchange 'p.delivery' in vhost 'x' in vhost '/'": false,
		"NOT_FOUND - no exchange 'p.delivery\n' in vhost '/'":            false,
		"PRECONDITION_FAILED - no exchange 'p.delivery' in vhost '/'":    false,
	} {
		require.Equal(t, want, s.owns(reason), reason)
	}
}

var _ control = (*broker.Control)(nil)

// FuzzKey: a delivery key fits into AMQP's 255 bytes, has as many words as the user's, is never a
// key that a user may have, and leads to one destination.
func FuzzKey(f *testing.F) {
	f.Add("orders", "", "a.b.c", "x", "")
	f.Add("", "orders", "", "orders", "")
	f.Add("a", "b", strings.Repeat(".", 255), "", "ab")
	f.Add("\xff", "", "\x00.\n", "", "\xff")
	f.Fuzz(func(t *testing.T, exchange, queue, user, exchange2, queue2 string) {
		words := message.Words(user)
		key := Key(exchange, queue, words)
		require.LessOrEqual(t, len(key), 255)
		require.True(t, utf8.ValidString(key))
		require.True(t, strings.HasPrefix(key, message.Reserved))
		require.Len(t, strings.Split(key, "."), words)
		if n := strings.Count(user, ".") + 1; user != "" && n <= message.MostWords {
			require.Equal(t, n, words)
		}
		same := exchange == exchange2 && (exchange != "" || queue == queue2)
		require.Equal(t, same, key == Key(exchange2, queue2, words), "%q %q, %q %q", exchange, queue, exchange2, queue2)
	})
}
