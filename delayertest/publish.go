package delayertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// Publish implements [delayer.Delayer].
func (d *Delayer) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	_, err := d.put(ctx, "publish", delayer.Message{Exchange: exchange, Key: key, Delay: delay, Publishing: msg})
	return err
}

// PublishBatch implements [delayer.Delayer].
func (d *Delayer) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	return delayer.PublishEach(ctx, d.Publish, messages)
}

// put stores a message, and returns it unless the error says that it is not stored.
func (d *Delayer) put(ctx context.Context, op string, m delayer.Message) (*waiting, error) {
	fail := func(kind, cause error) error {
		if errors.Is(kind, delayer.ErrRefused) && m.Delay == 0 {
			cause = errNack
		}
		return failure(op, m, kind, cause)
	}
	wait, err := d.fit(m.Delay)
	if err != nil {
		return nil, fail(delayer.ErrOutOfRange, err)
	}
	const frame = 128 << 10
	bounds := message.Limits{FrameSize: frame, User: m.Publishing.UserId, MaxPriority: d.limits.MaxPriority}
	if err := message.Validate(m.Exchange, m.Key, &m.Publishing, bounds); err != nil {
		return nil, fail(delayer.ErrInvalid, err)
	}
	m.Publishing = copied(m.Publishing, asGiven)

	d.mu.Lock()
	defer d.mu.Unlock()
	answer, err := d.answer(ctx, fail)
	if err != nil {
		return nil, err
	}
	sealed := message.Seal(m.Publishing, message.NewEnvelope(d.now().Add(m.Delay), m.Delay, m.Exchange), nil)
	w := &waiting{Message: m, sealed: copied(sealed, asRead), due: d.now().Add(wait)}
	d.published = append(d.published, m)
	d.wait(w)
	return w, answer
}

// answer returns what the test wants a call to answer, and an error if that is not done then.
func (d *Delayer) answer(ctx context.Context, fail func(kind, cause error) error) (answer, err error) {
	if err := d.ready(ctx, fail); err != nil || len(d.answers) == 0 {
		return nil, err
	}
	answer, d.answers = d.answers[0], d.answers[1:]
	if answer == nil {
		return nil, nil
	}
	if errors.Is(answer, delayer.ErrUnknown) {
		return fail(answer, nil), nil
	}
	return nil, fail(answer, nil)
}

// ready returns an error if nothing can be sent.
func (d *Delayer) ready(ctx context.Context, fail func(kind, cause error) error) error {
	switch {
	case d.closed:
		return fail(delayer.ErrClosed, nil)
	case ctx.Err() != nil:
		return fail(delayer.ErrNotSent, ctx.Err())
	}
	return nil
}

// errNack: who publishes without a delay cannot know whether another queue has a message that was
// refused.
var errNack = fmt.Errorf("nack: %w", delayer.ErrUnknown)

// fit returns how long a message waits: its delay, rounded up.
func (b *broker) fit(delay time.Duration) (time.Duration, error) {
	switch l := b.limits; {
	case delay < 0 || delay > l.Max:
		return 0, fmt.Errorf("%v is not between 0 and %v", delay, l.Max)
	case delay == 0:
		return 0, nil
	case l.Tiers != nil:
		i, exact := slices.BinarySearch(l.Tiers, delay)
		if i == len(l.Tiers) || l.ExactTiers && !exact {
			return 0, fmt.Errorf("%v is none of the tiers %v", delay, l.Tiers)
		}
		return l.Tiers[i], nil
	case l.Resolution > 0 && delay%l.Resolution > 0:
		delay += l.Resolution - delay%l.Resolution
	}
	return delay, nil
}

// failure is an error about a message, or about a ticket if m is empty.
func failure(op string, m delayer.Message, kind, cause error) error {
	object := ""
	switch {
	case m.Exchange != "":
		object = fmt.Sprintf("to exchange %.300q with key %.300q", m.Exchange, m.Key)
	case m.Key != "":
		object = fmt.Sprintf("to queue %.300q", m.Key)
	}
	return &delayer.Error{Op: op, Backend: name, Object: object, Kind: kind, Cause: cause}
}

// wait puts a message among those that wait: behind those that are due at the same time.
func (b *broker) wait(w *waiting) {
	i, _ := slices.BinarySearchFunc(b.waiting, w, func(other, w *waiting) int {
		return cmp.Or(other.due.Compare(w.due), -1)
	})
	b.waiting = slices.Insert(b.waiting, i, w)
	if b.timers {
		time.AfterFunc(time.Until(w.due), b.deliver)
	}
}

func (b *broker) remove(w *waiting) {
	b.waiting = slices.DeleteFunc(b.waiting, func(other *waiting) bool { return other == w })
}
