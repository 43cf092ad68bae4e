package controller_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
)

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
