package controller_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A ring is a level of the wheel.
type ring struct {
	level string
	slots int64
	width time.Duration
}

var (
	seconds  = ring{"4s", 52, 4 * time.Second}
	minutes  = ring{"1m", 40, time.Minute}
	twenties = ring{"20m", 10, 20 * time.Minute}
	hours    = ring{"2h", 11, 2 * time.Hour}
	days     = ring{"12h", 14, 12 * time.Hour}
)

// index is of the slot that serves after this time.
func (r ring) index(after time.Duration) int64 {
	return time.Now().Add(after).UnixMilli() / r.width.Milliseconds() % r.slots
}

func (r ring) queue(prefix string, index int64) string {
	return fmt.Sprintf("%s.controller.wait.%s.%02d", prefix, r.level, index)
}

func (w *workbench) slot(r ring, after time.Duration) string {
	return r.queue(w.opts.Prefix, r.index(after))
}

// slots declares the slots as an administrator would, and removes them after the test.
func slots(t *testing.T) (w *workbench, cfg backend.Config) {
	w = newWorkbench(t, delayer.Quorum)
	cfg = backend.Config{Options: w.opts, Backend: controller.Name, Controller: controller.Config{Wheel: controller.Slots}}
	cfg.Management, cfg.Declare = rabbittest.Broker(t).Management(), delayer.Off
	all, err := backend.Topology(cfg)
	require.NoError(t, err)
	const rings = "slots=52x4s+40x1m0s+10x20m0s+11x2h0m0s+14x12h0m0s,"
	require.Contains(t, fmt.Sprint(all), rings, "the rings above are the wheel's")
	_, err = backend.Apply(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { rabbittest.Remove(t, cfg) }) // with the messages that some tests leave
	return w, cfg
}

// A slotsTest runs on a wheel that others use as well: it has 127 slots to be declared.
type slotsTest struct {
	name string
	test func(t *testing.T, w *workbench, cfg backend.Config)
}

// onSlots is for tests that need no configuration.
func onSlots(name string, test func(t *testing.T, w *workbench)) slotsTest {
	return slotsTest{name, func(t *testing.T, w *workbench, _ backend.Config) { test(t, w) }}
}

// slotsTests begin with one that needs what an administrator has declared, and those that wait for
// long.
var slotsTests = []slotsTest{
	{"declared by others", slotsDeclaredByOthers},
	onSlots("silent destination", slotsSilentDestination),
	onSlots("silent slot", slotsSilentSlot),
	onSlots("large after small", slotsLargeAfterSmall),
	onSlots("tickets of others", slotsTicketsOfOthers),
	onSlots("controllers are killed", slotsControllersAreKilled),
	onSlots("expire under a policy", slotsExpireUnderAPolicy),
	onSlots("stragglers in a slow slot", slotsStragglersInASlowSlot),
	onSlots("stragglers in a slot without a leader", slotsStragglersWithoutALeader),
	onSlots("observer", slotsObserver),
	onSlots("stragglers", slotsStragglers),
	onSlots("another wheel is a conflict", slotsAnotherWheelIsAConflict),
	{"stand-alone permissions", func(t *testing.T, w *workbench, cfg backend.Config) { standAlonePermissions(t, w, cfg.Controller) }},
	onSlots("are full", slotsAreFull),
}

// lastSlotsTests run one after the other. RabbitMQ 3.10.8 was seen to lose its log of all quorum
// queues (ra_log_wal) for a moment, when slots were purged and deleted while much was written. It
// then forgets acknowledgements without a word to who has sent them.
var lastSlotsTests = []slotsTest{
	// It leaves a change in the slot of this minute, which the test after it must not count.
	onSlots("foreign messages are kept", slotsForeignMessagesAreKept),
	onSlots("delivered just before Close", slotsDeliveredJustBeforeClose),
	onSlots("are deleted or purged", slotsAreDeletedOrPurged),
}

// TestSlots runs them on a few wheels, beside one another.
func TestSlots(t *testing.T) {
	t.Parallel()
	t.Cleanup(func() { rabbittest.Evidence(t, rabbittest.Broker(t)) })
	var wheels [3]func(slotsTest)
	for i := range wheels {
		w, cfg := slots(t)
		wheels[i] = func(c slotsTest) {
			t.Run(c.name, func(t *testing.T) {
				c.test(t, &workbench{rabbittest.NewRig(t, rabbittest.Broker(t)), w.opts}, cfg)
			})
		}
	}
	next := make(chan slotsTest, len(slotsTests))
	for _, c := range slotsTests {
		next <- c
	}
	close(next)
	var running sync.WaitGroup
	for _, run := range wheels {
		running.Go(func() {
			for c := range next {
				run(c)
			}
		})
	}
	running.Wait()
	for _, c := range lastSlotsTests {
		wheels[0](c)
	}
}

