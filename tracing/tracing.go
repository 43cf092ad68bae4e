// Package tracing makes OpenTelemetry spans for delayed messages. The context of a Publish's span
// travels in the message's headers, and the consumer's span links to it:
//
//	t := tracing.New(tracing.Config{})
//	d = t.Wrap(d)
//	…
//	ctx, span := t.Process(ctx, &delivery) // in the consumer
//	defer span.End()
//
// A consumer's span starts a new trace, or continues the one in its ctx. It is not a child of the
// publisher's span, because that trace may have ended hours ago.
//
// Names and attributes follow the semantic conventions for messaging, version 1.43.0.
//
// Only programs that import this package link OpenTelemetry.
package tracing

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/delayer-go/delayer"
)

// Config says where spans go. A zero field has its default.
type Config struct {
	// TracerProvider makes the spans. Default: otel.GetTracerProvider().
	TracerProvider trace.TracerProvider
	// Propagator writes the context into headers and reads it from them. Default: W3C trace context
	// and baggage, in the headers traceparent, tracestate and baggage.
	Propagator propagation.TextMapPropagator
}

// A Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
}

const scope = "github.com/delayer-go/delayer/tracing"

// New returns a Tracer. It has nothing to close.
func New(cfg Config) *Tracer {
	if cfg.TracerProvider == nil {
		cfg.TracerProvider = otel.GetTracerProvider()
	}
	if cfg.Propagator == nil {
		cfg.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	}
	return &Tracer{cfg.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)), cfg.Propagator}
}

// Wrap returns a Delayer that makes a span for each message that is published through d, and writes
// the span's context into the message's headers, in place of any earlier context.
func (t *Tracer) Wrap(d delayer.Delayer) delayer.Delayer { return &traced{t, d} }

// traced is a Delayer with spans. It does not embed d: a method that is added to the interface must
// be written here too, and cannot publish without a span.
type traced struct {
	tracer  *Tracer
	delayer delayer.Delayer
}

var _ delayer.Delayer = (*traced)(nil)

// Schedule implements [delayer.Delayer].
func (d *traced) Schedule(ctx context.Context, m delayer.Message) (delayer.Ticket, error) {
	ctx, span := d.begin(ctx, &m)
	ticket, err := d.delayer.Schedule(ctx, m)
	end(span, err)
	return ticket, err
}

// Ticket implements [delayer.Delayer].
func (d *traced) Ticket(id string, due time.Time) (delayer.Ticket, error) {
	return d.delayer.Ticket(id, due)
}

// Cancel implements [delayer.Delayer]. Nothing is published: it has no span.
func (d *traced) Cancel(ctx context.Context, t delayer.Ticket) error { return d.delayer.Cancel(ctx, t) }

// Postpone implements [delayer.Delayer]. Nothing is published: it has no span.
func (d *traced) Postpone(ctx context.Context, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	return d.delayer.Postpone(ctx, t, delay)
}

// Limits implements [delayer.Delayer].
func (d *traced) Limits() delayer.Limits { return d.delayer.Limits() }

// Close implements [delayer.Delayer].
func (d *traced) Close() error { return d.delayer.Close() }

// delayKey is the attribute with a message's delay in seconds. The conventions have none.
const delayKey = attribute.Key("delayer.delay")

// latenessKey is the attribute with the seconds between a message's due time and its arrival.
const latenessKey = attribute.Key("delayer.lateness")

// Publish implements [delayer.Delayer].
func (d *traced) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	m := delayer.Message{Exchange: exchange, Key: key, Delay: delay, Publishing: msg}
	ctx, span := d.begin(ctx, &m)
	err := d.delayer.Publish(ctx, exchange, key, delay, m.Publishing)
	end(span, err)
	return err
}

// PublishBatch implements [delayer.Delayer]. Each message has a span, which ends when the batch
// does.
func (d *traced) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	messages = slices.Clone(messages)
	spans := make([]trace.Span, len(messages))
	for i := range messages {
		_, spans[i] = d.begin(ctx, &messages[i])
	}
	results := d.delayer.PublishBatch(ctx, messages)
	for i, err := range results {
		end(spans[i], err)
	}
	return results
}

