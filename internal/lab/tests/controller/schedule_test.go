package controller_test

import (
	"context"
	"fmt"
	"net/url"
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
	const short, long = 18 * time.Second, 24 * time.Second
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
	for i := range days.slots {
		_, err = w.Ch.QueuePurge(days.queue(w.opts.Prefix, i), false)
		require.NoError(t, err)
	}
	require.NoError(t, idle.Cancel(t.Context(), lost), "a message that does not exist")
	slotsRefuseTickets(t, idle, p.tickets["kept 0"])
	require.NoError(t, again.Close())
	require.NoError(t, idle.Close())
}

// slotsPostponeTheLargest: a message whose headers leave no room may be postponed by the same
// ticket as often as a message can say. With all these times it is moved to a longer slot.
func slotsPostponeTheLargest(t *testing.T, w *workbench) {
	moved := make(chan time.Duration, 1)
	w.opts.Observer.Round = func(e delayer.RoundEvent) {
		select {
		case moved <- e.Wait:
		default: // whoever waits here stops the wheel: only the first counts
		}
	}
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

// slotsControllersAreKilled: one is killed that has read what was cancelled, and the next one
// starts only after the messages were due.
func slotsControllersAreKilled(t *testing.T, w *workbench) {
	d := w.slots(delayer.Off)
	queue, marker := w.queue(), w.queue()
	p, first := w.planner(d, queue), w.Consume(marker)
	child := startController(t, w.opts, 1)
	const delay = 15 * time.Second
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

// slotsPostponeByLittle: while the broker's time becomes better known, what is a little later may
// seem to be earlier than before. It is not early by the clock of the process that has published
// it.
func slotsPostponeByLittle(t *testing.T, w *workbench) {
	d := w.slots(delayer.On)
	queue := w.queue()
	p := w.planner(d, queue)
	const messages, delay, known, little = 20, 20 * time.Second, 3 * time.Second, 100 * time.Millisecond
	together(messages, func(i int) { p.schedule(fmt.Sprint(i), delay) })
	scheduled := time.Now()
	time.Sleep(known)
	together(messages, func(i int) { p.postpone(fmt.Sprint(i), delay-time.Since(scheduled)+little) })
	t.Logf("late by %v", w.settle(w.Consume(queue), p.messages))
	require.NoError(t, d.Close())
}

// slotsEarlier: a message cannot be made earlier, whatever was done to it before. Cancel and
// Schedule do that. It was number 2 of where the wheel failed before: see docs/wheel.md.
func slotsEarlier(t *testing.T, w *workbench) {
	d := w.slots(delayer.On)
	queue := w.queue()
	p := w.planner(d, queue)
	const much, more, soon = 200 * time.Second, 40 * time.Minute, 8 * time.Second
	together(8, func(i int) {
		ticket, err := d.Schedule(t.Context(), "", queue, much, amqp091.Publishing{MessageId: "the old one"})
		require.NoError(t, err)
		ticket, err = d.Postpone(t.Context(), ticket, more)
		require.NoError(t, err)
		_, err = d.Postpone(t.Context(), ticket, soon)
		require.ErrorIs(t, err, delayer.ErrOutOfRange)
		require.ErrorContains(t, err, "to make a message earlier: Cancel, and Schedule it anew")
		require.NoError(t, d.Cancel(t.Context(), ticket))
		p.schedule(fmt.Sprint(i), soon)
	})
	for _, years := range []time.Duration{1, 2, 5} { // beyond one turn of the longest slots
		const year = 365 * 24 * time.Hour
		ticket, err := d.Schedule(t.Context(), "", queue, years*year, amqp091.Publishing{})
		require.NoError(t, err)
		ticket, err = d.Postpone(t.Context(), ticket, (years+1)*year)
		require.NoError(t, err)
		require.NoError(t, d.Cancel(t.Context(), ticket))
	}
	t.Logf("late by %v", w.settle(w.Consume(queue), p.messages))
	require.NoError(t, d.Close())
}

// slotsAfterALostConnection: who leads next reads only what is due soon, however much was cancelled
// and postponed before. So what has a ticket comes long before what is due later. It was number 3
// of where the wheel failed before.
func slotsAfterALostConnection(t *testing.T, w *workbench) {
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to close connections")
	}
	d := w.slots(delayer.On)
	queue := w.queue()
	got := w.Consume(queue)
	const changed, beside = 500, 20
	for _, delay := range []time.Duration{100 * time.Second, 20 * time.Minute} {
		together(changed, func(i int) {
			ticket, err := d.Schedule(t.Context(), "", queue, delay, amqp091.Publishing{MessageId: "cancelled"})
			require.NoError(t, err)
			if i%2 == 0 {
				ticket, err = d.Postpone(t.Context(), ticket, 2*delay)
				require.NoError(t, err)
			}
			require.NoError(t, d.Cancel(t.Context(), ticket))
		})
	}
	const soon, later = 8 * time.Second, 25 * time.Second
	p := w.planner(d, queue)
	together(beside, func(i int) { p.schedule(fmt.Sprint(i), soon) })
	w.publish(d, queue, p.messages, "the last", later)
	w.Cut("delayer " + w.opts.Prefix)
	t.Logf("late by %v", w.settle(got, p.messages))
	var last time.Duration
	for _, m := range p.messages.Messages() {
		if m.ID == "the last" { // if it is late itself, so may the others be by as much
			last = m.Arrived + m.Lateness()
		}
	}
	for _, m := range p.messages.Messages() {
		require.LessOrEqual(t, m.Arrived, last, "%s came after what is due %v later", m.ID, later-soon)
	}
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

	here, theirs, another := w.slots(delayer.Off), there.slots(delayer.On), stranger.slots(delayer.Off)
	queue := there.queue()
	p := there.planner(theirs, queue)
	p.schedule("theirs", 2*theirs.Limits().CancelBefore)
	for why, d := range map[string]delayer.Delayer{"of another vhost": here, "of a Delayer with another prefix": another} {
		err := d.Cancel(t.Context(), p.ticket("theirs"))
		require.ErrorIs(t, err, delayer.ErrTicket)
		require.ErrorContains(t, err, why)
		_, err = d.Postpone(t.Context(), p.ticket("theirs"), time.Hour)
		require.ErrorIs(t, err, delayer.ErrTicket)
	}
	there.settle(there.Consume(queue), p.messages)
	for _, d := range []delayer.Delayer{here, theirs, another} {
		require.NoError(t, d.Close())
	}
}
