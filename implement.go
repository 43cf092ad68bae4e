package delayer

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// NoTickets answers Schedule, Ticket, Cancel and Postpone for a [Delayer] whose messages cannot be
// cancelled: it sends nothing, and returns an [*Error] that matches [errors.ErrUnsupported] and
// says which backend can. Embed it to implement Delayer without them, with a [Limits].CancelBefore
// of 0.
type NoTickets struct {
	Backend string // the name in the errors
}

// Schedule returns an error that matches [errors.ErrUnsupported].
func (n NoTickets) Schedule(context.Context, Message) (Ticket, error) {
	return "", n.unsupported("schedule")
}

// Ticket returns an error that matches [errors.ErrUnsupported].
func (n NoTickets) Ticket(string, time.Time) (Ticket, error) { return "", n.unsupported("ticket") }

// Cancel returns an error that matches [errors.ErrUnsupported].
func (n NoTickets) Cancel(context.Context, Ticket) error { return n.unsupported("cancel") }

// Postpone returns an error that matches [errors.ErrUnsupported].
func (n NoTickets) Postpone(context.Context, Ticket, time.Duration) (Ticket, error) {
	return "", n.unsupported("postpone")
}

func (n NoTickets) unsupported(op string) error {
	return &Error{
		Op: op, Backend: n.Backend, Kind: errors.ErrUnsupported, Cause: errors.New("its messages cannot be cancelled"),
		Hint: "use backend controller with wheel slots, its default",
	}
}

// PublishEach calls publish for each message and returns the results at the messages' indices. It
// implements [Delayer].PublishBatch where messages cannot be sent together, and refuses those with
// an ID or a Due:
//
//	func (d *mine) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
//		return delayer.PublishEach(ctx, d.Publish, messages)
//	}
//
// One message that waits for its confirm holds up those behind it. So it does not do where Publish
// sends messages without a delay straight to destinations, of which one may not confirm.
func PublishEach(
	ctx context.Context,
	publish func(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error,
	messages []Message,
) []error {
	results := make([]error, len(messages))
	for i, m := range messages {
		if results[i] = m.CheckBatch(); results[i] == nil {
			results[i] = publish(ctx, m.Exchange, m.Key, m.Delay, m.Publishing)
		}
	}
	return results
}

// CheckBatch returns ErrInvalid for a message that PublishBatch refuses because it has an ID or a
// Due. It is for those who implement [Delayer].
func (m *Message) CheckBatch() error {
	if m.ID == "" && m.Due.IsZero() {
		return nil
	}
	object := fmt.Sprintf("to queue %.300q", m.Key)
	if m.Exchange != "" {
		object = fmt.Sprintf("to exchange %.300q with key %.300q", m.Exchange, m.Key)
	}
	return &Error{
		Op: "publish", Object: object, Kind: ErrInvalid,
		Cause: errors.New("a message of a batch has no ID and no Due"), Hint: "use Schedule",
	}
}
