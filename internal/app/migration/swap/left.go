package swap

import (
	"cmp"
	"context"
	"fmt"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// A Depth is what a queue holds, and how many consume it.
type Depth struct {
	Queue               string
	Messages, Consumers int
	Missing             bool
}

// Depth asks the broker for a queue.
func (w Wire) Depth(ctx context.Context, queue string) (Depth, error) {
	d := Depth{Queue: queue}
	there, err := w.there(ctx, fmt.Sprintf("queue %q", queue), func(ch *amqp091.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, durable, !autoDelete, !exclusive, waitForAnswer, nil)
		d.Messages, d.Consumers = q.Messages, q.Consumers
		return err
	})
	d.Missing = !there
	return d, err
}

// BridgeDepths are those of a bridge's queues. A bridge holds what it has not acknowledged: its
// queues are empty only without consumers.
func (s *Swapper) BridgeDepths(ctx context.Context, w Wire) ([]Depth, error) {
	var all []Depth
	for _, q := range record.BridgePlan(s.Prefix, s.Exchange).Queues {
		d, err := w.Depth(ctx, q.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// Left is what the Delayer still holds when a bridge is removed.
type Left struct {
	Waiting int // messages in its queues, for any destination
	// ByName: the Delayer asks for an exchange by name when a message is due. No other can take its
	// place, so what waits for the exchange behind must be delivered first.
	ByName bool
	Force  bool // remove the bridge although messages may wait for it
}

// RemoveBridge deletes what a bridge has left, once no message can be in it. What waits in the
// Delayer for the exchange behind is delivered to the exchange itself from then on.
func (s *Swapper) RemoveBridge(ctx context.Context, w Wire, left Left) error {
	depths, err := s.BridgeDepths(ctx, w)
	if err != nil {
		return err
	}
	const untilEmpty = "keep the bridge running until it is empty, stop it, and run this again"
	for _, d := range depths {
		switch {
		case d.Messages > 0:
			return s.fail("remove the bridge of", delayer.ErrConflict, untilEmpty, "queue %q has %s", d.Queue, cli.Count(d.Messages, "message"))
		case d.Consumers > 0:
			return s.fail("remove the bridge of", delayer.ErrConflict, "its queue is empty: stop the bridge, and run this again", "a bridge consumes queue %q", d.Queue)
		}
		var holds bool // as its leader sees it; see [objects.Holds]
		_, err := w.there(ctx, fmt.Sprintf("queue %q", d.Queue), func(ch *amqp091.Channel) (err error) {
			holds, err = objects.Holds(ch, d.Queue)
			return err
		})
		if err != nil {
			return err
		}
		if holds {
			return s.fail("remove the bridge of", delayer.ErrConflict, untilEmpty, "messages are in queue %q, of which the broker counts none", d.Queue)
		}
	}
	ops, err := s.inherit(ctx, left)
	if err != nil {
		return err
	}
	ops = append(ops, Op{Verb: Delete, Exchange: inventory.Exchange{Name: record.Behind(s.Prefix, s.Exchange)}})
	for _, d := range depths {
		if err := w.DeleteQueue(ctx, d.Queue); err != nil {
			return err
		}
	}
	for _, x := range record.BridgePlan(s.Prefix, s.Exchange).Exchanges {
		ops = append(ops, Op{Verb: Delete, Exchange: inventory.Exchange{Name: x.Name}})
	}
	if err := w.Perform(ctx, ops); err != nil {
		return err
	}
	r, _ := s.Journal.Record()
	step := r.Step
	if step == record.Restored {
		step = record.Prepared
	}
	r = r.To(step, s.Now())
	r.Bridged = false
	return s.Journal.Save(ctx, r)
}

// inherit leads what waits for the exchange behind to the exchange itself. It refuses while messages
// may wait for a bridge. A Delayer binds each destination to the delivery stage, from its first
// message on: where there is no binding, nothing waits.
func (s *Swapper) inherit(ctx context.Context, left Left) (ops []Op, err error) {
	if left.Waiting == 0 {
		return nil, nil
	}
	const anyMode = false
	stage := delivery.NewStage(s.Prefix, anyMode)
	back, behind := record.Back(s.Prefix, s.Exchange), record.Behind(s.Prefix, s.Exchange)
	there, err := s.Broker.Exists(ctx, s.Exchange)
	if err != nil {
		return nil, err
	}
	awaited := ""
	for _, source := range []string{stage.Exchange(), stage.Exchanges()} {
		out, _, err := s.API.Bindings(ctx, source)
		if err != nil {
			return nil, err
		}
		for _, b := range out {
			switch {
			case !b.ToExchange && b.Target == back:
				awaited = back
			case b.ToExchange && b.Target == behind && there && !left.ByName:
				b.Target = s.Exchange
				ops = append(ops, Op{Verb: Bind, Binding: b})
			case b.ToExchange && b.Target == behind:
				awaited = cmp.Or(awaited, behind)
			}
		}
	}
	if awaited != "" && !left.Force {
		return nil, s.fail("remove the bridge of", delayer.ErrConflict,
			"run this again when they are delivered; --force leaves those without a destination in the unroutable queue",
			"the Delayer has %s that may be for %q", cli.Count(left.Waiting, "message"), awaited)
	}
	return ops, nil
}

// DeleteQueue deletes a queue that was found empty.
func (w Wire) DeleteQueue(ctx context.Context, queue string) error {
	const ifUnused, ifEmpty = false, false // quorum queues know neither
	err := w.on(ctx, func(ch *amqp091.Channel) error {
		_, err := ch.QueueDelete(queue, ifUnused, ifEmpty, waitForAnswer)
		return err
	})
	return broker.Explain("delete", "", fmt.Sprintf("queue %q", queue), err)
}
