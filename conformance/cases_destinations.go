package conformance

import (
	"errors"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// noticeTime is how long a Delayer may trust what it knew of a destination: 100 ms, as Publish says,
// and as much again for the broker. No signal tells when it is over.
const noticeTime = 200 * time.Millisecond

// stalling is how many unroutable messages are published before others: 32 of them stall a quorum
// queue that dead-letters at least once, if no queue takes them.
const stalling = 40

func unknownDestination(t *trial) {
	in := t.queue(t.name("queue"))
	id := t.name("unknown")
	unknown := []job{
		{"", t.name("no-queue"), t.short(), text(id + "-queue")},
		{t.name("no-exchange"), "key", t.short(), text(id + "-exchange")},
	}
	var outs []outcome
	for _, j := range unknown {
		outs = append(outs, t.publishAll([]job{j, j, j, j})...)
	}
	for _, o := range outs {
		t.refused(o, delayer.ErrUnroutable)
	}
	t.exactly(in, t.mustPublish(to(in, "still usable", t.short())))
}

// kept checks that messages are in the queue for unroutable messages, with their destination.
func (t *trial) kept(outs []outcome) {
	t.Helper()
	in := t.unroutable()
	t.await(in, outs)
	for _, o := range outs {
		a := in.of(o.id())[0]
		e, err := delayer.ParseHeader(a.Headers)
		if err != nil || e.Exchange != o.exchange || a.RoutingKey != o.key {
			t.errorf("unroutable message %s: it says %q (%s) and key %q, want exchange %q and key %q",
				o.id(), a.Headers[delayer.Header], delayer.Header, a.RoutingKey, o.exchange, o.key)
		}
	}
}

// meanwhile publishes messages whose destination is deleted before they are due, and others behind
// them, which must arrive. gone creates the destination, and returns its address and how to delete
// it.
func (t *trial) meanwhile(gone func() (exchange, key string, end func())) (lost []outcome) {
	t.Helper()
	for _, delay := range t.longer(0) {
		in := t.queue(t.name("others"))
		exchange, key, end := gone()
		lost = t.mustPublish(jobs(stalling, t.name("gone"), func(_ int, id string) job {
			return job{exchange, key, delay, text(id)}
		})...)
		others := t.mustPublish(jobs(stalling, "behind", func(_ int, id string) job { return to(in, id, delay) })...)
		end()
		inTime := time.Now().Before(lost[0].before.Add(delay))
		t.exactly(in, others)
		if inTime {
			return lost
		}
	}
	t.Passf("not shown: there was no time to delete a destination before the messages were due")
	return nil
}

func deletedWhileWaiting(t *trial) {
	t.kept(t.meanwhile(func() (string, string, func()) {
		name := t.queue(t.name("deleted")).queue
		return "", name, func() { t.must(t.w.DeleteQueue(t.ctx, name)) }
	}))
}

func exchangeDeletedWhileWaiting(t *trial) {
	t.kept(t.meanwhile(func() (string, string, func()) {
		_, exchange := t.routed("topic", "#")
		return exchange, "a.key", func() { t.must(t.w.DeleteExchange(t.ctx, exchange)) }
	}))
}

// bindingGone does not ask what becomes of the messages themselves: as in a plain publish, the
// exchange may drop them.
func bindingGone(t *trial) {
	t.meanwhile(func() (string, string, func()) {
		in, exchange := t.routed("direct", "key")
		return exchange, "key", func() { t.must(t.w.Unbind(t.ctx, in.queue, "key", exchange, nil)) }
	})
}

// refusedByOne does not ask for an error: a backend may confirm a message before it is routed.
func refusedByOne(t *trial) {
	in, full, exchange := t.queue(t.name("queue")), t.name("full"), t.exchange("fanout")
	t.must(t.w.DeclareFullQueue(t.ctx, full))
	t.bind(in, "", exchange)
	t.must(t.w.Bind(t.ctx, full, "", exchange, nil))
	const noDelay = 0
	cc := text("cc")
	cc.Headers = amqp091.Table{"CC": []any{in.queue}}
	outs := t.publishAll([]job{{exchange, "", noDelay, text("fanout")}, {"", full, noDelay, cc}})
	for _, o := range outs {
		if o.err != nil && !delayer.SafeToRetry(o.err) {
			t.unknown(o)
		}
	}
	t.sentinel(in)
	t.only(in, outs, false)
}

// A place is a destination that can be deleted and made again.
type place struct {
	exchange, key string
	make          func() *receiver
	end           func()
}

func (t *trial) places() []place {
	name, exchange := t.name("place"), t.name("exchange")
	queue := place{"", name, func() *receiver { return t.queue(name) }, func() { t.must(t.w.DeleteQueue(t.ctx, name)) }}
	routed := place{exchange, "key", func() *receiver {
		t.must(t.w.DeclareExchange(t.ctx, exchange, "direct"))
		in := t.queue(t.name("routed"))
		t.bind(in, "key", exchange)
		return in
	}, func() { t.must(t.w.DeleteExchange(t.ctx, exchange)) }}
	return []place{queue, routed}
}

// createdAgain is patient: RabbitMQ may keep what leaves a waiting queue for a second with each queue
// that was deleted and created again, those of other cases too, and a message that was on its way
// for longer (rabbit_fifo_dlx_worker:remove_queue/2).
func createdAgain(t *trial) {
	for _, p := range t.places() {
		for _, hint := range []string{"first", "second", "third"} {
			in := p.make()
			j := job{p.exchange, p.key, t.short(), text(hint)}
			o := t.publish(j)
			// The Delayer may know that it was gone, and not yet that it is back.
			if hint != "first" && errors.Is(o.err, delayer.ErrUnroutable) {
				time.Sleep(noticeTime)
				o = t.publish(j)
			}
			if o.err != nil {
				t.failf("message %s to exchange %q key %q: Publish returned %v", o.id(), p.exchange, p.key, o.err)
			}
			t.exactly(in, []outcome{o})
			p.end()
			if hint == "second" { // in this round the Delayer has time to see that it is gone
				time.Sleep(noticeTime)
			}
		}
	}
}

func comesAndGoes(t *trial) {
	for _, p := range t.places() {
		kind := strings.TrimSuffix("queue of exchange "+p.exchange, " of exchange ")
		j := job{p.exchange, p.key, t.short(), text(kind)}
		t.refused(t.publish(j), delayer.ErrUnroutable)
		in := p.make()
		time.Sleep(noticeTime)
		t.exactly(in, t.mustPublish(j))
		p.end()
		time.Sleep(noticeTime)
		t.refused(t.publish(j), delayer.ErrUnroutable)
	}
}
