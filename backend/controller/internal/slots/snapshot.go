package slots

import (
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// snapshot writes what is known of what waits. The caller holds mu.
func (t *tenure) snapshot(e leader.Snapshot) {
	kept := func(leader.Outcome) { t.happened(leader.Kept{}) }
	if !t.counts { // it might keep the log's channel waiting: see place
		go kept(leader.Refused)
		return
	}
	msg := amqp091.Publishing{
		ContentType: "application/json", DeliveryMode: amqp091.Persistent, MessageId: "counts " + strconv.FormatInt(int64(e.Counts.At), 36),
		Body: e.Counts.Bytes(),
	}
	t.after(func() error { return t.log.publish(t.names.enterSlots(), countsKey, msg, kept) })
}

// recall tells the leader what the last one has written, and how many bundles each slot has.
func (t *tenure) recall() {
	const again = 10 * time.Second
	var e leader.Recalled
	for {
		found, err := t.recallCounts()
		if err == nil {
			e.Counts = found
			break
		}
		if broker.Code(err) == amqp091.NotFound { // it is declared before the next tenure
			t.end(err)
			return
		}
		t.happened(e) // it leads without that
		if t.ctx.Err() == nil {
			t.session.Warn("what waits is not counted: the queue of the counts does not answer", "queue", t.names.counts(), "error", err)
		}
		if err := pace.Sleep(t.ctx, again); err != nil {
			return
		}
	}
	e.Bundles = map[leader.Queue]int{}
	for _, q := range t.wheel.rings.Slots() {
		if found, known, err := t.session.Control.Count(t.ctx, t.names.queue(q)); err == nil && known {
			e.Bundles[q] = found.Messages
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts = true
	t.step(e)
}

// recallCounts reads the last snapshot, and leaves it there. Somebody else may be looking at it.
func (t *tenure) recallCounts() (*bundle.Counts, error) {
	const tries, apart, autoAck = 3, 50 * time.Millisecond, false
	channel, err := t.session.In.Channel(t.ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = channel.Close() }() // gives it back; fails only where the channel is lost
	for range tries {
		msg, is, err := channel.Get(t.names.counts(), autoAck)
		if err != nil {
			return nil, err
		}
		if is {
			counts, err := bundle.ReadCounts(msg.Body)
			if err != nil {
				t.session.Warn("the last counts of what waits cannot be read", "queue", t.names.counts(), "error", err)
			}
			return counts, nil
		}
		if err := pace.Sleep(t.ctx, apart); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
