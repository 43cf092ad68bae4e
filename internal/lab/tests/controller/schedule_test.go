package controller_test

import (
	"context"
	"fmt"
	"net/url"
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

// slotsControllersAreKilled: one is killed that has read what was cancelled, and the next one
// starts only after the messages were due.
func slotsControllersAreKilled(t *testing.T, w *workbench) {
	d := w.slots(publishes)
	queue, marker := w.queue(), w.queue()
	p, first := w.planner(d, queue), w.Consume(marker)
	child := startController(t, w.opts)
	const delay = 15 * time.Second
	p.half(20, delay)
	_, err := p.Schedule(t.Context(), delayer.Message{Key: marker, Delay: time.Millisecond})
	require.NoError(t, err)
	rabbittest.Next(w, first)
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	got := w.Consume(queue)
	select {
	case m := <-got:
		t.Fatalf("%s was delivered by no one", m.MessageId)
	case <-time.After(delay):
	}
	again := w.slots(controls)
	p.schedule("last", time.Second)
	t.Logf("late by %v", w.settle(got, p.messages))
	select { // what was killed had not acknowledged it
	case <-first:
	case <-time.After(10 * time.Second): // or it had
	}
	require.NoError(t, again.Close())
	require.NoError(t, d.Close())
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

// slotsTicketsOfOthers: a ticket of another vhost, or of a Delayer with another prefix, changes
// nothing.
func slotsTicketsOfOthers(t *testing.T, w *workbench) {
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to add a vhost")
	}
	vhost := rabbittest.Prefix(t)
	u, err := url.Parse(b.URL())
	require.NoError(t, err)
	ctl := func(args ...string) {
		t.Helper()
		_, err := b.Ctl(context.Background(), args...)
		require.NoError(t, err)
	}
	ctl("add_vhost", vhost)
	t.Cleanup(func() { ctl("delete_vhost", vhost) })
	ctl("set_permissions", "--vhost", vhost, u.User.Username(), ".*", ".*", ".*")
	u.Path = "/" + vhost
	there := &workbench{rabbittest.NewRigAt(t, b, u.String()), w.opts}
	there.opts.URL = u.String()
	stranger := &workbench{there.Rig, there.opts}
	stranger.opts.Prefix = rabbittest.Prefix(t)

	here, theirs, another := w.slots(publishes), there.slots(controls), stranger.slots(publishes)
	queue := there.queue()
	p := there.planner(theirs, queue)
	p.schedule("theirs", 2*theirs.Limits().CancelBefore)
	for _, d := range []delayer.Delayer{here, another} {
		err := d.Cancel(t.Context(), p.ticket("theirs"))
		require.ErrorIs(t, err, delayer.ErrTicket)
		require.ErrorContains(t, err, "of another vhost or prefix")
		_, err = d.Postpone(t.Context(), p.ticket("theirs"), time.Hour)
		require.ErrorIs(t, err, delayer.ErrTicket)
	}
	there.settle(there.Consume(queue), p.messages)
	for _, d := range []delayer.Delayer{here, theirs, another} {
		require.NoError(t, d.Close())
	}
}
