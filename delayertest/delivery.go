package delayertest

import (
	"math"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// delivery is what a consumer receives.
func (w *waiting) delivery() amqp091.Delivery {
	m := w.sealed
	return amqp091.Delivery{
		Acknowledger: accepting{}, Headers: m.Headers, ContentType: m.ContentType, ContentEncoding: m.ContentEncoding,
		DeliveryMode: m.DeliveryMode, Priority: m.Priority, CorrelationId: m.CorrelationId, ReplyTo: m.ReplyTo,
		MessageId: m.MessageId, Timestamp: asRead(m.Timestamp).(time.Time), Type: m.Type, UserId: m.UserId, AppId: m.AppId,
		Exchange: w.Exchange, RoutingKey: w.Key, Body: m.Body,
	}
}

// accepting lets a handler acknowledge or reject, and does nothing.
type accepting struct{}

func (accepting) Ack(uint64, bool) error        { return nil }
func (accepting) Nack(uint64, bool, bool) error { return nil }
func (accepting) Reject(uint64, bool) error     { return nil }

// copied returns a message with memory of its own, whose header values went through as.
func copied(m amqp091.Publishing, as func(any) any) amqp091.Publishing {
	m.Body = slices.Clone(m.Body)
	m.Headers, _ = copiedValue(m.Headers, as).(amqp091.Table)
	return m
}

func copiedValue(v any, as func(any) any) any {
	switch v := v.(type) {
	case amqp091.Table:
		if v == nil {
			return v
		}
		c := make(amqp091.Table, len(v))
		for name, value := range v {
			c[name] = copiedValue(value, as)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = copiedValue(v[i], as)
		}
		return c
	case []byte:
		return slices.Clone(v)
	}
	return as(v)
}

func asGiven(v any) any { return v }

// asRead returns a header value as amqp091-go reads it from the wire.
func asRead(v any) any {
	switch v := v.(type) {
	case int:
		if v > math.MaxInt32 || v < math.MinInt32 {
			return int64(v)
		}
		return int32(v)
	case time.Time:
		if v.IsZero() {
			return v
		}
		return time.Unix(v.Unix(), 0)
	}
	return v
}
