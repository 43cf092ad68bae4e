package controller_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// A planner schedules messages for one queue.
type planner struct {
	*workbench
	delayer.Scheduler
	queue string
	account
	tickets map[string]delayer.Ticket
}

func (w *workbench) planner(d delayer.Delayer, queue string) *planner {
	s, ok := d.(delayer.Scheduler)
	require.True(w.t, ok)
	require.Positive(w.t, d.Limits().CancelBefore)
	return &planner{workbench: w, Scheduler: s, queue: queue, account: account{due: map[string]time.Time{}}, tickets: map[string]delayer.Ticket{}}
}

// schedule schedules a message that is to arrive.
func (p *planner) schedule(id string, delay time.Duration) {
	p.t.Helper()
	due := time.Now().Add(delay)
	ticket, err := p.Schedule(p.t.Context(), "", p.queue, delay, amqp091.Publishing{MessageId: id})
	require.NoError(p.t, err)
	p.note(id, due, ticket)
}

func (p *planner) note(id string, due time.Time, ticket delayer.Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due[id], p.tickets[id] = due, ticket
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
func (p *planner) cancel(by delayer.Scheduler, id string) {
	p.t.Helper()
	require.NoError(p.t, by.Cancel(p.t.Context(), p.ticket(id)))
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.due, id)
}

func (p *planner) reschedule(id string, delay time.Duration) {
	p.t.Helper()
	due := time.Now().Add(delay)
	ticket, err := p.Reschedule(p.t.Context(), p.ticket(id), delay)
	require.NoError(p.t, err)
	p.note(id, due, ticket)
}

// slotsSchedule: what was cancelled does not arrive, what was rescheduled arrives then; also if the
// controller that delivers is another one than that which has read the changes.
func slotsSchedule(t *testing.T, w *workbench) {
	d, idle := w.slots(delayer.On), w.slots(delayer.Off)
	queue := w.queue()
	got := w.consume(queue)
	p := w.planner(d, queue)
	other := idle.(delayer.Scheduler)
	const short, long = 10 * time.Second, 14 * time.Second
	together(20, func(i int) {
		p.schedule(fmt.Sprint("kept ", i), short)
		p.schedule(fmt.Sprint("gone ", i), short)
		p.schedule(fmt.Sprint("later ", i), short)
	})
	p.schedule("soon", 2*time.Second)
	p.schedule("at once", 0)
	p.schedule("twice", short)
	p.schedule("later, then gone", short)
	together(20, func(i int) {
		p.cancel(other, fmt.Sprint("gone ", i))
		p.reschedule(fmt.Sprint("later ", i), long)
	})
	require.NoError(t, other.Cancel(t.Context(), p.tickets["gone 0"]), "again")
	old := p.tickets["twice"]
	p.reschedule("twice", time.Hour)
	require.NotEqual(t, old, p.tickets["twice"])
	p.reschedule("twice", long)
	p.reschedule("later, then gone", long)
	p.cancel(other, "later, then gone")
	for _, id := range []string{"soon", "at once"} {
		require.ErrorIs(t, other.Cancel(t.Context(), p.tickets[id]), delayer.ErrTooLate)
	}
	_, err := other.Reschedule(t.Context(), p.tickets["kept 0"], -time.Second)
	require.ErrorIs(t, err, delayer.ErrOutOfRange)
	for i, delay := range []time.Duration{30 * time.Second, 10 * time.Minute, 5 * time.Hour, 40 * 24 * time.Hour, 500 * 24 * time.Hour} {
		id := fmt.Sprint("earlier ", i)
		p.schedule(id, delay)
		p.reschedule(id, short)
	}
	require.NoError(t, d.Close())
	again := w.slots(delayer.On)
	p.due["last"] = time.Now().Add(long)
	require.NoError(t, again.Publish(t.Context(), "", queue, long, amqp091.Publishing{MessageId: "last"}))
	t.Logf("late by %v", w.settle(got, &p.account))
	require.ErrorIs(t, other.Cancel(t.Context(), p.tickets["kept 0"]), delayer.ErrTooLate, "it was delivered")
	lost, err := other.Schedule(t.Context(), "", queue, 20*24*time.Hour, amqp091.Publishing{})
	require.NoError(t, err)
	for i := range 32 {
		_, err = w.ch.QueuePurge(fmt.Sprintf("%s.controller.wait.days.%02d", w.opts.Prefix, i), false)
		require.NoError(t, err)
	}
	require.NoError(t, other.Cancel(t.Context(), lost), "a message that does not exist")
	slotsRefuseTickets(t, other, p.tickets["kept 0"])
	require.NoError(t, again.Close())
	require.NoError(t, idle.Close())
}

func slotsRefuseTickets(t *testing.T, s delayer.Scheduler, good delayer.Ticket) {
	for _, garbage := range []delayer.Ticket{"", "d1.x", good + "x", good[1:]} {
		err := s.Cancel(t.Context(), garbage)
		require.ErrorIs(t, err, delayer.ErrTicket)
		_, err = s.Reschedule(t.Context(), garbage, time.Hour)
		require.ErrorIs(t, err, delayer.ErrTicket)
	}
}

// slotsControllersAreKilled: one is killed that has read what was cancelled, and the next one starts only
// after the messages were due.
func slotsControllersAreKilled(t *testing.T, w *workbench) {
	d := w.slots(delayer.Off)
	queue, marker := w.queue(), w.queue()
	p, first := w.planner(d, queue), w.consume(marker)
	child := startController(t, w.opts)
	const delay = 10 * time.Second
	p.half(20, delay)
	_, err := p.Schedule(t.Context(), "", marker, time.Millisecond, amqp091.Publishing{})
	require.NoError(t, err)
	w.next(first)
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	got := w.consume(queue)
	select {
	case m := <-got:
		t.Fatalf("%s was delivered by no one", m.MessageId)
	case <-time.After(delay):
	}
	again := w.slots(delayer.On)
	p.schedule("last", time.Second)
	t.Logf("late by %v", w.settle(got, &p.account))
	require.NoError(t, again.Close())
	require.NoError(t, d.Close())
}

// half schedules n messages that are to arrive, and n that are cancelled.
func (p *planner) half(n int, delay time.Duration) {
	p.t.Helper()
	together(n, func(i int) {
		p.schedule(fmt.Sprint("kept ", i), delay)
		p.schedule(fmt.Sprint("gone ", i), delay)
		p.cancel(p, fmt.Sprint("gone ", i))
	})
}
