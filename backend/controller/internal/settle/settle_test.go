package settle

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

// world answers each publish with the next of answers, and says what was asked of it.
type world struct {
	answers   []error
	published []broker.Publishing
	direct    int
	renewed   int
	renewal   error
	doubts    int
	said      bytes.Buffer
	missing   []string
	unknown   error
}

func (w *world) Publish(_ context.Context, msg broker.Publishing) error {
	w.published = append(w.published, msg)
	answer := w.answers[0]
	w.answers = w.answers[1:]
	return answer
}

func (w *world) PublishDirect(ctx context.Context, msg broker.Publishing) error {
	w.direct++
	return w.Publish(ctx, msg)
}

func (w *world) Renew(context.Context, time.Duration) error { w.renewed++; return w.renewal }
func (w *world) Doubt()                                     { w.doubts++ }

func (w *world) Missing(context.Context, topology.Plan) ([]string, error) {
	return w.missing, w.unknown
}

func (w *world) settler() *Settler {
	return &Settler{
		Backend: "b", Stage: delivery.NewStage("p", true), User: "u", Log: slog.New(slog.NewTextHandler(&w.said, nil)),
		out: w, renew: w.Renew, doubt: w.Doubt, missing: w.Missing,
		staged: pace.Pauses[string]{First: time.Minute, Longest: time.Minute},
	}
}

var returned = &delayer.Error{Kind: delayer.ErrUnroutable, Cause: broker.ErrReturned}

func due(exchange string) Message {
	return Message{
		Delivery: &amqp091.Delivery{RoutingKey: "key", UserId: "u", Headers: amqp091.Table{message.Stamp: "s"}},
		Envelope: message.NewEnvelope(time.Now().Add(-time.Second), 0, exchange),
		To:       []any{delivery.Key(exchange, "key", 1)}, BCC: []any{"own"},
	}
}

func TestSettler_Deliver(t *testing.T) {
	refused := &delayer.Error{Kind: delayer.ErrAccess, Cause: &amqp091.Error{Code: amqp091.AccessRefused, Server: true}}
	w := &world{answers: []error{nil, nil, refused, nil, nil, returned, nil, returned, nil}}
	s := w.settler()
	var told []delayer.DeliveryEvent
	s.Observer.Delivered = func(e delayer.DeliveryEvent) { told = append(told, e) }
	require.NoError(t, s.Deliver(t.Context(), due(""), ""))
	require.NoError(t, s.Deliver(t.Context(), due("events"), ""))
	require.NoError(t, s.Deliver(t.Context(), due("denied"), "apart"))
	require.NoError(t, s.Deliver(t.Context(), due("denied"), ""))
	require.NoError(t, s.Deliver(t.Context(), due(""), ""))
	require.NoError(t, s.Deliver(t.Context(), due("events"), ""), "it has no queue for it")
	moved := due("")
	moved.Delivery.RoutingKey = "p.intake"
	require.NoError(t, s.Deliver(t.Context(), moved, ""))
	for i, want := range []struct {
		exchange string
		to       string // by the stage
		apart    string
	}{
		{"", "", ""},
		{"events", "", ""},
		{"denied", "", "apart"},
		{"p.delivery.exchanges", delivery.Key("denied", "", 1), "apart"}, // the discard queue would hide a return
		{"p.delivery.exchanges", delivery.Key("denied", "", 1), ""},
		{"", "", ""},
		{"p.delivery", delivery.Key("", "key", 1), ""},
		{"events", "", ""},
		{"p.delivery", delivery.Key("", "key", 1), ""},
	} {
		msg := w.published[i]
		require.Equal(t, want.exchange, msg.Exchange)
		bcc := []any{"own"}
		if want.to != "" {
			bcc = append(bcc, want.to)
		}
		require.Equal(t, want.to == "", msg.Direct)
		require.Equal(t, bcc, msg.Message.Headers["BCC"])
		require.Equal(t, want.apart, msg.Apart)
		require.NotContains(t, msg.Message.Headers, message.Stamp)
		require.Equal(t, "u", msg.Message.UserId)
	}
	require.Empty(t, w.answers)
	for _, e := range told {
		require.GreaterOrEqual(t, e.Lateness, time.Second)
	}
	require.Equal(t, []string{"events", "key", "key"}, []string{told[1].Exchange, told[1].Key, w.published[1].Key})
}

// TestSettler_DeliverReturned: by the stage, the topology is declared once, and then it counts what is there.
func TestSettler_DeliverReturned(t *testing.T) {
	down := errors.New("down")
	for name, c := range map[string]struct {
		exchange string
		world    world
		want     error
	}{
		"taken the second time":             {"events", world{answers: []error{returned, nil}}, nil},
		"the user's exchange has no queue":  {"events", world{answers: []error{returned, returned}}, nil},
		"the path to unroutable is broken":  {"events", world{answers: []error{returned, returned}, missing: []string{"p.unroutable"}}, broker.ErrReturned},
		"it cannot be seen what is there":   {"events", world{answers: []error{returned, returned}, unknown: down}, down},
		"a queue knows no such case":        {"", world{answers: []error{returned, returned}}, broker.ErrReturned},
		"the topology cannot be declared":   {"", world{answers: []error{returned}, renewal: down}, down},
		"refused by the queue behind":       {"events", world{answers: []error{returned, delayer.ErrRefused}}, delayer.ErrRefused},
		"unknown, which the caller settles": {"events", world{answers: []error{returned, delayer.ErrUnknown}}, delayer.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			s, dropped := c.world.settler(), name == "the user's exchange has no queue"
			s.Observer.Delivered = func(e delayer.DeliveryEvent) { require.Equal(t, dropped, e.Dropped) }
			s.staged.Failed(c.exchange, time.Now())
			err := s.Deliver(t.Context(), due(c.exchange), "")
			require.ErrorIs(t, err, c.want)
			require.Equal(t, dropped, c.world.said.Len() > 0)
			require.Equal(t, 1, c.world.renewed)
			require.Empty(t, c.world.answers)
			require.Equal(t, errors.Is(c.want, broker.ErrReturned) || errors.Is(c.want, delayer.ErrRefused), Refused(err))
		})
	}
}

func TestSettler_Keep(t *testing.T) {
	w := &world{answers: []error{delayer.ErrUnknown, returned, nil}}
	s := w.settler()
	d := &amqp091.Delivery{RoutingKey: "key", Expiration: "5", Headers: amqp091.Table{"x": "y"}, UserId: "another"}
	require.ErrorIs(t, s.Keep(t.Context(), d, errors.New("it has no stamp")), delayer.ErrUnknown)
	require.Equal(t, 1, w.doubts, "the exchange may be gone")
	require.Contains(t, w.said.String(), "it has no stamp")
	require.NoError(t, s.Keep(t.Context(), d, errors.New("it has no stamp")))
	require.Equal(t, []int{3, 1}, []int{w.direct, w.renewed})
	for _, msg := range w.published {
		require.Equal(t, "p.unroutable.keep", msg.Exchange)
		require.Equal(t, amqp091.Publishing{Headers: amqp091.Table{"x": "y"}}, msg.Message, "without Expiration, and a UserId that the broker would refuse")
	}
}
