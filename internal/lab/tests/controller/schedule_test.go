package controller_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// A planner schedules messages for one queue.
type planner struct {
	*workbench
	delayer.Delayer
	queue    string
	messages *messages

	mu      sync.Mutex
	tickets map[string]delayer.Ticket
}

func (w *workbench) planner(d delayer.Delayer, queue string) *planner {
	require.Positive(w, d.Limits().CancelBefore)
	return &planner{workbench: w, Delayer: d, queue: queue, messages: newMessages(), tickets: map[string]delayer.Ticket{}}
}

// schedule schedules a message that is to arrive.
func (p *planner) schedule(id string, delay time.Duration) {
	p.Helper()
	p.messages.Ask(account.Course[string]{ID: id, Asked: p.messages.Now(), Delay: delay})
	ticket, err := p.Schedule(p.Context(), delayer.Message{Key: p.queue, Delay: delay, Publishing: amqp091.Publishing{MessageId: id}})
	p.messages.Answer(id, p.messages.Now(), err)
	require.NoError(p, err)
	p.note(id, ticket)
}

func (p *planner) note(id string, ticket delayer.Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tickets[id] = ticket
}

func (p *planner) ticket(id string) delayer.Ticket {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tickets[id]
}

// together calls f n times at once: there are seconds to cancel in, on a machine that may be busy.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// cancel cancels one by any Delayer.
func (p *planner) cancel(by delayer.Delayer, id string) {
	p.Helper()
	err := by.Cancel(p.Context(), p.ticket(id))
	p.messages.Cancel(id, err)
	require.NoError(p, err)
}

// half schedules n messages that are to arrive, and n that are cancelled.
func (p *planner) half(n int, delay time.Duration) {
	p.Helper()
	together(n, func(i int) {
		p.schedule(fmt.Sprint("kept ", i), delay)
		p.schedule(fmt.Sprint("gone ", i), delay)
		p.cancel(p, fmt.Sprint("gone ", i))
	})
}

// slotsBatchWithTickets: the messages of a batch share bundles and keep their order, and each has its
// own ticket or error.
func slotsBatchWithTickets(t *testing.T, w *workbench) {
	d := w.slots(publishes)
	queue := w.queue()
	delay := 2 * d.Limits().CancelBefore
	batch := make([]delayer.Message, 300)
	for i := range batch {
		batch[i] = delayer.Message{Key: queue, Delay: delay, Publishing: amqp091.Publishing{MessageId: fmt.Sprint(i)}}
	}
	const refused, cancelled = 7, 8
	batch[refused].Due = time.Now().Add(delay)
	began := w.Count(w.log())
	tickets, errs := d.(interface {
		ScheduleBatch(context.Context, []delayer.Message) ([]delayer.Ticket, []error)
	}).ScheduleBatch(t.Context(), batch)
	require.Less(t, w.Count(w.log())-began, len(batch)/2)
	require.ErrorIs(t, errs[refused], delayer.ErrInvalid)
	require.Empty(t, tickets[refused])
	require.NoError(t, d.Cancel(t.Context(), tickets[cancelled]))
	at := w.slots(controls)
	got := w.Consume(queue)
	for i, err := range errs {
		if i == refused {
			continue
		}
		require.NoError(t, err)
		if i != cancelled {
			require.Equal(t, batch[i].Publishing.MessageId, rabbittest.Next(t, got).MessageId)
		}
	}
	require.NoError(t, at.Close())
	require.NoError(t, d.Close())
}

