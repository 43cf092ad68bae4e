package evacuate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/node"
)

// settle publishes the messages of a batch through the Delayer. Messages of an earlier run may come
// between them.
func (r *run) settle(ctx context.Context, batch []staged) error {
	wanted := make(map[string]bool, len(batch))
	for _, s := range batch {
		wanted[s.ID] = true
	}
	var mine, strays []amqp091.Delivery
	for len(wanted) > 0 {
		d, err := r.store.next(ctx)
		if err != nil {
			return err
		}
		id, _ := d.Headers[RowHeader].(string)
		if wanted[id] {
			delete(wanted, id)
			mine = append(mine, d)
		} else {
			strays = append(strays, d)
		}
		if len(mine)+len(strays) >= batchRows && len(wanted) > 0 { // no more come before some are acknowledged
			if err := r.settleStrays(ctx, strays, false); err != nil {
				return err
			}
			strays = nil
		}
	}
	alone := len(strays) == 0
	if err := r.publishAll(ctx, mine, alone); err != nil || alone {
		return err
	}
	return r.settleStrays(ctx, strays, false)
}

// recover finishes what an earlier run has left in the queue.
func (r *run) recover(ctx context.Context) error {
	for left := r.store.leftover; left > 0; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		var strays []amqp091.Delivery
		working, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchFor)
		var err error
		for len(strays) < min(left, batchRows) && err == nil {
			var d amqp091.Delivery
			d, err = r.store.next(working)
			strays = append(strays, d)
		}
		if err == nil {
			err = r.settleStrays(working, strays, true)
		}
		cancel()
		if err != nil {
			return err
		}
		left -= len(strays)
		r.report()
	}
	return nil
}

// settleStrays removes messages of an earlier run from the tables, in case that it did not, and
// publishes them.
func (r *run) settleStrays(ctx context.Context, deliveries []amqp091.Delivery, whole bool) error {
	byNode := map[string][]node.Entry{}
	for _, d := range deliveries {
		if s, err := parseStaged(d.Headers, nil); err == nil {
			byNode[s.Node] = append(byNode[s.Node], node.Entry{ID: s.ID, Due: s.Due})
		}
	}
	for name, entries := range byNode {
		removed, clock, err := r.Nodes.Remove(ctx, name, r.Vhost, entries)
		if err != nil && !errors.Is(err, node.ErrNoPlugin) {
			return fmt.Errorf("%w; what an earlier run took from there stays in queue %q", err, Staging(r.Prefix))
		}
		r.clocks[name] = clock // which a node without the plugin has, too
		r.account.Moved += removed
	}
	r.account.Found += len(deliveries)
	return r.publishAll(ctx, deliveries, whole)
}

// retryRefused tries messages again that the Delayer refused in earlier runs.
func (r *run) retryRefused(ctx context.Context) error {
	for range r.store.refused {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		d, ok, err := r.store.channel.Get(Refused(r.Prefix), !autoAck)
		if err != nil || !ok {
			return err
		}
		r.account.Found++
		working, cancel := context.WithTimeout(context.WithoutCancel(ctx), batchFor)
		err = r.publishAll(working, []amqp091.Delivery{d}, false)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// publishAll publishes messages through the Delayer, and acknowledges them once it has them.
//
// whole: they are all that the channel holds, in their order. Then many are acknowledged at a time.
// A channel keeps acknowledgements back while the queue has not applied those before, and forgets
// them when it is closed (rabbit_fifo_client): the messages would be published again.
func (r *run) publishAll(ctx context.Context, deliveries []amqp091.Delivery, whole bool) error {
	for chunk := range slices.Chunk(deliveries, width) {
		places, done := make([]int, len(chunk)), make([]bool, len(chunk))
		for i := range chunk {
			places[i] = i
		}
		err := parallel(places, func(i int) (err error) {
			err = r.publishOne(ctx, chunk[i])
			done[i] = err == nil
			return err
		})
		if err := errors.Join(err, acknowledge(chunk, done, whole && err == nil)); err != nil {
			return err
		}
	}
	return nil
}

// acknowledge takes the messages that are done out of the queue.
func acknowledge(chunk []amqp091.Delivery, done []bool, whole bool) error {
	if whole {
		return chunk[len(chunk)-1].Ack(multiple)
	}
	for i, d := range chunk {
		if !done[i] {
			continue
		}
		if err := d.Ack(!multiple); err != nil {
			return err
		}
	}
	return nil
}

// publishOne publishes a message, or moves it to the queue for refused messages.
func (r *run) publishOne(ctx context.Context, d amqp091.Delivery) error {
	s, why, err := r.publish(ctx, d)
	if err == nil && why != "" {
		err = r.store.refuse(ctx, d.Headers, d.Body, why)
	}
	if err == nil {
		r.counting.Lock()
		defer r.counting.Unlock()
		if why != "" {
			r.account.Refused[fmt.Sprintf("exchange %q: %s", s.Exchange, why)]++
			return nil
		}
		r.account.Published++
		if d.Redelivered {
			r.account.Perhaps++
		}
	}
	return err
}

// publish publishes one message with what remains of its delay. why says that it is certainly not
// published, and that trying again would not help.
func (r *run) publish(ctx context.Context, d amqp091.Delivery) (_ staged, why string, err error) {
	s, err := parseStaged(d.Headers, d.Body)
	if err != nil {
		return s, err.Error(), nil //nolint:nilerr // it is the reason
	}
	key, msg, err := s.original()
	if err != nil {
		return s, err.Error(), nil //nolint:nilerr // it is the reason
	}
	err = r.Delayer.Publish(ctx, s.Exchange, key, r.remaining(s), msg)
	// A policy or a queue that conflicts concerns all messages: the run ends, and nothing more is
	// taken out of the plugin.
	for _, final := range []error{delayer.ErrInvalid, delayer.ErrOutOfRange, delayer.ErrUnroutable, delayer.ErrAccess} {
		if errors.Is(err, final) && delayer.SafeToRetry(err) {
			return s, reason(err), nil
		}
	}
	return s, "", err
}

// reason is an error without its place, which stands beside it.
func reason(err error) string {
	var known *delayer.Error
	if !errors.As(err, &known) {
		return err.Error()
	}
	bare := *known
	bare.Backend, bare.Object = "", ""
	return strings.TrimPrefix(bare.Error(), "delayer: ")
}

// shortest is the delay of a message that is due. Without one it would go straight to its exchange,
// by other rules than the rest: an internal exchange refuses it, and what the exchange does not
// route comes back. With one it is delivered as all others are.
const shortest = time.Millisecond

// remaining is how long the message has to wait. Of a node that is no longer there, the clock is
// unknown: the slowest of the others makes the message late rather than early.
func (r *run) remaining(s staged) time.Duration {
	if clock, ok := r.clocks[s.Node]; ok && clock.Node != 0 {
		return max(shortest, clock.Until(s.Due))
	}
	longest := shortest
	for _, clock := range r.clocks {
		if clock.Node != 0 {
			longest = max(longest, clock.Until(s.Due))
		}
	}
	return longest
}
