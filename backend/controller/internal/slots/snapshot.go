package slots

import (
	"errors"
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/leader"
	"github.com/delayer-go/delayer/internal/lib/bundle"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// snapshot writes what is known of what waits. The caller holds mu.
func (t *tenure) snapshot(e leader.Snapshot) {
	kept := func(bool) { t.happened(leader.Kept{}) }
	if !t.counts { // it might keep the log's channel waiting: see onceAnswered
		go kept(false)
		return
	}
	t.after(func() error {
		return t.log.publish(t.wheel.enterSlots(), countsKey, amqp091.Publishing{
			ContentType: "application/json", DeliveryMode: amqp091.Persistent, MessageId: "counts " + strconv.FormatInt(int64(e.Counts.At), 36),
			Body: e.Counts.Bytes(),
		}, kept)
	})
}

// recall tells the leader what the last one has written, and how many bundles each slot has.
func (t *tenure) recall() {
	const again = 10 * time.Second
	var e leader.Recalled
	for {
		body, err := objects.Of(t.session.Control, backend).Last(t.ctx, t.wheel.counts())
		if err == nil && body != nil {
			var unread error
			if e.Counts, unread = bundle.ReadCounts(body); unread != nil {
				t.session.Warn("the last counts of what waits cannot be read", "queue", t.wheel.counts(), "error", unread)
			}
		}
		if err == nil {
			break
		}
		if errors.Is(err, delayer.ErrNotFound) { // it is declared before the next tenure
			t.end(err)
			return
		}
		t.happened(e) // it leads without that
		if t.ctx.Err() == nil {
			t.session.Warn("what waits is not counted: the queue of the counts does not answer", "queue", t.wheel.counts(), "error", err)
		}
		if err := pace.Sleep(t.ctx, again); err != nil {
			return
		}
	}
	e.Bundles = map[leader.Queue]int{}
	for _, q := range t.wheel.rings.Slots() {
		if found, known, err := t.session.Control.Count(t.ctx, t.wheel.queue(q)); err == nil && known {
			e.Bundles[q] = found.Messages
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts = true
	t.step(e)
}
