package broker_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/misrouted"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/topology"
)

// A scene is the delivery stage of a prefix, and a destination.
type scene struct {
	*testing.T
	broker *rabbit.Broker
	prefix string
	stage  delivery.Stage
	queue  string // an existing destination
	ch     *amqp091.Channel
}

func newScene(t *testing.T) *scene {
	b := rabbittest.Broker(t)
	s := &scene{T: t, broker: b, prefix: rabbittest.Prefix(t)}
	s.stage, s.queue = delivery.NewStage(s.prefix, true), s.prefix+"-q"
	conn, err := amqp091.Dial(b.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	s.ch, err = conn.Channel()
	require.NoError(t, err)
	_, err = s.ch.QueueDeclare(s.queue, true, false, false, false, amqp091.Table{"x-queue-type": "quorum"})
	require.NoError(t, err)
	control := s.control()
	require.NoError(t, topology.Apply(t.Context(), control, "test", s.stage.Plan()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		plan := s.stage.Plan()
		plan.Queues = append(plan.Queues, topology.Queue{Name: s.queue})
		_ = topology.Remove(ctx, control, "test", plan)
	})
	return s
}

func (s *scene) dial(name string) *broker.Conn {
	s.Helper()
	conn, err := broker.Dial(s.Context(), broker.Options{URL: s.broker.URL(), Name: name, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(s, err)
	return conn
}

func (s *scene) control() *broker.Control {
	c := broker.NewControl(s.dial("control " + s.prefix))
	s.Cleanup(c.Close)
	return c
}

// config is that of a Mover with connections of its own.
func (s *scene) config() misrouted.Config {
	p := broker.NewPublisher("test", func() {}, s.dial("publish "+s.prefix))
	s.Cleanup(p.Close)
	return misrouted.Config{
		Prefix: s.prefix, Stage: s.stage, Control: s.control(), Log: slog.New(slog.NewTextHandler(s.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})), Resend: true,
		Rules:   misrouted.Rules{Own: hasWaited},
		Publish: p.Publish, PublishDirect: p.PublishDirect, Vouches: func(string, string) bool { return false },
		Delay: func(context.Context, message.Envelope, string, time.Duration, amqp091.Publishing) error { return nil },
	}
}

// hasWaited reads a header of the tests: brokers from 4.0 on drop an x-death that a client publishes.
func hasWaited(headers amqp091.Table) (time.Duration, bool) {
	e, _ := delayer.ParseHeader(headers)
	waited, ok := headers["waited"].(int64)
	return e.Delay - time.Duration(waited), ok
}

// start returns a Mover that is at work.
func (s *scene) start(c misrouted.Config) *misrouted.Mover {
	s.Helper()
	m := misrouted.Start(c)
	s.Cleanup(m.Close)
	require.Eventually(s, m.Watched, time.Minute, 10*time.Millisecond)
	return m
}

// misroute puts a message into the misrouted queue that has waited for a part of its delay.
func (s *scene) misroute(id, exchange, key string, delay, waited time.Duration) {
	s.Helper()
	headers := amqp091.Table{}
	if id != "" {
		headers[delayer.Header] = message.Envelope{ID: id, Due: time.Now().Add(time.Hour), Delay: delay, Exchange: exchange}.String()
	}
	headers["waited"] = int64(waited)
	require.NoError(s, s.ch.PublishWithContext(s.Context(), s.stage.Unroutable(), key, true, false, amqp091.Publishing{
		Headers: headers, Body: []byte(id), DeliveryMode: amqp091.Persistent,
	}))
}

func (s *scene) consume(queue string) <-chan amqp091.Delivery {
	s.Helper()
	const autoAck = true
	in, err := s.ch.Consume(queue, "", autoAck, false, false, false, nil)
	require.NoError(s, err)
	return in
}

func (s *scene) count(queue string) int {
	q, err := s.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	require.NoError(s, err)
	return q.Messages
}

func next(t *testing.T, in <-chan amqp091.Delivery) amqp091.Delivery {
	t.Helper()
	select {
	case d := <-in:
		return d
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing comes")
		return amqp091.Delivery{}
	}
}

func TestMover_WhatCameWhileItWasAtWork(t *testing.T) {
	t.Parallel()
	s := newScene(t)
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
	s.start(c)
	arrived, kept := s.consume(s.queue), s.consume(s.stage.Unroutable())

	s.misroute("due", "", s.queue, time.Second, time.Second)
	got := next(t, arrived)
	require.Equal(t, "due", string(got.Body))
	require.Contains(t, got.Headers, delayer.Header)

	s.misroute("gone", "", s.queue+"-gone", time.Second, time.Second)
	got = next(t, kept)
	require.Equal(t, []any{"gone", s.queue + "-gone"}, []any{string(got.Body), got.RoutingKey})
	require.Contains(t, got.Headers, message.Came)

	s.misroute("no-exchange", s.prefix+"-x", "k", time.Second, time.Second)
	require.Equal(t, "no-exchange", string(next(t, kept).Body))

	s.misroute("routed-nowhere", "amq.topic", s.prefix, time.Second, time.Second)
	require.Equal(t, "routed-nowhere", string(next(t, kept).Body))

	s.misroute("to-ours", "", s.stage.Unroutable(), time.Second, time.Second)
	require.Equal(t, "to-ours", string(next(t, kept).Body))

	s.misroute("", "", s.queue, 0, 0)
	require.NotContains(t, next(t, kept).Headers, delayer.Header)

	s.misroute("early", "", s.queue, 3*time.Second, time.Second)
	select {
	case a := <-delayed:
		require.Equal(t, []any{"early", s.queue, 2 * time.Second}, []any{a.envelope.ID, a.key, a.remaining})
	case <-time.After(time.Minute):
		t.Fatal("it is not published again")
	}
	require.Eventually(t, func() bool { return s.count(s.stage.Misrouted()) == 0 }, time.Minute, 10*time.Millisecond)
}

func TestMover_WhatCameBefore(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	kept := s.consume(s.stage.Unroutable())
	s.misroute("before", "", s.queue, time.Second, time.Second)
	require.Eventually(t, func() bool { return s.count(s.stage.Misrouted()) == 1 }, time.Minute, 10*time.Millisecond)
	c := s.config()
	c.Vouches = func(string, string) bool { return true }
	s.start(c)
	require.Equal(t, "before", string(next(t, kept).Body))
	require.Zero(t, s.count(s.queue))
}

func TestMover_ResendOff(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	kept := s.consume(s.stage.Unroutable())
	c := s.config()
	c.Resend = false
	m := misrouted.Start(c)
	defer m.Close()
	s.misroute("due", "", s.queue, time.Second, time.Second)
	require.Equal(t, "due", string(next(t, kept).Body))
	require.Zero(t, s.count(s.queue))
}

// drop ends the connection with that name, as an operator does.
func (s *scene) drop(name string) {
	s.Helper()
	require.Eventually(s, func() bool { return rabbittest.Cut(s.Context(), s.broker, name) == nil }, time.Minute, 100*time.Millisecond)
}

// TestMover_Outage: what came while the connection was lost is sent on where this process knows its destination.
func TestMover_Outage(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if !s.broker.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to close a connection")
	}
	conn := s.dial("mover of " + s.prefix)
	c := s.config()
	c.Control = broker.NewControl(conn)
	t.Cleanup(c.Control.Close)
	known := s.queue
	c.Vouches = func(_, key string) bool { return key == known }
	other := s.prefix + "-other"
	_, err := s.ch.QueueDeclare(other, true, false, true, false, nil)
	require.NoError(t, err)
	m := s.start(c)
	arrived, kept := s.consume(s.queue), s.consume(s.stage.Unroutable())
	for range 2 {
		require.Eventually(t, m.Watched, time.Minute, 10*time.Millisecond)
		s.drop("mover of " + s.prefix)
		s.misroute("known", "", s.queue, time.Second, time.Second)
		s.misroute("not-known", "", other, time.Second, time.Second)
		require.Equal(t, "known", string(next(t, arrived).Body))
		// It may have come when the consumer was live again; then it is certain too.
		select {
		case d := <-kept:
			require.Equal(t, "not-known", string(d.Body))
		case d := <-s.consume(other):
			require.Equal(t, "not-known", string(d.Body))
		case <-time.After(time.Minute):
			t.Fatal("nothing comes")
		}
	}
}

// TestMover_Handover: another process takes over when the holder of the lock is gone.
func TestMover_Handover(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	one, two := s.config(), s.config()
	var second atomic.Int64
	publish := two.PublishDirect
	two.PublishDirect = func(ctx context.Context, msg broker.Publishing) error {
		second.Add(1)
		return publish(ctx, msg)
	}
	two.Vouches = func(string, string) bool { return true }
	first := s.start(one)
	next2 := s.start(two) // it sees that the other is live
	arrived := s.consume(s.queue)
	s.misroute("one", "", s.queue, time.Second, time.Second)
	require.Equal(t, "one", string(next(t, arrived).Body))
	require.Zero(t, second.Load())
	first.Close()
	one.Control.Close()
	s.misroute("two", "", s.queue, time.Second, time.Second)
	require.Equal(t, "two", string(next(t, arrived).Body))
	require.EqualValues(t, 1, second.Load())
	require.True(t, next2.Watched())
	require.Zero(t, s.count(s.stage.Unroutable()))
}

// TestMover_QueuesDeleted: they are declared again, and nothing is lost that was in hand.
func TestMover_QueuesDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := s.config()
	c.Declare = func(ctx context.Context) error { return topology.Apply(ctx, c.Control, "test", s.stage.Plan()) }
	s.start(c)
	_, err := s.ch.QueueDelete(s.stage.Unroutable(), false, false, false)
	require.NoError(t, err)
	s.misroute("gone", "", s.queue+"-gone", time.Second, time.Second)
	require.Eventually(t, func() bool {
		ch, err := s.ch.QueueDeclarePassive(s.stage.Unroutable(), true, false, false, false, nil)
		if err != nil {
			s.ch = s.newChannel()
		}
		return err == nil && ch.Messages == 1
	}, time.Minute, 20*time.Millisecond)
	_, err = s.ch.QueueDelete(s.stage.Misrouted(), false, false, false)
	require.NoError(t, err)
	arrived := s.consume(s.queue)
	require.Eventually(t, func() bool {
		_, err := s.ch.QueueDeclarePassive(s.stage.Misrouted(), true, false, false, false, nil)
		if err != nil {
			s.ch = s.newChannel()
		}
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	require.Eventually(t, func() bool { // until the consumer is back, what comes is not vouched for
		s.misroute("due", "", s.queue, time.Second, time.Second)
		select {
		case <-arrived:
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	}, time.Minute, time.Millisecond)
}

func (s *scene) newChannel() *amqp091.Channel {
	s.Helper()
	conn, err := amqp091.Dial(s.broker.URL())
	require.NoError(s, err)
	s.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	require.NoError(s, err)
	return ch
}

// TestMover_Close gives back what it has in hand.
func TestMover_Close(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := s.config()
	trying := make(chan struct{}, 100)
	c.PublishDirect = func(ctx context.Context, _ broker.Publishing) error {
		trying <- struct{}{}
		<-ctx.Done() // the broker takes nothing
		return &delayer.Error{Op: "publish", Kind: delayer.ErrUnknown, Cause: context.Cause(ctx)}
	}
	m := s.start(c)
	s.misroute("in-hand", "", s.queue, time.Second, time.Second)
	<-trying
	m.Close()
	require.Eventually(t, func() bool { return s.count(s.stage.Misrouted()) == 1 }, time.Minute, 20*time.Millisecond)
}

// TestMover_Brief: a process that ends at once leaves nothing that would be counted as misrouted.
func TestMover_Brief(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	c := s.config()
	publish, marked := c.Publish, make(chan struct{}, 100)
	c.Publish = func(ctx context.Context, p broker.Publishing) error {
		defer func() { marked <- struct{}{} }()
		return publish(ctx, p)
	}
	for range 5 {
		m := misrouted.Start(c)
		<-marked
		m.Close()
	}
	require.Zero(t, s.count(s.stage.Misrouted()))
}
