package message

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// stripped are the headers of a delivery that must not be published again. Up to RabbitMQ 3.13 a
// client's x-death counts as a dead-letter cycle, and the broker then silently drops the message.
var stripped = [...]string{
	"x-death",
	"x-first-death-exchange", "x-first-death-queue", "x-first-death-reason",
	"x-last-death-exchange", "x-last-death-queue", "x-last-death-reason",
	"x-delay",
	NativeDelay,
	delayer.Header,
	Stamp,
	Came,
	Hops,
}

// Attr names a message in a log by its MessageId, or else by the id in our header. It is empty, and
// logged by no handler, if the message has neither.
func Attr(d *amqp091.Delivery) slog.Attr {
	id := d.MessageId
	if id == "" {
		e, _ := delayer.ParseHeader(d.Headers)
		id = e.ID
	}
	if id == "" {
		return slog.Attr{}
	}
	return slog.String("message", id)
}

// Came is the header of messages in the unroutable queue with the time when the last waiting queue
// released the message, or when it was moved there. Consumers never see it.
const Came = "x-delayer-came"

// NewDelay is the header by which an operator gives a message that delayer serve has parked another
// delay: a text such as 30m, in place of those that the publisher has written.
const NewDelay = "x-delayer-new-delay"

// Hops is the header in which package entry counts the entries that a message passes at once, one
// after the other. A message that is published through a Delayer begins anew.
const Hops = "x-delayer-hops"

// An Envelope is the content of our header.
type Envelope = delayer.Envelope

// idPrefix distinguishes the ids of this process from those of others. idCount counts within it.
var (
	idPrefix = rand.Text()[:10]
	idCount  atomic.Uint64
)

// LongestID is the most bytes that an id of a user may have.
const LongestID = 40

// ValidateID returns why an id is not one that a user may choose.
func ValidateID(id string) error {
	if id == "" || len(id) > LongestID {
		return fmt.Errorf("the id has %d bytes, want 1 to %d", len(id), LongestID)
	}
	return nil
}

// DueAt returns a due time that a user has chosen, rounded up to a millisecond, or why it is none.
func DueAt(due time.Time) (time.Time, error) {
	whole := due.Truncate(time.Millisecond)
	if whole.Before(due) {
		whole = whole.Add(time.Millisecond)
	}
	const firstYear, lastYear = 1970, 2499
	if y := whole.UTC().Year(); y < firstYear || y > lastYear {
		return time.Time{}, fmt.Errorf("the due time %s is not between the years %d and %d", due.Format(time.RFC3339), firstYear, lastYear)
	}
	return whole, nil
}

// ValidateScheduled returns why a message cannot be scheduled by its id and times, and its due
// time; zero: it has a delay.
func ValidateScheduled(m *delayer.Message) (due time.Time, err error) {
	if m.ID != "" {
		if err := ValidateID(m.ID); err != nil {
			return due, err
		}
	}
	switch {
	case m.Due.IsZero():
		return due, nil
	case m.Delay != 0:
		return due, errors.New("Delay and Due are both set: set one")
	}
	return DueAt(m.Due)
}

// NewEnvelope returns an envelope with an id of its own.
func NewEnvelope(due time.Time, delay time.Duration, exchange string) Envelope {
	var id [32]byte // on the stack
	text := strconv.AppendUint(append(id[:0], idPrefix...), idCount.Add(1), 36)
	return Envelope{ID: string(text), Due: due, Delay: delay, Exchange: exchange}
}

// spare keeps header tables for reuse: two allocations less a message.
var spare = sync.Pool{New: func() any { return amqp091.Table{} }}

// Recycle gives up the headers of a message that Seal returned, once nobody reads it any more.
func Recycle(sealed amqp091.Publishing) {
	const most = 16 // entries: a large table is slow to clear
	if len(sealed.Headers) <= most {
		clear(sealed.Headers)
		spare.Put(sealed.Headers)
	}
}

// Seal returns msg as it is sent: without the headers of earlier deliveries, with our header and
// those in more, and with keys added to its BCC. It does not modify msg or its headers. msg must be
// valid.
func Seal(msg amqp091.Publishing, e Envelope, more amqp091.Table, keys ...any) amqp091.Publishing {
	headers := spare.Get().(amqp091.Table)
	for name, value := range msg.Headers {
		headers[name] = own(value)
	}
	for _, name := range stripped {
		delete(headers, name)
	}
	maps.Copy(headers, more)
	headers[delayer.Header] = e.String()
	if len(keys) > 0 {
		if users, ok := headers["BCC"].([]any); ok {
			keys = append(users[:len(users):len(users)], keys...)
		}
		headers["BCC"] = keys
	}
	msg.Headers = headers
	if msg.DeliveryMode == 0 {
		msg.DeliveryMode = amqp091.Persistent
	}
	return msg
}

// own returns value with its own byte slices, which the caller may change while the message is
// being written. An int that needs 64 bits becomes an int64: amqp091-go writes every int as 32
// bits, and silently cuts it off.
func own(value any) any {
	switch v := value.(type) {
	case []byte:
		return bytes.Clone(v)
	case int:
		if v > math.MaxInt32 || v < math.MinInt32 {
			return int64(v)
		}
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = own(item)
		}
		return out
	case amqp091.Table:
		out := make(amqp091.Table, len(v))
		for name, item := range v {
			out[name] = own(item)
		}
		return out
	}
	return value
}

// Stamp is the header in which the rounds of backend/controller write when a message is due and
// where it goes. Consumers never see it, except in messages of the unroutable queue.
const Stamp = "x-delayer-stamp"
