package controller_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
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