// slotsLargeAfterSmall: a controller that has learned that messages are small does not take
// gigabytes when they are large. With tickets it cannot deliver before it has read a mark that is
// behind them all.
func slotsLargeAfterSmall(t *testing.T, w *workbench) {
	const memory, large, many = 8 << 20, 1 << 20, 60
	d := w.slots(publishes)
	queue := w.queue()
	got := w.Consume(queue)
	due := time.Now().Add(13 * time.Second)
	send := func(n, size int) {
		together(n, func(i int) {
			msg := amqp091.Publishing{MessageId: fmt.Sprint(size, i), Body: make([]byte, size)}
			_, err := d.Schedule(t.Context(), delayer.Message{Key: queue, Delay: time.Until(due), Publishing: msg})
			require.NoError(t, err)
		})
	}
	send(500, 1)
	send(many, large)
	var held, most atomic.Int64
	w.opts.Observer.Held = func(e delayer.HeldEvent) {
		now := held.Add(int64(e.Bytes))
		most.Store(max(most.Load(), now))
	}
	c := w.open(controller.Config{Wheel: controller.Slots, Memory: memory})
	// Each portion of 8 MiB waits for marks of its own: on a busy machine there are long gaps.
	const gap = 3 * rabbittest.Patience
	for range 500 + many {
		select {
		case <-got:
		case <-time.After(gap):
			require.FailNow(t, "nothing comes")
		}
	}
	t.Logf("at most %d KiB, the last %v late", most.Load()>>10, time.Since(due))
	// What the client has read is counted once the machine is told. While that waits for a
	// processor, a megabyte more comes each millisecond.
	const readBefore = 40
	require.Less(t, most.Load(), int64(memory+readBefore*large), "of %d MiB", many)
	require.NoError(t, c.Close())
	require.NoError(t, d.Close())
}

// slotsSilentDestination: a quorum queue that does not answer, as without a majority, costs its own
// messages alone, however many they are: all others come meanwhile. They come once it answers. How
// late the others are the simulator asks.
func slotsSilentDestination(t *testing.T, w *workbench) {
	const waiting, beside = 3000, 100
	const due, lasts = 8 * time.Second, 10 * time.Second
	d := w.slots(controls)
	stuck, other := rabbittest.Prefix(t), w.queue()
	w.Declare(stuck, amqp091.Table{"x-queue-type": "quorum"})
	a, punctual := newMessages(), newMessages()
	got := w.Consume(other)

	batch := make([]delayer.Message, waiting)
	for i := range batch {
		id := fmt.Sprint("stuck ", i)
		batch[i] = delayer.Message{Key: stuck, Delay: due, Publishing: amqp091.Publishing{MessageId: id}}
		a.Ask(account.Course[string]{ID: id, Asked: a.Now(), Delay: due})
	}
	for i, err := range d.PublishBatch(t.Context(), batch) {
		require.NoError(t, err)
		a.Answer(batch[i].Publishing.MessageId, a.Now(), nil)
	}
	resume := rabbittest.Suspend(t, rabbittest.Broker(t), stuck)
	for i := range beside {
		w.publish(d, other, punctual, fmt.Sprint(i), due+time.Duration(i)*lasts/beside)
	}
	t.Logf("beside a silent destination late by at most %v", slices.Max(w.settle(got, punctual)))
	resume()
	w.settle(w.Consume(stuck), a)
	require.NoError(t, d.Close())
}

// slotsSilentSlot: a slot without a majority answers neither who writes to it nor its consumer. What
// would go there goes elsewhere, and nothing else waits for it, nor does the end of the process.
func slotsSilentSlot(t *testing.T, w *workbench) {
	d := w.slots(controls)
	queue, got := w.bound(d)
	a := newMessages()
	due := time.Now().Add(3 * seconds.width)
	for i := range 2 {
		rabbittest.Suspend(t, rabbittest.Broker(t), w.slot(seconds, time.Until(due)+time.Duration(i)*seconds.width))
	}
	for i := range 5 {
		w.publish(d, queue, a, fmt.Sprint(i), time.Until(due)+time.Duration(i)*time.Second)
	}
	t.Logf("beside silent slots late by %v", w.settle(got, a))
	closed := make(chan error, 1)
	go func() { closed <- d.Close() }()
	require.NoError(t, rabbittest.Next(t, closed))
}
