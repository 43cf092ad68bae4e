package broker_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// A staged broker has the delivery stage of a prefix, and a destination.
type staged struct {
	*rabbittest.Rig
	stage delivery.Stage
	queue string // an existing destination
}

func newStaged(t *testing.T) *staged {
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	s := &staged{Rig: r, stage: delivery.NewStage(r.Prefix, true), queue: r.Queue("q", amqp091.Table{"x-queue-type": "quorum"})}
	control := s.control()
	require.NoError(t, objects.Of(control, "test").Apply(t.Context(), s.stage.Plan()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = objects.Of(control, "test").Remove(ctx, s.stage.Plan())
	})
	return s
}

func (s *staged) dial(name string) *broker.Conn {
	s.Helper()
	conn, err := broker.Dial(s.Context(), broker.Options{URL: s.Broker.URL(), Name: name, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(s, err)
	return conn
}

func (s *staged) control() *broker.Control {
	c := broker.NewControl(s.dial("control " + s.Prefix))
	s.Cleanup(c.Close)
	return c
}

// config is that of a Mover with connections of its own.
func (s *staged) config() delivery.MoverConfig {
	p := broker.NewPublisher("test", func() {}, s.dial("publish "+s.Prefix))
	s.Cleanup(p.Close)
	control := s.control()
	log := slog.New(slog.NewTextHandler(s.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	dests := delivery.NewDestinations(s.stage, control, "test", log)
	s.Cleanup(dests.Close)
	return delivery.MoverConfig{
		Destinations: dests, Control: control, Publisher: p, Rules: delivery.Rules{Own: hasWaited},
		Declare:   func(ctx context.Context, p topology.Plan) error { return objects.Of(control, "test").Apply(ctx, p) },
		Redeclare: func(ctx context.Context) error { return objects.Of(control, "test").Restore(ctx, s.stage.Plan()) },
		Delay:     func(context.Context, message.Envelope, string, time.Duration, amqp091.Publishing) error { return nil },
	}
}

// publishing is a Publisher whose messages to destinations a test sees.
type publishing struct {
	*broker.Publisher
	direct func(context.Context, broker.Publishing) error
}

func (p publishing) PublishDirect(ctx context.Context, msg broker.Publishing) error {
	return p.direct(ctx, msg)
}

// hasWaited reads a header of the tests: brokers from 4.0 on drop an x-death that a client
// publishes.
func hasWaited(headers amqp091.Table) (time.Duration, bool) {
	e, _ := delayer.ParseHeader(headers)
	waited, ok := headers["waited"].(int64)
	return e.Delay - time.Duration(waited), ok
}

// start returns a Mover. It or another one is at work.
func (s *staged) start(c delivery.MoverConfig) *delivery.Mover {
	s.Helper()
	m := delivery.StartMover(c)
	s.Cleanup(m.Close)
	require.Eventually(s, func() bool {
		q, err := s.Ch.QueueDeclarePassive(s.stage.Misrouted(), true, false, false, false, nil)
		require.NoError(s, err)
		return q.Consumers == 1
	}, time.Minute, 10*time.Millisecond)
	return m
}

// misroute puts a message into the misrouted queue that has waited for a part of its delay.
func (s *staged) misroute(id, exchange, key string, delay, waited time.Duration) {
	s.Helper()
	headers := amqp091.Table{}
	if id != "" {
		headers[delayer.Header] = message.Envelope{ID: id, Due: time.Now().Add(time.Hour), Delay: delay, Exchange: exchange}.String()
	}
	headers["waited"] = int64(waited)
	require.NoError(s, s.Ch.PublishWithContext(s.Context(), s.stage.Unroutable(), key, true, false, amqp091.Publishing{
		Headers: headers, Body: []byte(id), DeliveryMode: amqp091.Persistent,
	}))
}

// TestMover sends on what is due, whether it came before the Mover or not.
func TestMover(t *testing.T) {
	t.Parallel()
	s := newStaged(t)
	c := s.config()
	type again struct {
		envelope  message.Envelope
		key       string
		remaining time.Duration
	}
	delayed := make(chan again, 1)
	c.Delay = func(_ context.Context, e message.Envelope, key string, remaining time.Duration, _ amqp091.Publishing) error {
		delayed <- again{e, key, remaining}
		return nil
	}
	arrived, kept := s.Consume(s.queue), s.Consume(s.stage.Unroutable())
	s.misroute("before", "", s.queue, time.Second, time.Second)
	s.start(c)
	require.Equal(t, "before", string(rabbittest.Next(t, arrived).Body))

	s.misroute("due", "", s.queue, time.Second, time.Second)
	got := rabbittest.Next(t, arrived)
	require.Equal(t, "due", string(got.Body))
	require.Contains(t, got.Headers, delayer.Header)

	s.misroute("gone", "", s.queue+"-gone", time.Second, time.Second)
	got = rabbittest.Next(t, kept)
	require.Equal(t, []any{"gone", s.queue + "-gone"}, []any{string(got.Body), got.RoutingKey})
	require.Contains(t, got.Headers, message.Came)

	s.misroute("no-exchange", s.Prefix+"-x", "k", time.Second, time.Second)
	require.Equal(t, "no-exchange", string(rabbittest.Next(t, kept).Body))

	s.misroute("routed-nowhere", "amq.topic", s.Prefix, time.Second, time.Second)
	require.Equal(t, "routed-nowhere", string(rabbittest.Next(t, kept).Body))

	s.misroute("to-ours", "", s.stage.Unroutable(), time.Second, time.Second)
	require.Equal(t, "to-ours", string(rabbittest.Next(t, kept).Body))

	internal := internalExchange(s.Rig, s.queue)
	s.misroute("internal", internal, "key", time.Second, time.Second)
	got = rabbittest.Next(t, arrived)
	require.Equal(t, []any{"internal", "key"}, []any{string(got.Body), got.RoutingKey})
	s.misroute("nothing-bound", internal, "other", time.Second, time.Second)
	require.Equal(t, "nothing-bound", string(rabbittest.Next(t, kept).Body))

	s.misroute("", "", s.queue, 0, 0)
	require.NotContains(t, rabbittest.Next(t, kept).Headers, delayer.Header)

	s.misroute("early", "", s.queue, 3*time.Second, time.Second)
	select {
	case a := <-delayed:
		require.Equal(t, []any{"early", s.queue, 2 * time.Second}, []any{a.envelope.ID, a.key, a.remaining})
	case <-time.After(time.Minute):
		t.Fatal("it is not published again")
	}
	require.Eventually(t, func() bool { return s.Count(s.stage.Misrouted()) == 0 }, time.Minute, 10*time.Millisecond)
}

// internalExchange is a topic exchange that takes nothing from clients. It leads to the queue.
func internalExchange(r *rabbittest.Rig, queue string) string {
	r.Helper()
	name := r.Prefix + "-internal"
	require.NoError(r, r.Ch.ExchangeDeclare(name, "topic", true, false, true, false, nil))
	r.Cleanup(func() { r.Fresh(func(ch *amqp091.Channel) error { return ch.ExchangeDelete(name, false, false) }) })
	r.Bind(queue, "key", name, nil)
	return name
}

// TestMover_RefusedByOneQueue: the other queues of an exchange get a copy with each attempt, so
// there are two of them, a minute apart.
func TestMover_RefusedByOneQueue(t *testing.T) {
	t.Parallel()
	s := newStaged(t)
	exchange := s.Exchange("fanout", "fanout", nil)
	s.Bind(s.queue, "", exchange, nil)
	s.Bind(s.Queue("full", amqp091.Table{"x-max-length": int64(0), "x-overflow": "reject-publish"}), "", exchange, nil)
	c := s.config()
	complaints := make(chan string, 100)
	log := slog.New(slog.NewTextHandler(lines(complaints), nil))
	c.Destinations = delivery.NewDestinations(s.stage, c.Control, "test", log)
	t.Cleanup(c.Destinations.Close)
	s.start(c)
	arrived := s.Consume(s.queue)
	s.misroute("once", exchange, "", time.Second, time.Second)
	require.Equal(t, "once", string(rabbittest.Next(t, arrived).Body))
	require.Contains(t, rabbittest.Next(t, complaints), "again_in=1m0s")
}

// lines are what a logger writes.
type lines chan<- string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// TestMover_Handover: one Mover at a time is at work. When it ends, it gives back what it has in
// hand, and another takes over.
func TestMover_Handover(t *testing.T) {
	t.Parallel()
	s := newStaged(t)
	trying := make(chan struct{}, 100)
	c := s.config()
	c.Publisher = publishing{direct: func(ctx context.Context, _ broker.Publishing) error {
		trying <- struct{}{}
		<-ctx.Done() // the broker takes nothing
		return &delayer.Error{Op: "publish", Kind: delayer.ErrUnknown, Cause: context.Cause(ctx)}
	}, Publisher: c.Publisher.(*broker.Publisher)}
	first := s.start(c)
	s.start(s.config())
	arrived := s.Consume(s.queue)
	s.misroute("in-hand", "", s.queue, time.Second, time.Second)
	<-trying
	require.Empty(t, arrived)
	first.Close()
	require.Equal(t, "in-hand", string(rabbittest.Next(t, arrived).Body))
	require.Zero(t, s.Count(s.stage.Unroutable()))
}
