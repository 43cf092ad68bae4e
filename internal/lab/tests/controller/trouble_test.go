package controller_test

import (
	"context"
	"fmt"
	"sync"
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
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// fromAnotherProcess is a message as another process would have sent it to the intake or to a queue
// with that TTL.
func fromAnotherProcess(id, queue string, hop, left time.Duration) amqp091.Publishing {
	return amqp091.Publishing{MessageId: id, Headers: amqp091.Table{
		delayer.Header: message.NewEnvelope(time.Now(), 0, "").String(),
		message.Stamp:  stampOfAnother(queue, hop, left, time.UnixMilli(0), time.UnixMilli(0)),
	}}
}

// stampOfAnother is a stamp that another process has written. at and since are by the broker's
// clock.
func stampOfAnother(queue string, hop, left time.Duration, at, since time.Time) string {
	key := delivery.Key("", queue, message.Words(queue))
	return fmt.Sprintf("- another-process 1 %d %d %d %d - d%d:%s", hop, left, at.UnixMilli(), since.UnixMilli(), len(key), key)
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

// TestController_CloseDuringAnAlarm has the broker block whoever publishes, for longer than Close
// may take, while messages from this process and from another are in the controller.
func TestController_CloseDuringAnAlarm(t *testing.T) {
	t.Parallel()
	b := rabbittest.Own(t, rabbit.Options{})
	w := &workbench{rabbittest.NewRig(t, b), options(t, delayer.Quorum)}
	w.opts.URL = b.URL()
	d := w.open(controller.Config{Wheel: controller.Rounds, Levels: 3, Tick: 3 * time.Second, Run: delayer.On})
	queue, _ := w.bound(d)
	for i := range 20 {
		w.publish(d, queue, newMessages(), fmt.Sprint(i), 13*time.Second)
		theirs := fromAnotherProcess(fmt.Sprint("theirs ", i), queue, 12*time.Second, 0)
		w.Publish(w.opts.Prefix+".controller.wait.02", queue, theirs)
	}
	watermark := func(level string) {
		_, err := b.Ctl(context.Background(), "set_vm_memory_high_watermark", level)
		require.NoError(t, err)
	}
	watermark("0")
	defer watermark("0.6")
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

// TestController_UnroutableExchangeDeleted: no message is lost that is due, or
// foreign, while nothing leads to the queue for unroutable messages.
func TestController_UnroutableExchangeDeleted(t *testing.T) {
	t.Parallel()
	const messages = 50 // of each kind
	kinds(t, func(t *testing.T, w *workbench) {
		d := w.start()
		defer func() { require.NoError(t, d.Close()) }()
		queue, exchange := w.queue(), rabbittest.Prefix(t)
		require.NoError(t, w.Ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
		require.NoError(t, w.Ch.QueueBind(queue, "key", exchange, false, nil))
		missing := map[string]bool{}
		first := time.Now().Add(20 * time.Second)
		last := first
		var publishing sync.WaitGroup
		for i := range messages {
			last = last.Add(10 * time.Millisecond)
			for _, to := range [][2]string{{"", queue}, {exchange, "key"}} {
				id, due := fmt.Sprintf("due %q %d", to, i), last
				missing[id] = true
				publishing.Go(func() {
					assert.NoError(t, d.Publish(t.Context(), to[0], to[1], time.Until(due), amqp091.Publishing{MessageId: id}))
				})
			}
		}
		publishing.Wait()
		_, err := w.Ch.QueueDelete(queue, false, false, false)
		require.NoError(t, err)
		require.NoError(t, w.Ch.ExchangeDelete(exchange, false, false))
		require.True(t, time.Now().Before(first), "too slow to publish in time")
		unroutable := w.opts.Prefix + ".unroutable"
		deleter := newWorkbench(t, w.opts.QueueType)
		again := time.Tick(2 * time.Millisecond) // so that it is gone nearly all the time
		for i := 0; i < messages || time.Now().Before(last.Add(time.Second)); i++ {
			<-again
			deleter.deleteExchange(unroutable)
			if i >= messages {
				continue
			}
			for _, header := range []any{nil, "somebody's", time.Now().String()} {
				id := fmt.Sprint("foreign ", header, " ", i)
				missing[id] = true
				require.NoError(t, w.Ch.PublishWithContext(t.Context(), "", w.opts.Prefix+".controller.intake", false, false,
					amqp091.Publishing{MessageId: id, Headers: amqp091.Table{delayer.Header: header}}))
			}
		}
		deleter.routesAgain(unroutable)
		missing["probe"] = true
		got, timeout := w.Consume(unroutable), time.After(2*patience)
		for len(missing) > 0 {
			select {
			case m := <-got:
				delete(missing, m.MessageId)
			case <-timeout:
				t.Fatalf("%d are missing: %v", len(missing), missing)
			}
		}
	})
}

// deleteExchange connects again if the broker has closed the connection: RabbitMQ 4.3 fails with
// 541 if the exchange is declared in the same moment (rabbit_db_exchange:delete_in_khepri).
func (w *workbench) deleteExchange(name string) {
	w.Helper()
	err := w.Ch.ExchangeDelete(name, false, false)
	if broker.Code(err) == amqp091.InternalError {
		_ = w.Conn.Close()
		w.Connect(w.opts.URL)
		return
	}
	require.NoError(w, err)
}

// routesAgain waits until an exchange leads to a queue again. RabbitMQ 4.3 may have broken it:
// after an error 541 the exchange and its binding are listed, and yet what is published to it is
// returned with 312, for good. The controller keeps its messages meanwhile. So the exchange is
// deleted once more, to be declared anew.
func (w *workbench) routesAgain(exchange string) {
	w.Helper()
	tick, broken, give := time.Tick(100*time.Millisecond), time.Now().Add(patience/4), time.Now().Add(2*patience)
	for !w.Stored(exchange, "", amqp091.Publishing{MessageId: "probe"}) {
		<-tick
		require.True(w, time.Now().Before(give), "nothing leads to a queue from %s", exchange)
		if time.Now().After(broken) {
			w.deleteExchange(exchange)
			broken = time.Now().Add(patience / 4)
		}
	}
}

// TestController_ExchangeWithoutQueue takes what is published to it, as it would without a delay:
// nothing is kept, and nothing comes later. Close may come between the return of the message and
// its acknowledgement. Then the message is in the intake again, and the next controller settles it.
func TestController_ExchangeWithoutQueue(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, w *workbench) {
		exchange := rabbittest.Prefix(t)
		require.NoError(t, w.Ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
		defer func() { _ = w.Ch.ExchangeDelete(exchange, false, false) }()
		d := w.start()
		defer func() { require.NoError(t, d.Close()) }()
		require.NoError(t, d.Publish(t.Context(), exchange, "key", 10*time.Millisecond, amqp091.Publishing{MessageId: "nowhere"}))
		for give := time.Now().Add(patience); ; d = w.start() {
			w.bound(d) // a message that is due later comes
			require.NoError(t, d.Close())
			for _, name := range []string{".unroutable", ".misrouted", ".controller.wait.00", ".controller.wait.01", ".controller.wait.02"} {
				require.Zero(t, w.depth(name), name)
			}
			if !w.inIntake("nowhere") {
				return
			}
			require.True(t, time.Now().Before(give), "the message is in the intake again after each controller")
		}
	})
}

// inIntake looks through the intake, which nobody consumes, and leaves everything there.
func (w *workbench) inIntake(id string) (found bool) {
	w.Helper()
	ch, err := w.Conn.Channel()
	require.NoError(w, err)
	defer func() { require.NoError(w, ch.Close()) }() // the broker requeues what was not acknowledged
	const autoAck = true
	for { // a ping of the controller's own may be there
		m, ok, err := ch.Get(w.opts.Prefix+".controller.intake", !autoAck)
		require.NoError(w, err)
		if !ok {
			return found
		}
		found = found || m.MessageId == id
	}
}

func (w *workbench) depth(name string) int {
	w.Helper()
	q, err := w.Ch.QueueDeclarePassive(w.opts.Prefix+name, true, false, false, false, nil)
	require.NoError(w, err)
	return q.Messages
}
