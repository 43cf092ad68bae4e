package controller_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// patience is how long a test waits for what must happen.
const patience = rabbittest.Patience

// A workbench is where the tests publish to and receive from, with plain amqp091-go.
type workbench struct {
	*rabbittest.Rig
	opts delayer.Options
}

func newWorkbench(t *testing.T, kind delayer.QueueType) *workbench {
	return &workbench{rabbittest.NewRig(t, rabbittest.Broker(t)), options(t, kind)}
}

func setUp(t *testing.T, kind delayer.QueueType) *workbench {
	w := newWorkbench(t, kind)
	t.Cleanup(func() {
		rabbittest.Remove(t, backend.Config{Options: w.opts, Backend: controller.Name, Controller: w.rounds()})
	})
	return w
}

// open opens a Delayer whose longest queue waits 40 ms.
func (w *workbench) open(cfg controller.Config) delayer.Delayer {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := controller.Open(ctx, w.opts, cfg)
	require.NoError(w, err)
	w.Cleanup(func() { _ = d.Close() }) // if the test fails: its controller would serve the next one
	return d
}

// rounds is a wheel of rounds whose longest queue waits 40 ms.
func (w *workbench) rounds() controller.Config {
	return controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: 10 * time.Millisecond}
}

func (w *workbench) start() delayer.Delayer {
	w.Helper()
	return w.open(w.rounds())
}

// queue declares a queue that goes with the test.
func (w *workbench) queue() string {
	w.Helper()
	name := rabbittest.Prefix(w)
	w.Declare(name, nil)
	return name
}

// messages are an account of them, by their ids.
type messages = account.Account[string]

func newMessages() *messages { return account.New[string](time.Now()) }

func (w *workbench) publish(d delayer.Delayer, queue string, a *messages, id string, delay time.Duration) {
	w.Helper()
	a.Ask(account.Course[string]{ID: id, Asked: a.Now(), Delay: delay})
	err := d.Publish(w.Context(), "", queue, delay, amqp091.Publishing{MessageId: id})
	a.Answer(id, a.Now(), err)
	require.NoError(w, err)
}

// settle waits for every message of the account. None may be early, or come that was cancelled or
// not published; how often one may come says the caller.
func (w *workbench) settle(got <-chan amqp091.Delivery, a *messages) (late []time.Duration) {
	w.Helper()
	for a.Counts().Undone > 0 {
		m := rabbittest.Next(w, got)
		a.Arrive(m.MessageId, a.Now())
		require.NotContains(w, m.Headers, "x-death")
		require.NotContains(w, m.Headers, "x-delayer-stamp")
		require.NotContains(w, m.Headers, "x-delivery-count")
	}
	v := a.Verdict()
	require.Empty(w, v.Early)
	require.Empty(w, v.Revived)
	require.Empty(w, v.Strangers)
	for _, m := range a.Messages() {
		if m.Copies > 0 {
			late = append(late, m.Lateness())
		}
	}
	return late
}

func kinds(t *testing.T, test func(t *testing.T, w *workbench)) {
	for _, kind := range []delayer.QueueType{delayer.Quorum, delayer.Classic} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, setUp(t, kind))
		})
	}
}

func TestController_Missing(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		d := w.start()
		queue, a := w.queue(), newMessages()
		got := w.Consume(queue)
		const messages, delay = 100, 3 * time.Second // longer than it takes to publish and close
		first := time.Now().Add(delay)
		for i := range messages {
			w.publish(d, queue, a, fmt.Sprint(i), delay)
		}
		require.NoError(t, d.Close())
		inTime := time.Now().Before(first)
		idle := w.open(controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: 10 * time.Millisecond, PublishOnly: true})
		w.publish(idle, queue, a, "idle", 50*time.Millisecond)
		require.NoError(t, idle.Close())
		if inTime {
			select {
			case m := <-got:
				t.Fatalf("%s was delivered by no one", m.MessageId)
			case <-time.After(time.Until(first.Add(time.Second))): // what waits is due by now
			}
		}
		again := w.start()
		w.settle(got, a)
		require.NoError(t, again.Close())
	})
}

func TestController_ForeignMessagesAreKept(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		d := w.start()
		defer func() { require.NoError(t, d.Close()) }()
		unroutable := w.Consume(w.opts.Prefix + ".unroutable")
		for i, headers := range []amqp091.Table{
			nil, {"x-delayer-stamp": "x"}, {delayer.Header: "x 5 y", "x-delayer-stamp": amqp091.Table{"clock": "c"}},
		} {
			w.Publish("", w.opts.Prefix+".controller.intake", amqp091.Publishing{
				MessageId: fmt.Sprint("foreign ", i), Headers: headers, Expiration: "100000", Body: []byte("as it was"),
			})
		}
		queue, a := w.queue(), newMessages()
		w.publish(d, queue, a, "behind", 100*time.Millisecond)
		w.settle(w.Consume(queue), a)
		seen := map[string]bool{}
		for range 3 {
			m := rabbittest.Next(t, unroutable)
			require.Equal(t, "as it was", string(m.Body))
			require.Empty(t, m.Expiration, "it shall stay")
			seen[m.MessageId] = true
		}
		require.Len(t, seen, 3)
	})
}

