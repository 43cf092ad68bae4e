package controller_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// A ring is a level of the wheel.
type ring struct {
	name  string
	slots int64
	width time.Duration
}

var (
	seconds = ring{"4s", 14, 4 * time.Second}
	minutes = ring{"20m", 8, 20 * time.Minute}
	hours   = ring{"8h", 7, 8 * time.Hour}
)

// slot is the one that serves after this time.
func (w *workbench) slot(r ring, after time.Duration) string {
	index := time.Now().Add(after).UnixMilli() / r.width.Milliseconds() % r.slots
	return fmt.Sprintf("%s.controller.slot.%s.%02d", w.opts.Prefix, r.name, index)
}

func (w *workbench) log() string { return w.opts.Prefix + ".controller.log" }

// slots declares the slots as an administrator would, and removes them after the test.
func slots(t *testing.T) (w *workbench, cfg backend.Config) {
	w = newWorkbench(t, delayer.Quorum)
	cfg = backend.Config{Options: w.opts, Backend: controller.Name, Controller: controller.Config{Wheel: controller.Slots}}
	cfg.Management, cfg.Passive = rabbittest.Broker(t).Management(), true
	all, err := backend.Topology(cfg)
	require.NoError(t, err)
	for _, r := range []ring{seconds, minutes, hours} {
		require.Contains(t, fmt.Sprint(all), fmt.Sprintf("%dx%v", r.slots, r.width), "the rings above are the wheel's")
	}
	_, err = backend.Apply(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { rabbittest.Remove(t, cfg) }) // with the messages that some tests leave
	return w, cfg
}

// A slotsTest runs on a wheel that others use as well: it has 55 slots to be declared.
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
	onSlots("a batch with tickets", slotsBatchWithTickets),
	onSlots("expire under a policy", slotsExpireUnderAPolicy),
	onSlots("delivered just before Close", slotsDeliveredJustBeforeClose),
	onSlots("observer", slotsObserver),
	onSlots("are full", slotsAreFull),
	onSlots("foreign messages are kept", slotsForeignMessagesAreKept),
	onSlots("a later version", slotsALaterVersion),
}

// lastSlotsTest runs alone. RabbitMQ 3.10.8 was seen to lose its log of all quorum queues
// (ra_log_wal) for a moment, when slots were purged and deleted while much was written. It then
// forgets acknowledgements without a word to who has sent them.
var lastSlotsTest = onSlots("are deleted or purged", slotsAreDeletedOrPurged)

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
	wheels[0](lastSlotsTest)
}

// What slots opens.
const (
	controls  = false // with a controller beside it
	publishes = true
)

