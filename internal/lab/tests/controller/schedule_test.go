package controller_test

import (
	"fmt"
	"sort"
	"strings"
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
	ticket, err := p.Schedule(p.Context(), "", p.queue, delay, amqp091.Publishing{MessageId: id})
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

func (p *planner) postpone(id string, delay time.Duration) {
	p.Helper()
	due := p.messages.Now() + delay
	ticket, err := p.Postpone(p.Context(), p.ticket(id), delay)
	p.messages.Postpone(id, due, err)
	require.NoError(p, err)
	p.note(id, ticket)
}

// slotsSchedule: what was cancelled does not arrive, what was postponed arrives then; also if the
// controller that delivers is another one than that which has read the changes.
func slotsSchedule(t *testing.T, w *workbench) {
	d, idle := w.slots(delayer.On), w.slots(delayer.Off)
	queue := w.queue()
	got := w.Consume(queue)
	p := w.planner(d, queue)
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
		p.cancel(idle, fmt.Sprint("gone ", i))
		p.postpone(fmt.Sprint("later ", i), long)
	})
	require.NoError(t, idle.Cancel(t.Context(), p.tickets["gone 0"]), "again")
	old := p.tickets["twice"]
	p.postpone("twice", (short+long)/2)
	require.NotEqual(t, old, p.tickets["twice"])
	p.postpone("twice", long)
	p.postpone("later, then gone", long)
	p.cancel(idle, "later, then gone")
	for _, id := range []string{"soon", "at once"} {
		require.ErrorIs(t, idle.Cancel(t.Context(), p.tickets[id]), delayer.ErrTooLate)
	}
	for _, delay := range []time.Duration{-time.Second, 0} {
		_, err := idle.Postpone(t.Context(), p.ticket("later 0"), delay)
		require.ErrorIs(t, err, delayer.ErrOutOfRange)
	}
	require.NoError(t, d.Close())
	again := w.slots(delayer.On)
	w.publish(again, queue, p.messages, "last", long)
	t.Logf("late by %v", w.settle(got, p.messages))
	require.ErrorIs(t, idle.Cancel(t.Context(), p.tickets["kept 0"]), delayer.ErrTooLate, "it was delivered")
	lost, err := idle.Schedule(t.Context(), "", queue, 20*24*time.Hour, amqp091.Publishing{})
	require.NoError(t, err)
	for i := range 32 {
		_, err = w.Ch.QueuePurge(fmt.Sprintf("%s.controller.wait.days.%02d", w.opts.Prefix, i), false)
		require.NoError(t, err)
	}
	require.NoError(t, idle.Cancel(t.Context(), lost), "a message that does not exist")
	slotsRefuseTickets(t, idle, p.tickets["kept 0"])
	require.NoError(t, again.Close())
	require.NoError(t, idle.Close())
}

// slotsPostponeTheLargest: a message whose headers leave no room may be postponed by the same ticket as
// often as a message can say. With all these times it is moved to a longer slot.
func slotsPostponeTheLargest(t *testing.T, w *workbench) {
	moved := make(chan time.Duration, 1)
	w.opts.Observer.Round = func(e delayer.RoundEvent) { moved <- e.Wait }
	d := w.slots(delayer.On)
	queue := w.queue()
	const most = 128 << 10
	padded := func(size int) amqp091.Publishing {
		return amqp091.Publishing{Headers: amqp091.Table{"padding": strings.Repeat("x", size)}}
	}
	room := sort.Search(most, func(size int) bool {
		return d.Publish(t.Context(), "", queue, time.Second, padded(size)) != nil
	})
	const times, later = 300, 10 * time.Minute
	ticket, err := d.Schedule(t.Context(), "", queue, 9*time.Second, padded(room-1))
	require.NoError(t, err)
	together(times, func(i int) {
		_, err := d.Postpone(t.Context(), ticket, later+time.Duration(i)*time.Second)
		require.NoError(t, err)
	})
	require.Equal(t, time.Minute, <-moved)
	require.NoError(t, d.Close())
}

func slotsRefuseTickets(t *testing.T, s delayer.Delayer, good delayer.Ticket) {
	for _, garbage := range []delayer.Ticket{"", "d1.x", good + "x", good[1:]} {
		err := s.Cancel(t.Context(), garbage)
		require.ErrorIs(t, err, delayer.ErrTicket)
		_, err = s.Postpone(t.Context(), garbage, time.Hour)
		require.ErrorIs(t, err, delayer.ErrTicket)
	}
}

// slotsControllersAreKilled: one is killed that has read what was cancelled, and the next one starts only
// after the messages were due.
func slotsControllersAreKilled(t *testing.T, w *workbench) {
	d := w.slots(delayer.Off)
	queue, marker := w.queue(), w.queue()
	p, first := w.planner(d, queue), w.Consume(marker)
	child := startController(t, w.opts, 1)
	const delay = 10 * time.Second
	p.half(20, delay)
	_, err := p.Schedule(t.Context(), "", marker, time.Millisecond, amqp091.Publishing{})
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
	again := w.slots(delayer.On)
	p.schedule("last", time.Second)
	t.Logf("late by %v", w.settle(got, p.messages))
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
