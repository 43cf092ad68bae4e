package memory

import (
	"container/heap"
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// A scheduler is a Delayer whose messages can be cancelled.
type scheduler struct{ *memoryDelayer }

var _ delayer.Scheduler = scheduler{}

type idKey struct{}

// Schedule implements [delayer.Scheduler].
func (s scheduler) Schedule(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) (delayer.Ticket, error) {
	id := lastID.Add(1)
	if err := s.Publish(context.WithValue(ctx, idKey{}, id), exchange, key, delay, msg); err != nil {
		return "", err
	}
	return ticket(id), nil
}

func ticket(id int64) delayer.Ticket {
	text := fmt.Sprint(id)
	return delayer.Ticket(fmt.Sprintf("%s-%08x", text, crc32.ChecksumIEEE([]byte(text))))
}

// Cancel implements [delayer.Scheduler].
func (s scheduler) Cancel(_ context.Context, t delayer.Ticket) error {
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	i, id, err := b.find(t)
	switch {
	case b.cancelled[id]:
		return nil
	case err != nil:
		return err
	}
	heap.Remove(&b.waiting, i)
	b.cancelled[id] = true
	return nil
}

// Reschedule implements [delayer.Scheduler].
func (s scheduler) Reschedule(_ context.Context, t delayer.Ticket, delay time.Duration) (delayer.Ticket, error) {
	effective, err := s.effective(delay)
	if err != nil {
		return "", err
	}
	b := s.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	i, _, err := b.find(t)
	if err != nil {
		return "", err
	}
	b.waiting[i].due = time.Now().Add(effective)
	heap.Fix(&b.waiting, i)
	time.AfterFunc(effective, b.release)
	return t, nil
}

// find finds a message that waits, and is not due too soon.
func (b *Broker) find(t delayer.Ticket) (i int, id int64, err error) {
	_, _ = fmt.Sscanf(string(t), "%d-", &id)
	if t != ticket(id) {
		return 0, 0, fail(delayer.ErrTicket, nil)
	}
	i = slices.IndexFunc(b.waiting, func(m message) bool { return m.id == id })
	if i < 0 || time.Until(b.waiting[i].due) < b.limits.CancelBefore {
		return i, id, fail(delayer.ErrTooLate, nil)
	}
	return i, id, nil
}