func (w *workbench) slots(publishOnly bool) delayer.Delayer {
	w.Helper()
	return w.open(controller.Config{Wheel: controller.Slots, PublishOnly: publishOnly})
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

// slotsDeliveredJustBeforeClose: what was delivered, in order, is acknowledged when Close returns, in
// the log and in slots. What is not due waits for the next controller, with its user-id.
func slotsDeliveredJustBeforeClose(t *testing.T, w *workbench) {
	d := w.slots(controls)
	queue, a, later := w.queue(), newMessages(), newMessages()
	got := w.Consume(queue)
	batch := make([]delayer.Message, 500)
	for i := range batch {
		id, delay := fmt.Sprint(i), time.Duration(i%2)*7*time.Second // each other goes through a slot
		batch[i] = delayer.Message{Key: queue, Delay: 100*time.Millisecond + delay, Publishing: amqp091.Publishing{MessageId: id}}
		a.Ask(account.Course[string]{ID: id, Asked: a.Now(), Delay: batch[i].Delay})
	}
	for i, err := range d.PublishBatch(t.Context(), batch) {
		require.NoError(t, err)
		a.Answer(batch[i].Publishing.MessageId, a.Now(), nil)
	}
	const wait = 14 * time.Second
	at, err := amqp091.ParseURI(w.opts.URL)
	require.NoError(t, err)
	later.Ask(account.Course[string]{ID: "later", Asked: later.Now(), Delay: wait})
	require.NoError(t, d.Publish(t.Context(), "", queue, wait, amqp091.Publishing{MessageId: "later", UserId: at.Username}))
	w.settle(got, a)
	require.NoError(t, d.Close())
	latest := map[time.Duration]time.Duration{} // arrivals, by delay
	for _, m := range a.Messages() {
		require.GreaterOrEqual(t, m.Arrived, latest[m.Delay], "message %s", m.ID)
		latest[m.Delay] = m.Arrived
	}

	d = w.slots(controls)
	m := rabbittest.Next(t, got) // all that is left would come before it
	require.Equal(t, []string{"later", at.Username}, []string{m.MessageId, m.UserId})
	later.Arrive(m.MessageId, later.Now())
	require.Empty(t, later.Verdict().Early)
	require.NoError(t, d.Close())
}

// slotsAreDeletedOrPurged, and the log: they are declared again, and what is published from then on
// arrives.
func slotsAreDeletedOrPurged(t *testing.T, w *workbench) {
	var said rabbittest.Logbook
	w.opts.Logger = said.Logger()
	d := w.slots(controls)
	queue := w.queue()
	got := w.Consume(queue)
	arrives := func(messages int) {
		t.Helper()
		a := newMessages()
		for i := range messages {
			w.publish(d, queue, a, fmt.Sprint(i), time.Millisecond+time.Duration(i)*3*time.Second)
		}
		w.settle(got, a)
	}
	arrives(1)
	all := []string{w.log()}
	for i := range seconds.slots {
		all = append(all, w.slot(seconds, time.Duration(i)*seconds.width))
	}
	for _, q := range all {
		_, err := w.Ch.QueuePurge(q, false)
		require.NoError(t, err)
	}
	arrives(4)
	for i := 1; i < len(all); i += 2 {
		_, err := w.Ch.QueueDelete(all[i], false, false, false)
		require.NoError(t, err)
	}
	arrives(4)
	_, err := w.Ch.QueueDelete(w.log(), false, false, false)
	require.NoError(t, err)
	require.Eventually(t, func() bool { // if it is declared again before, the broker tells no consumer
		return strings.Contains(said.String(), w.log()+": the broker ended the consumer")
	}, patience, 50*time.Millisecond)
	arrives(4)
	require.NoError(t, d.Close())
}

// policy sets one for some of the queues, until it is cleared or the test ends.
func (w *workbench) policy(b *rabbit.Broker, queues, definition string) (clearPolicy func() error) {
	w.Helper()
	_, err := b.Ctl(w.Context(), "set_policy", w.opts.Prefix, fmt.Sprintf(`^%s\.controller\.%s`, w.opts.Prefix, queues), definition)
	require.NoError(w, err)
	clearPolicy = sync.OnceValue(func() error {
		_, err := b.Ctl(context.Background(), "clear_policy", w.opts.Prefix)
		return err
	})
	w.Cleanup(func() { _ = clearPolicy() })
	return clearPolicy
}

// slotsAreFull under a policy, as the log is: Publish says so, and what was taken comes. While slots
// are full, what would go there comes nevertheless.
func slotsAreFull(t *testing.T, w *workbench) {
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to set a policy")
	}
	d := w.slots(publishes)
	queue, a := w.queue(), newMessages()
	got := w.Consume(queue)
	clearPolicy := w.policy(b, "log$", `{"max-length":1}`)
	publish := func(id string) error {
		a.Ask(account.Course[string]{ID: id, Asked: a.Now(), Delay: time.Second})
		err := d.Publish(t.Context(), "", queue, time.Second, amqp091.Publishing{MessageId: id})
		a.Answer(id, a.Now(), err)
		return err
	}
	var err error
	for i := 0; err == nil; i++ {
		err = publish(fmt.Sprint(i))
	}
	require.ErrorIs(t, err, delayer.ErrRefused)
	require.NoError(t, clearPolicy())
	require.Eventually(t, func() bool { return publish("not full") == nil }, patience, 100*time.Millisecond)
	clearPolicy = w.policy(b, `slot\.4s`, `{"max-length":1}`)
	c := w.slots(controls)
	for i := range 4 {
		w.publish(c, queue, a, fmt.Sprint("to a slot ", i), time.Duration(i)*seconds.width)
	}
	w.settle(got, a)
	require.NoError(t, clearPolicy())
	require.NoError(t, c.Close())
	require.NoError(t, d.Close())
}

// slotsExpireUnderAPolicy: what expires in a slot comes to its time nevertheless.
func slotsExpireUnderAPolicy(t *testing.T, w *workbench) {
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to set a policy")
	}
	d := w.slots(controls)
	clearPolicy := w.policy(b, `slot\.4s`, `{"message-ttl":500}`)
	queue := w.queue()
	p := w.planner(d, queue)
	for i := range 10 {
		w.publish(d, queue, p.messages, fmt.Sprint(i), time.Duration(12000+20*i)*time.Millisecond)
	}
	p.half(10, 16*time.Second) // changes expire as well
	w.settle(w.Consume(queue), p.messages)
	require.NoError(t, clearPolicy())
	require.NoError(t, d.Close())
}