func (w *workbench) slots(run delayer.Toggle) delayer.Delayer {
	w.Helper()
	return w.open(controller.Config{Wheel: controller.Slots, Run: run})
}

// slotsDeclaredByOthers: a Delayer that declares nothing needs nothing else, and adds nothing.
func slotsDeclaredByOthers(t *testing.T, w *workbench, cfg backend.Config) {
	d, err := backend.Open(t.Context(), cfg)
	require.NoError(t, err)
	queue, a := w.queue(), newMessages()
	w.publish(d, queue, a, "first", time.Second)
	w.settle(w.Consume(queue), a)
	require.NoError(t, d.Close())
	if cfg.Management != "" {
		problems, err := backend.Verify(t.Context(), cfg)
		require.NoError(t, err)
		require.Empty(t, problems)
	}
}

func slotsAnotherWheelIsAConflict(t *testing.T, w *workbench) {
	require.NoError(t, w.slots(delayer.On).Close())
	_, err := controller.Open(t.Context(), controller.Config{Options: w.opts, Wheel: controller.Rounds})
	require.ErrorIs(t, err, delayer.ErrConflict)
}

// slotsStragglers: what is written into a slot after its turn, or lies in one between its turns,
// is not found a rotation later.
func slotsStragglers(t *testing.T, w *workbench) {
	d := w.slots(delayer.On)
	queue, stragglers := w.queue(), w.queue()
	got := w.Consume(stragglers)
	stamped := w.stamped(d, stragglers)
	require.Equal(t, "before", rabbittest.Next(w, got).MessageId)
	arrives := func(slot string) {
		t.Helper()
		w.Publish("", slot, stamped)
		require.Equal(t, "straggler", rabbittest.Next(w, got).MessageId)
	}
	arrives(w.slot(seconds, -15*time.Second))
	arrives(w.slot(minutes, -7*time.Minute))
	arrives(w.slot(twenties, -4*time.Minute))
	arrives(w.slot(hours, -20*time.Minute))
	require.NoError(t, d.Close())

	// Nobody ran for longer than slots are consumed after their turns. The next controller counts
	// what is in them: each has its message by then, and the broker has noticed that the last
	// consumer is gone.
	for _, slot := range []string{
		w.slot(seconds, -time.Minute), w.slot(minutes, -20*time.Minute), w.slot(days, -3*24*time.Hour),
	} {
		w.alone(slot, stamped)
	}
	again := w.slots(delayer.On)
	for range 3 {
		rabbittest.Next(w, got)
	}
	a := newMessages()
	w.publish(again, queue, a, "also", 100*time.Millisecond)
	w.settle(w.Consume(queue), a)
	require.NoError(t, again.Close())
}

// slotsStragglersWithoutALeader: of a quorum queue that has no leader the broker says at once that
// it is empty.
func slotsStragglersWithoutALeader(t *testing.T, w *workbench) {
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to stop a queue")
	}
	d := w.slots(delayer.On)
	queue := w.queue()
	got := w.Consume(queue)
	overdue := w.stamped(d, queue)
	require.Equal(t, "before", rabbittest.Next(w, got).MessageId)
	require.NoError(t, d.Close())
	slot := w.slot(seconds, -100*time.Second) // its next turn is 108 s from now
	w.alone(slot, overdue)
	server := func(what string) error {
		_, err := b.Ctl(context.WithoutCancel(t.Context()), "eval", fmt.Sprintf("ra:%s_server(quorum_queues, {'%%2F_%s', node()}).", what, slot))
		return err
	}
	require.NoError(t, server("stop"))
	defer func() { _ = server("restart") }() // it may run by then; else the next tests of this wheel fail too
	q, err := w.Ch.QueueDeclarePassive(slot, true, false, false, false, nil)
	require.NoError(t, err)
	require.Zero(t, q.Messages)
	d = w.slots(delayer.On)
	a := newMessages()
	other := w.queue()
	w.publish(d, other, a, "other", 2*time.Second)
	w.settle(w.Consume(other), a)
	require.NoError(t, server("restart"))
	began := time.Now()
	require.Equal(t, "straggler", rabbittest.Next(w, got).MessageId)
	require.Less(t, time.Since(began), time.Minute)
	require.NoError(t, d.Close())
}

