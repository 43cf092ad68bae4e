package swap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/entry"
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

// Holds reports whether the leader of a queue has a message; see [objects.Holds]. That of a queue
// with a single active consumer is asked for by another consumer: nobody may get from it.
func (w Wire) Holds(ctx context.Context, queue string) (holds bool, err error) {
	object, single := fmt.Sprintf("queue %q", queue), false
	_, err = w.there(ctx, object, func(ch *amqp091.Channel) (err error) {
		holds, err = objects.Holds(ch, queue)
		single = broker.Code(err) == amqp091.ResourceLocked
		return err
	})
	if !single {
		return holds, err
	}
	err = broker.AskLeader(ctx, w.Conn, queue)
	if errors.Is(err, broker.ErrNoAnswer) {
		err = &delayer.Error{Op: "look at", Object: object, Kind: delayer.ErrUnavailable, Cause: err, Hint: "has it a leader?"}
	}
	if err != nil {
		return false, err
	}
	q, _, err := broker.CountAfter(ctx, func(ctx context.Context) (amqp091.Queue, bool, error) {
		d, err := w.Depth(ctx, queue)
		return amqp091.Queue{Messages: d.Messages, Consumers: d.Consumers}, true, err
	})
	return q.Messages > 0, err
}

// ServeDepths are those of the queues that serve has for the exchange: of what is published, of
// what comes back, and of what is parked. Serve holds what it has not acknowledged: they are empty
// only without consumers.
func (s *Swapper) ServeDepths(ctx context.Context, w Wire) ([]Depth, error) {
	n := entry.NamesOf(s.Prefix, s.Exchange)
	var all []Depth
	for _, name := range []string{n.Queue, n.Back, n.Parked} {
		d, err := w.Depth(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// Left is what the Delayer still holds when what serve needed is removed.
type Left struct {
	Waiting int // messages in its queues, or that a controller has taken from them, for any destination
	// ByName: the Delayer asks for an exchange by name when a message is due. No other can take its
	// place, so what waits for the target must be delivered first.
	ByName bool
	Force  bool // remove it although messages may wait for it
}

// RemoveServe deletes what serve has for the exchange, once no message can be in it. What waits in
// the Delayer for the target is delivered to the exchange itself from then on.
func (s *Swapper) RemoveServe(ctx context.Context, w Wire, left Left) error {
	depths, err := s.ServeDepths(ctx, w)
	if err != nil {
		return err
	}
	const op, untilEmpty = "remove what delayer serve had for", "keep delayer serve running until it is empty, take the exchange out of its configuration, and run this again"
	for _, d := range depths {
		holds, err := w.Holds(ctx, d.Queue)
		if err != nil {
			return err
		}
		// Only now: the broker counts neither messages nor consumers of a queue that has no leader.
		if d, err = w.Depth(ctx, d.Queue); err != nil {
			return err
		}
		switch {
		case d.Messages > 0:
			return s.fail(op, delayer.ErrConflict, untilEmpty, "queue %q has %s", d.Queue, cli.Count(d.Messages, "message"))
		case d.Consumers > 0:
			return s.fail(op, delayer.ErrConflict, "it is empty: take the exchange out of the configuration of delayer serve, start that anew, and run this again", "queue %q is consumed", d.Queue)
		case holds:
			return s.fail(op, delayer.ErrConflict, untilEmpty, "messages are in queue %q, of which the broker counts none", d.Queue)
		}
	}
	r, _ := s.Journal.Record()
	ops, err := s.inherit(ctx, r.Target, left)
	if err != nil {
		return err
	}
	ops = append(ops, Op{Verb: Delete, Exchange: inventory.Exchange{Name: r.Target}})
	for _, d := range depths {
		if err := w.DeleteQueue(ctx, d.Queue); err != nil {
			return err
		}
	}
	for _, x := range slices.Backward(r.Spec().Side(s.Prefix).AllExchanges()) { // the marker last
		ops = append(ops, Op{Verb: Delete, Exchange: inventory.Exchange{Name: x.Name}})
	}
	if err := w.Perform(ctx, ops); err != nil {
		return err
	}
	step := r.Step
	if step == record.Restored {
		step = record.Prepared
	}
	r = r.To(step, s.Now())
	r.Target = ""
	return s.Journal.Save(ctx, r)
}

// inherit leads what waits for the target to the exchange itself. It refuses while messages may
// wait for serve. A Delayer binds each destination to the delivery stage, from its first message
// on: where there is no binding, nothing waits.
func (s *Swapper) inherit(ctx context.Context, target string, left Left) (ops []Op, err error) {
	if left.Waiting == 0 {
		return nil, nil
	}
	const anyMode = false
	stage := delivery.NewStage(s.Prefix, anyMode)
	back := entry.NamesOf(s.Prefix, s.Exchange).Back
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
			case b.ToExchange && b.Target == target && there && !left.ByName:
				b.Target = s.Exchange
				ops = append(ops, Op{Verb: Bind, Binding: b})
			case b.ToExchange && b.Target == target:
				awaited = cmp.Or(awaited, target)
			}
		}
	}
	if awaited != "" && !left.Force {
		return nil, s.fail("remove what delayer serve had for", delayer.ErrConflict,
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