// TestController_IntakeDeclaredAgain: whoever deletes it, another Delayer may have declared it
// again before the broker looks after the consumers of the old one.
func TestController_IntakeDeclaredAgain(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		d := w.start()
		defer func() { require.NoError(t, d.Close()) }()
		queue := w.queue()
		got := w.Consume(queue)
		intake := w.opts.Prefix + ".controller.intake"
		described, err := controller.Topology(w.opts, w.rounds())
		require.NoError(t, err)
		queues := described.Queues
		args := queues[slices.IndexFunc(queues, func(q topology.Queue) bool { return q.Name == intake })].Args
		for round := range 2 {
			a := newMessages()
			for i := range 20 {
				w.publish(d, queue, a, fmt.Sprint(round, ".", i), time.Duration(100+i)*time.Millisecond)
			}
			w.settle(got, a)
			_, err := w.Ch.QueueDelete(intake, false, false, false)
			require.NoError(t, err)
			_, err = w.Ch.QueueDeclare(intake, true, false, false, false, args)
			require.NoError(t, err)
			require.NoError(t, w.Ch.QueueBind(intake, "", intake, false, nil))
			require.NoError(t, w.Ch.QueueBind(intake, "", w.opts.Prefix+".controller.enter", false, nil))
		}
	})
}

// fromAnotherProcess is a message as another process would have sent it to the intake or to a queue
// with that TTL.
func fromAnotherProcess(id, queue string, hop, left time.Duration) amqp091.Publishing {
	return amqp091.Publishing{MessageId: id, Headers: amqp091.Table{
		delayer.Header: message.NewEnvelope(time.Now(), 0, "").String(),
		message.Stamp:  stampOfAnother(queue, hop, left),
	}}
}

// stampOfAnother is a stamp that another process has written.
func stampOfAnother(queue string, hop, left time.Duration) string {
	key := delivery.Key("", queue, message.Words(queue))
	return fmt.Sprintf("another-process 1 %d %d 0 d%d:%s", hop, left, len(key), key)
}

// bound declares a queue that the Delayer delivers to.
func (w *workbench) bound(d delayer.Delayer) (queue string, got <-chan amqp091.Delivery) {
	w.Helper()
	queue, a := w.queue(), newMessages()
	got = w.Consume(queue)
	w.publish(d, queue, a, "binds the queue", 50*time.Millisecond)
	w.settle(got, a)
	return queue, got
}

// TestController_ClocksOfNodesDiffer: by the clock of the node that dated its death, the message
// has been in the intake for an hour.
func TestController_ClocksOfNodesDiffer(t *testing.T) {
	t.Parallel()
	const left = 3 * time.Second
	w := setUp(t, delayer.Quorum)
	d := w.start()
	defer func() { require.NoError(t, d.Close()) }()
	queue, got := w.bound(d)

	msg := fromAnotherProcess("theirs", queue, 40*time.Millisecond, left)
	msg.Headers["x-death"] = []any{amqp091.Table{"reason": "expired", "time": time.Now().Add(-time.Hour)}}
	a := newMessages()
	a.Ask(account.Course[string]{ID: "theirs", Asked: a.Now(), Delay: left})
	a.Answer("theirs", a.Now(), nil)
	w.Publish("", w.opts.Prefix+".controller.intake", msg)
	w.settle(got, a)
}

// TestController_Alarm: Close of rounds does not wait for an alarm to end, while messages from this
// process and from another are in the controller.
func TestController_Alarm(t *testing.T) {
	t.Parallel()
	b := rabbittest.Own(t, rabbit.Options{})
	watermark := func(level string) {
		_, err := b.Ctl(context.Background(), "set_vm_memory_high_watermark", level)
		require.NoError(t, err)
	}
	w := &workbench{rabbittest.NewRig(t, b), options(t, delayer.Quorum)}
	w.opts.URL = b.URL()
	defer watermark("0.6")
	d := w.open(controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: 3 * time.Second})
	queue, _ := w.bound(d)
	for i := range 20 {
		w.publish(d, queue, newMessages(), fmt.Sprint(i), 13*time.Second)
		theirs := fromAnotherProcess(fmt.Sprint("theirs ", i), queue, 12*time.Second, 0)
		w.Publish(w.opts.Prefix+".controller.wait.02", queue, theirs)
	}
	watermark("0")
	require.Eventually(t, func() bool {
		return w.depth(".controller.wait.02") == 0 && w.depth(".controller.intake") == 0
	}, patience, 10*time.Millisecond, "the controller has all")
	closed, began := make(chan error, 1), time.Now()
	go func() { closed <- d.Close() }()
	select {
	case err := <-closed:
		require.NoError(t, err)
		t.Logf("Close took %v", time.Since(began))
	case <-time.After(patience):
		t.Error("Close hangs until the alarm ends")
		watermark("0.6")
		assert.NoError(t, <-closed)
	}
}

func (w *workbench) depth(name string) int {
	w.Helper()
	q, err := w.Ch.QueueDeclarePassive(w.opts.Prefix+name, true, false, false, false, nil)
	require.NoError(w, err)
	return q.Messages
}