// begin begins the span of a message, and writes its context into the message's headers.
func (d *traced) begin(ctx context.Context, m *delayer.Message) (context.Context, trace.Span) {
	msg := &m.Publishing
	ctx, span := d.tracer.tracer.Start(ctx, name("publish", m.Exchange, m.Key),
		trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attributes(m.Exchange, m.Key, len(msg.Body), msg.MessageId, msg.CorrelationId)...),
		trace.WithAttributes(
			semconv.MessagingOperationName("publish"), semconv.MessagingOperationTypeSend,
			delayKey.Float64(m.Delay.Seconds()),
		))
	fresh := make(amqp091.Table, len(msg.Headers)+2) // the caller's table stays as it is
	maps.Copy(fresh, msg.Headers)
	for _, field := range d.tracer.propagator.Fields() {
		delete(fresh, field)
	}
	d.tracer.propagator.Inject(ctx, headers(fresh))
	msg.Headers = fresh
	return ctx, span
}

func end(span trace.Span, err error) {
	if err != nil {
		kind := "_OTHER" // an attribute needs few values
		var known *delayer.Error
		if errors.As(err, &known) && known.Kind != nil {
			kind = known.Kind.Error()
		}
		span.SetStatus(codes.Error, err.Error())
		span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	}
	span.End()
}

// Process starts the span in which a consumer handles a delivery, linked to the span that published
// it. The caller ends the span. The returned ctx has the span and the message's baggage.
func (t *Tracer) Process(ctx context.Context, d *amqp091.Delivery) (context.Context, trace.Span) {
	sent := t.propagator.Extract(context.Background(), headers(d.Headers))
	exchange, attrs := d.Exchange, []attribute.KeyValue(nil)
	if e, err := delayer.ParseHeader(d.Headers); err == nil {
		exchange = e.Exchange // d's is one of ours
		attrs = append(attrs, delayKey.Float64(e.Delay.Seconds()), latenessKey.Float64(time.Since(e.Due).Seconds()))
	}
	options := []trace.SpanStartOption{
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attributes(exchange, d.RoutingKey, len(d.Body), d.MessageId, d.CorrelationId)...),
		trace.WithAttributes(semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess),
		trace.WithAttributes(attrs...),
	}
	if link := trace.LinkFromContext(sent); link.SpanContext.IsValid() {
		options = append(options, trace.WithLinks(link))
	}
	if carried := baggage.FromContext(sent); carried.Len() > 0 {
		ctx = baggage.ContextWithBaggage(ctx, carried)
	}
	return t.tracer.Start(ctx, name("process", exchange, d.RoutingKey), options...)
}

// name is the name of a span. It has no routing key, because there may be any number of keys. With
// the default exchange the key is a queue.
func name(operation, exchange, key string) string {
	if exchange == "" {
		return operation + " " + key
	}
	return operation + " " + exchange
}

func attributes(exchange, key string, size int, id, correlation string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		semconv.MessagingSystemRabbitMQ,
		semconv.MessagingDestinationName(strings.Trim(exchange+":"+key, ":")),
		semconv.MessagingMessageBodySize(size),
	}
	if key != "" {
		attrs = append(attrs, semconv.MessagingRabbitMQDestinationRoutingKey(key))
	}
	if id != "" {
		attrs = append(attrs, semconv.MessagingMessageID(id))
	}
	if correlation != "" {
		attrs = append(attrs, semconv.MessagingMessageConversationID(correlation))
	}
	return attrs
}

// headers adapts a table to propagators.
type headers amqp091.Table

// Get returns a header that is a string, or "".
func (h headers) Get(key string) string {
	text, _ := h[key].(string)
	return text
}

// Set sets a header.
func (h headers) Set(key, value string) { h[key] = value }

// Keys lists the headers.
func (h headers) Keys() []string { return slices.Collect(maps.Keys(h)) }