// slotsStragglersInASlowSlot: the broker counts 0 messages for a quorum queue that does not answer
// within 250 ms, as while it is read from disk after a start.
func slotsStragglersInASlowSlot(t *testing.T, w *workbench) {
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to make a queue slow")
	}
	d := w.slots(delayer.On)
	queue := w.queue()
	got := w.Consume(queue)
	overdue := w.stamped(d, queue)
	require.Equal(t, "before", rabbittest.Next(w, got).MessageId)
	require.NoError(t, d.Close())
	slot := w.slot(minutes, -20*time.Minute)
	w.alone(slot, overdue)
	_, err := b.Ctl(t.Context(), "eval", fmt.Sprintf(
		`S = binary_to_existing_atom(<<"%%2F_%s">>), ok = sys:suspend(S), spawn(fun() -> timer:sleep(5000), sys:resume(S) end).`, slot))
	require.NoError(t, err)
	d = w.slots(delayer.On)
	rabbittest.Next(w, got)
	require.NoError(t, d.Close())
}

// slotsDeliveredJustBeforeClose: what was delivered is acknowledged when Close returns. What is
// held goes back.
func slotsDeliveredJustBeforeClose(t *testing.T, w *workbench) {
	slot := w.slot(minutes, 0)
	_, err := w.Ch.QueuePurge(slot, false)
	require.NoError(t, err)
	d := w.slots(delayer.On)
	queue := w.queue()
	got := w.Consume(queue)
	overdue := w.stamped(d, queue)
	require.Equal(t, "before", rabbittest.Next(w, got).MessageId)
	// Held: those behind it are acknowledged one by one.
	w.Publish("", slot, w.stampedFor(queue, time.Now().Add(90*time.Second)))
	const many = 500
	w.Publish("", slot, slices.Repeat([]amqp091.Publishing{overdue}, many)...)
	for range many {
		rabbittest.Next(w, got)
	}
	require.NoError(t, d.Close())
	w.holds(slot, 1)
	_, err = w.Ch.QueuePurge(slot, false)
	require.NoError(t, err)
}

// alone puts a message into a slot that nobody consumes, and waits until it is there. What other
// tests have cancelled may lie in that slot.
func (w *workbench) alone(slot string, msg amqp091.Publishing) {
	w.Helper()
	_, err := w.Ch.QueuePurge(slot, false)
	require.NoError(w, err)
	w.Publish("", slot, msg)
	w.holds(slot, 1)
}

// holds waits until a queue holds so many messages.
func (w *workbench) holds(queue string, messages int) {
	w.Helper()
	require.EventuallyWithT(w, func(c *assert.CollectT) {
		q, err := w.Ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		require.NoError(c, err)
		require.Equal(c, messages, q.Messages, "in %s, with %d consumers", queue, q.Consumers)
	}, patience, 100*time.Millisecond)
}

// slotsAreDeletedOrPurged: they are declared again, and what is published from then on arrives.
func slotsAreDeletedOrPurged(t *testing.T, w *workbench) {
	d := w.slots(delayer.On)
	queue, a := w.queue(), newMessages()
	got := w.Consume(queue)
	w.publish(d, queue, a, "first", time.Millisecond)
	w.settle(got, a)
	a = newMessages()
	for i := range seconds.slots {
		_, err := w.Ch.QueuePurge(seconds.queue(w.opts.Prefix, i), false)
		require.NoError(t, err)
	}
	for i := int64(0); i < seconds.slots; i += 2 {
		_, err := w.Ch.QueueDelete(seconds.queue(w.opts.Prefix, i), false, false, false)
		require.NoError(t, err)
	}
	for i := range 5 {
		w.publish(d, queue, a, fmt.Sprint(i), time.Duration(i+1)*time.Second)
	}
	w.settle(got, a)
	// Nobody consumes this one yet.
	_, err := w.Ch.QueueDelete(w.slot(days, 6*24*time.Hour), false, false, false)
	require.NoError(t, err)
	require.NoError(t, d.Publish(t.Context(), "", queue, 200*24*time.Hour, amqp091.Publishing{}), "it is returned, and published again")
	require.NoError(t, d.Close())
}

// policy sets one for the slots of a level, until it is cleared or the test ends.
func (w *workbench) policy(b *rabbit.Broker, level, definition string) (clearPolicy func() error) {
	w.Helper()
	pattern := fmt.Sprintf(`^%s\.controller\.wait\.%s`, w.opts.Prefix, level)
	_, err := b.Ctl(w.Context(), "set_policy", w.opts.Prefix, pattern, definition)
	require.NoError(w, err)
	clearPolicy = sync.OnceValue(func() error {
		_, err := b.Ctl(context.Background(), "clear_policy", w.opts.Prefix)
		return err
	})
	w.Cleanup(func() { _ = clearPolicy() })
	return clearPolicy
}

