package tracing_test

import (
	"io"
	"slices"
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
	"github.com/delayer-go/delayer/delayertest"
	"github.com/delayer-go/delayer/tracing"
)

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

func TestTracer_Link(t *testing.T) {
	tracer, spans := newTracer()
	d := delayertest.New(delayertest.Config{})
	member, err := baggage.NewMember("tenant", "blue")
	require.NoError(t, err)
	carried, err := baggage.New(member)
	require.NoError(t, err)
	ctx := baggage.ContextWithBaggage(t.Context(), carried)
	given := amqp091.Table{"traceparent": "00-of-an-earlier-delivery", "tracestate": "old=1", "mine": int32(1)}
	msg := amqp091.Publishing{Headers: given, Body: []byte("body"), MessageId: "m-1", CorrelationId: "c-1"}
	require.NoError(t, tracer.Wrap(d).Publish(ctx, "orders", "order.expired", time.Minute, msg))

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

	arrived := d.Advance(time.Minute)[0]
	require.Equal(t, int32(1), arrived.Headers["mine"])
	require.NotContains(t, arrived.Headers, "tracestate")
	arrived.Exchange = "delayer.delivery"
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

func TestWrap_Error(t *testing.T) {
	tracer, spans := newTracer()
	d := delayertest.New(delayertest.Config{})
	d.FailNext(delayer.ErrRefused)
	require.ErrorIs(t, tracer.Wrap(d).Publish(t.Context(), "", "queue", 0, amqp091.Publishing{}), delayer.ErrRefused)
	span := spans.Ended()[0]
	require.Equal(t, "publish queue", span.Name())
	require.Equal(t, codes.Error, span.Status().Code)
	require.Contains(t, span.Attributes(), attribute.String("error.type", "refused by the broker"))
	require.Contains(t, span.Attributes(), attribute.String("messaging.destination.name", "queue"))
}

// closing fails to close.
type closing struct{ *delayertest.Delayer }

func (closing) Close() error { return io.EOF }

// TestWrap_Whole: no method is lost.
func TestWrap_Whole(t *testing.T) {
	tracer, spans := newTracer()
	memory := closing{delayertest.New(delayertest.Config{})}
	d := tracer.Wrap(memory)
	ticket, err := d.Schedule(t.Context(), delayer.Message{Key: "queue", Delay: time.Minute})
	require.NoError(t, err)
	require.NotEmpty(t, memory.Published()[0].Publishing.Headers["traceparent"])
	ticket, err = d.Postpone(t.Context(), ticket, time.Hour)
	require.NoError(t, err)
	require.Equal(t, time.Hour, memory.Waiting()[0].Delay)
	require.NoError(t, d.Cancel(t.Context(), ticket))
	require.Empty(t, memory.Waiting())
	require.ErrorIs(t, d.Cancel(t.Context(), "of another"), delayer.ErrTicket)
	require.Len(t, spans.Ended(), 1)
	require.Equal(t, memory.Limits(), d.Limits())
	require.ErrorIs(t, d.Close(), io.EOF)
}

func TestWrap_PublishBatch(t *testing.T) {
	tracer, spans := newTracer()
	d := delayertest.New(delayertest.Config{})
	messages := slices.Repeat([]delayer.Message{{Key: "queue"}}, 15)
	d.FailNext(append(make([]error, 14), delayer.ErrUnroutable)...)
	results := tracer.Wrap(d).PublishBatch(t.Context(), messages)
	require.Len(t, results, len(messages))
	require.Len(t, spans.Ended(), len(messages))
	require.NoError(t, results[13])
	require.ErrorIs(t, results[14], delayer.ErrUnroutable)
	require.Equal(t, codes.Error, spans.Ended()[14].Status().Code)
	require.NotEmpty(t, d.Published()[13].Publishing.Headers["traceparent"])
	require.Nil(t, messages[0].Publishing.Headers, "the caller's messages are not changed")
}
