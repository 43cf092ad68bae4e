package tracing_test

import (
	"context"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/tracing"
)

// fake keeps the last message, as the broker would deliver it.
type fake struct {
	delayer.Delayer
	got amqp091.Publishing
	err error
}

func (f *fake) Publish(_ context.Context, exchange, _ string, delay time.Duration, msg amqp091.Publishing) error {
	f.got = message.Seal(msg, message.NewEnvelope(time.Now().Add(delay), delay, exchange), nil)
	return f.err
}

type remover struct{ fake }

func (*remover) RemoveTopology(context.Context) error { return nil }

func newTracer() (*tracing.Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return tracing.New(tracing.Config{TracerProvider: trace.NewTracerProvider(trace.WithSpanProcessor(spans))}), spans
}

func attributesOf(span trace.ReadOnlySpan) map[string]any {
	all := map[string]any{}
	for _, a := range span.Attributes() {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func TestContextTravelsWithTheMessage(t *testing.T) {
	tracer, spans := newTracer()
	f := &fake{}
	member, err := baggage.NewMember("tenant", "blue")
	require.NoError(t, err)
	carried, err := baggage.New(member)
	require.NoError(t, err)
	ctx := baggage.ContextWithBaggage(t.Context(), carried)
	given := amqp091.Table{"traceparent": "00-of-an-earlier-delivery", "tracestate": "old=1", "mine": int32(1)}
	msg := amqp091.Publishing{Headers: given, Body: []byte("body"), MessageId: "m-1", CorrelationId: "c-1"}
	require.NoError(t, tracer.Wrap(f).Publish(ctx, "orders", "order.expired", time.Minute, msg))

	require.Len(t, spans.Ended(), 1)
	published := spans.Ended()[0]
	require.Equal(t, "publish orders", published.Name(), "no routing key in a name")
	require.Equal(t, oteltrace.SpanKindProducer, published.SpanKind())
	require.Equal(t, map[string]any{
		"messaging.system": "rabbitmq", "messaging.operation.name": "publish", "messaging.operation.type": "send",
		"messaging.destination.name": "orders:order.expired", "messaging.rabbitmq.destination.routing_key": "order.expired",
		"messaging.message.body.size": int64(4), "messaging.message.id": "m-1", "messaging.message.conversation_id": "c-1",
		"delayer.delay": 60.0,
	}, attributesOf(published))
	require.Equal(t, "00-of-an-earlier-delivery", given["traceparent"], "the caller's headers are not changed")
	require.Equal(t, int32(1), f.got.Headers["mine"])
	require.NotContains(t, f.got.Headers, "tracestate")

	arrived := amqp091.Delivery{
		Headers: f.got.Headers, Exchange: "delayer.delivery", RoutingKey: "order.expired", Body: f.got.Body, MessageId: f.got.MessageId,
	}
	ctx, span := tracer.Process(t.Context(), &arrived)
	require.Equal(t, "blue", baggage.FromContext(ctx).Member("tenant").Value())
	span.End()
	processed := spans.Ended()[1]
	require.Equal(t, "process orders", processed.Name(), "the exchange where the message was going, not one of ours")
	require.Equal(t, oteltrace.SpanKindConsumer, processed.SpanKind())
	require.Len(t, processed.Links(), 1)
	require.Equal(t, published.SpanContext().SpanID(), processed.Links()[0].SpanContext.SpanID())
	require.NotEqual(t, published.SpanContext().TraceID(), processed.SpanContext().TraceID())
	all := attributesOf(processed)
	require.Equal(t, "process", all["messaging.operation.type"])
	require.InDelta(t, -60, all["delayer.lateness"], 59, "due in a minute")
}

func TestErrorIsInTheSpan(t *testing.T) {
	tracer, spans := newTracer()
	refused := &delayer.Error{Op: "publish", Kind: delayer.ErrRefused}
	require.ErrorIs(t, tracer.Wrap(&fake{err: refused}).Publish(t.Context(), "", "queue", 0, amqp091.Publishing{}), delayer.ErrRefused)
	span := spans.Ended()[0]
	require.Equal(t, "publish queue", span.Name())
	require.Equal(t, codes.Error, span.Status().Code)
	require.Contains(t, span.Attributes(), attribute.String("error.type", "refused by the broker"))
	require.Contains(t, span.Attributes(), attribute.String("messaging.destination.name", "queue"))
}

func TestWithoutContextThereIsNoLink(t *testing.T) {
	tracer, spans := newTracer()
	for _, headers := range []amqp091.Table{nil, {"traceparent": int64(7)}, {delayer.Header: "odd"}} {
		_, span := tracer.Process(t.Context(), &amqp091.Delivery{Headers: headers, Exchange: "e", RoutingKey: "k"})
		span.End()
		ended := spans.Ended()
		require.Empty(t, ended[len(ended)-1].Links())
	}
}

func TestWrap_KeepsTheRemover(t *testing.T) {
	tracer, _ := newTracer()
	_, is := tracer.Wrap(&remover{}).(delayer.TopologyRemover)
	require.True(t, is)
	_, is = tracer.Wrap(&fake{}).(delayer.TopologyRemover)
	require.False(t, is)
}

// A scheduler keeps the last message, too.
type scheduler struct {
	fake
	delayer.Scheduler
}

func (s *scheduler) Schedule(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) (delayer.Ticket, error) {
	return "ticket", s.Publish(ctx, exchange, key, delay, msg)
}
func (*scheduler) Cancel(context.Context, delayer.Ticket) error { return delayer.ErrTooLate }
func (*scheduler) Reschedule(context.Context, delayer.Ticket, time.Duration) (delayer.Ticket, error) {
	return "another", nil
}

type schedulerAndRemover struct {
	scheduler
	remover
}

func (s *schedulerAndRemover) Limits() delayer.Limits { return delayer.Limits{} }
func (s *schedulerAndRemover) Close() error           { return nil }
func (s *schedulerAndRemover) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	return s.scheduler.Publish(ctx, exchange, key, delay, msg)
}

func TestWrap_KeepsTheScheduler(t *testing.T) {
	tracer, spans := newTracer()
	both := &schedulerAndRemover{}
	for _, d := range []delayer.Delayer{&scheduler{}, both} {
		s, is := tracer.Wrap(d).(delayer.Scheduler)
		require.True(t, is)
		ticket, err := s.Schedule(t.Context(), "", "queue", time.Minute, amqp091.Publishing{})
		require.NoError(t, err)
		require.Equal(t, delayer.Ticket("ticket"), ticket)
		require.ErrorIs(t, s.Cancel(t.Context(), ticket), delayer.ErrTooLate)
		ticket, err = s.Reschedule(t.Context(), ticket, time.Hour)
		require.NoError(t, err)
		require.Equal(t, delayer.Ticket("another"), ticket)
	}
	require.Len(t, spans.Ended(), 2)
	require.NotEmpty(t, both.scheduler.got.Headers["traceparent"])
	_, is := tracer.Wrap(both).(delayer.TopologyRemover)
	require.True(t, is)
	_, is = tracer.Wrap(&scheduler{}).(delayer.TopologyRemover)
	require.False(t, is)
	_, is = tracer.Wrap(&remover{}).(delayer.Scheduler)
	require.False(t, is)
}

func TestBatch_HasASpanForEach(t *testing.T) {
	tracer, spans := newTracer()
	f := &fake{err: delayer.ErrUnroutable}
	messages := make([]delayer.Message, 1500)
	results := delayer.PublishBatch(t.Context(), tracer.Wrap(f), messages)
	require.Len(t, results, len(messages))
	require.Len(t, spans.Ended(), len(messages))
	require.ErrorIs(t, results[1499], delayer.ErrUnroutable)
	require.Equal(t, codes.Error, spans.Ended()[1499].Status().Code)
	require.NotEmpty(t, f.got.Headers["traceparent"])
	require.Nil(t, messages[0].Publishing.Headers, "the caller's messages are not changed")
}