// slotsAreFull under a policy: Publish says so, and what was taken stays.
func slotsAreFull(t *testing.T, w *workbench) {
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to set a policy")
	}
	slot := w.slot(days, 6*24*time.Hour)
	_, err := w.Ch.QueuePurge(slot, false) // what other tests have left
	require.NoError(t, err)
	d := w.slots(delayer.On)
	queue := w.queue()
	clearPolicy := w.policy(b, days.level, `{"max-length":1}`)
	publish := func() error { return d.Publish(t.Context(), "", queue, 200*24*time.Hour, amqp091.Publishing{}) }
	taken := 0
	require.Eventually(t, func() bool {
		err = publish()
		if err == nil {
			taken++
		}
		return err != nil
	}, patience, time.Millisecond)
	require.ErrorIs(t, err, delayer.ErrRefused)
	require.NoError(t, clearPolicy())
	require.Eventually(t, func() bool { return publish() == nil }, patience, 100*time.Millisecond)
	w.holds(slot, taken+1)
	require.NoError(t, d.Close())
}

// slotsExpireUnderAPolicy: what expires in a slot comes to its time nevertheless.
func slotsExpireUnderAPolicy(t *testing.T, w *workbench) {
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to set a policy")
	}
	d := w.slots(delayer.On)
	clearPolicy := w.policy(b, seconds.level, `{"message-ttl":500}`)
	queue := w.queue()
	p := w.planner(d, queue)
	for i := range 10 {
		w.publish(d, queue, p.messages, fmt.Sprint(i), time.Duration(6000+20*i)*time.Millisecond)
	}
	p.half(10, 12*time.Second) // changes expire as well
	w.settle(w.Consume(queue), p.messages)
	require.NoError(t, clearPolicy())
	require.NoError(t, d.Close())
}

// slotsForeignMessagesAreKept: what somebody puts into a queue by hand is for an operator to see,
// whatever it pretends to be.
func slotsForeignMessagesAreKept(t *testing.T, w *workbench) {
	d := w.slots(delayer.On)
	queue := w.queue()
	got := w.Consume(queue)
	w.stamped(d, queue)
	require.Equal(t, "before", rabbittest.Next(w, got).MessageId)
	kept, cancel := w.ConsumeUntil(w.opts.Prefix + ".unroutable")
	// Others may come too: a second copy of a message of a test that has killed a controller, and
	// whose queue is gone.
	const ours = "ours"
	forged := []amqp091.Table{
		nil, {message.Stamp: "x"}, {message.Stamp: amqp091.Table{"clock": "c"}}, {"x-delayer-wheel": "change x"},
		{"x-delayer-wheel": "change x 0 0"}, {"x-delayer-wheel": "mark"}, {"x-delayer-wheel": "summons of mine"},
	}
	for _, to := range []string{w.opts.Prefix + ".controller.intake", w.slot(seconds, 0), w.slot(minutes, 0)} {
		for _, headers := range forged {
			w.Publish("", to, amqp091.Publishing{AppId: ours, Headers: headers, Expiration: "100000", Body: []byte("as it was")})
		}
		// These pretend well. They are a mark and a change that nobody waits for.
		w.Publish("", to, amqp091.Publishing{AppId: ours, Headers: amqp091.Table{"x-delayer-wheel": "mark somebody 1"}})
		change := fmt.Sprintf("change nobody %d 0", time.Now().UnixMilli())
		w.Publish("", to, amqp091.Publishing{AppId: ours, Headers: amqp091.Table{"x-delayer-wheel": change}})
		for n := 0; n < len(forged); {
			m := rabbittest.Next(w, kept)
			if m.AppId != ours {
				continue
			}
			n++
			require.Equal(t, "as it was", string(m.Body), "with %v", m.Headers)
			require.Empty(t, m.Expiration, "it shall stay")
		}
	}
	a := newMessages()
	w.publish(d, queue, a, "behind", 100*time.Millisecond)
	w.settle(got, a)
	require.NoError(t, d.Close())
	cancel()
	for m := range kept {
		require.NotEqual(t, ours, m.AppId)
	}
}

// stamped returns a message for a queue as it waits in a slot, due now. The queue's binding exists
// once a message was published to it.
func (w *workbench) stamped(d delayer.Delayer, queue string) amqp091.Publishing {
	w.Helper()
	a := newMessages()
	w.publish(d, queue, a, "before", time.Millisecond)
	return w.stampedFor(queue, time.Now())
}

// stampedFor returns one that is due at a time.
func (w *workbench) stampedFor(queue string, due time.Time) amqp091.Publishing {
	return amqp091.Publishing{MessageId: "straggler", DeliveryMode: amqp091.Persistent, Headers: amqp091.Table{
		delayer.Header: fmt.Sprintf("straggler %d 1 ", due.UnixMilli()),
		message.Stamp:  stampOfAnother(queue, 0, time.Hour, due),
	}}
}
