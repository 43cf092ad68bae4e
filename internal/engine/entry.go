package engine

import (
	"context"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/message"
)

// An Entry is how a message is published.
type Entry struct {
	Exchange string
	Key      *string       // nil: the user's
	Keys     []any         // strings; BCC keys beside the user's own
	Headers  amqp091.Table // added to the message's
	Before   time.Time     // it must be written by then, or Enter is asked again; zero: any time

	// Late is called if the message was confirmed after Before; nil if that does not matter.
	Late func(context.Context) error

	Optional bool // not mandatory: the exchange would return every message
	Foreign  bool // the exchange is not ours
}

// seal returns how the entry's message is published.
func (e Entry) seal(key string, msg amqp091.Publishing, envelope message.Envelope) broker.Publishing {
	if e.Key != nil {
		key = *e.Key
	}
	return broker.Publishing{
		Exchange: e.Exchange, Key: key, Before: e.Before, Optional: e.Optional, Direct: e.Foreign,
		Message: message.Seal(msg, envelope, e.Headers, e.Keys...),
	}
}

func (e Entry) deadline() deadline { return deadline{e.Before, e.Late} }

// A deadline is when a message must be written, and what to do if it was confirmed later. The zero
// value is never missed.
type deadline struct {
	at   time.Time
	late func(context.Context) error
}

func (d deadline) missed() bool { return d.late != nil && !d.at.IsZero() && time.Now().After(d.at) }

// late is called for a message that was confirmed after its deadline.
func (e *Engine) late(ctx context.Context, d deadline) error {
	if err := d.late(ctx); err != nil {
		return e.fail(delayer.ErrUnknown, fmt.Errorf("it is stored, but may be late: %s", err.Error())) // not %w: it must not be sent again
	}
	return nil
}
