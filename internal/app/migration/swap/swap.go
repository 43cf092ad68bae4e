// Package swap lets an exchange change hands: from the plugin to an ordinary exchange or to delayer
// serve, and back. A node of the cluster changes its type in one transaction, so it is there all the
// time, with its bindings. What waits in the plugin is delivered to the new exchange, because the
// plugin looks its exchange up by name.
//
//	the plugin's ─┬─ switch in place ─→ an ordinary exchange ─┬─ retire ─→ (no record)
//	              │                                           └─ rollback ─→ the plugin's
//	              └─ switch to serve ─→ leads to serve ───────┬─ retire ─→ (no record)
//	                                                          └─ rollback ─→ the plugin's
//
// A step that was killed is finished by the same command, or undone by a rollback. From one mode to
// the other leads a rollback alone.
//
// # Delayer serve
//
//	before   publishers ─→ exchange (plugin) ─→ queues
//	after    publishers ─→ exchange ─→ serve's queue ─→ serve ─→ (Delayer) ─→ target ─→ queues
//
// The exchange becomes what serve declares for the entry that [record.Record.Spec] describes:
// durable, of the type by which it routed, leading to serve's queue. The target gets its bindings.
//
//   - All that is published is in exactly one of three places: the plugin's table, the queues of
//     serve and the Delayer, or the queues of consumers. What routes from now on is added before
//     what routed is removed. So nothing is lost, and what is routed in between may come twice.
//   - Nobody gets a message early: the exchange is an ordinary one only once nothing but serve's
//     queue is bound to it. Who binds to it later is moved to the target by a switch that is
//     repeated.
//   - Nothing depends on whether serve runs. It may be configured before the switch: it then finds
//     the plugin's exchange, leaves it as it is and waits at its queue. After the switch messages
//     wait there until it runs. Its marker is declared by whoever comes first, so that both agree
//     on the target.
//   - A rollback leads the exchange to its queues again. What serve and the Delayer hold still goes
//     to the target, which keeps its bindings and stays.
package swap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// A Swapper changes one exchange. It holds the lock meanwhile.
type Swapper struct {
	Prefix, Exchange, Vhost string

	API     *inventory.API
	Control *broker.Control
	Node    Node
	Lock    *record.Lock
}

// A Node changes the type of an exchange. It is a *node.Control.
type Node interface {
	CanReshape(ctx context.Context, r node.Reshaping) error
	Reshape(ctx context.Context, r node.Reshaping) error
}

// A Result says what a change did.
type Result struct {
	Record  record.Record
	Changed bool                 // false: the exchange was so already
	Now     inventory.Definition // after the change
}

// prepareFor bounds what is declared before the change: a broker may close the connection over it
// again and again.
const prepareFor = time.Minute

// Begin returns the exchange, and the record of a switch that was begun or may begin; otherwise why it
// may not. It changes nothing, and needs nothing but the API.
func (s *Swapper) Begin(ctx context.Context, mode record.Mode) (r record.Record, x inventory.Definition, err error) {
	if x, err = s.API.Definition(ctx, s.Exchange); err != nil {
		return r, x, err
	}
	r, found, err := record.Read(ctx, s.API, s.Prefix, s.Exchange)
	switch {
	case err != nil:
	case found && r.Mode != mode:
		err = s.fail("switch", "run delayer migrate rollback first, and switch then", "it was switched with --mode %s", r.Mode)
	case !found && !x.Delayed():
		err = s.fail("switch", "only an exchange of type x-delayed-message is migrated", "its type is %s", x.Type)
	case !found && !record.CanBeSwitched(x.Exchange):
		err = s.fail("switch", "let its publishers use another exchange, wait until nothing is left, and delete it", "it routes by type %q, which cannot be switched", x.DelayedType())
	case !found:
		r = record.New(x.Exchange, mode)
	}
	return r, x, err
}

// Switch makes the exchange ours. Where that was begun, it is finished; where it was done, bindings
// that came to an exchange of serve since are moved.
func (s *Swapper) Switch(ctx context.Context, mode record.Mode) (Result, error) {
	r, x, err := s.Begin(ctx, mode)
	if err != nil {
		return Result{}, err
	}
	change := s.reshaping(r, node.Plain)
	if mode == record.Serving {
		change = s.reshaping(r, node.Front)
	}
	// It also waits for the program of a tool that was killed, which goes on to its end.
	if err := s.Node.CanReshape(ctx, change); err != nil {
		return Result{}, err
	}
	preparing, cancel := context.WithTimeout(ctx, prepareFor)
	defer cancel()
	if mode == record.Serving {
		err = s.prepareServe(preparing, r, x)
	} else {
		err = s.notServed(preparing)
	}
	if err != nil {
		return Result{}, err
	}
	marker, err := r.Marker(s.Prefix)
	if err != nil {
		return Result{}, err
	}
	if err := s.Lock.Declare(marker); err != nil {
		return Result{}, err
	}
	if err := s.Node.Reshape(ctx, change); err != nil {
		return Result{}, again(err)
	}
	now, err := s.API.Definition(ctx, s.Exchange)
	return Result{Record: r, Changed: x.Delayed(), Now: now}, err
}

// Rollback makes the exchange the plugin's again, with its bindings of now.
func (s *Swapper) Rollback(ctx context.Context) (Result, error) {
	x, err := s.API.Definition(ctx, s.Exchange)
	if err != nil {
		return Result{}, err
	}
	r, found, err := record.Read(ctx, s.API, s.Prefix, s.Exchange)
	if err != nil {
		return Result{}, err
	}
	if !found {
		return Result{}, s.fail("rollback", "delayer migrate assess shows what there is", "it has no record: nothing was switched, or it was rolled back or retired")
	}
	change := s.reshaping(r, node.Delayed)
	if err := s.Node.CanReshape(ctx, change); err != nil {
		return Result{}, err
	}
	if err := s.Node.Reshape(ctx, change); err != nil {
		return Result{}, again(err)
	}
	if err := s.Lock.Delete(record.Name(s.Prefix, s.Exchange)); err != nil {
		return Result{}, again(err)
	}
	now, err := s.API.Definition(ctx, s.Exchange)
	return Result{Record: r, Changed: !x.Delayed(), Now: now}, err
}

// prepareServe declares what serve needs, and binds to the target what is bound to the exchange.
// All of it may be refused, so it comes before any change: by another configuration of serve, by
// permissions, and by an exclusive queue, which only its own connection can bind.
func (s *Swapper) prepareServe(ctx context.Context, r record.Record, x inventory.Definition) error {
	spec, target := r.Spec(), string(r.Target)
	if err := entry.Check([]entry.Spec{spec}); err != nil {
		return s.fail("switch", "use --mode in-place", "delayer serve refuses it: %w", err)
	}
	if !x.Durable {
		return s.fail("switch", "use --mode in-place", "it is transient, and an exchange of delayer serve is durable")
	}
	for _, b := range x.Out {
		if b.ToExchange && slices.ContainsFunc(x.In, func(in objects.Bound) bool { return in.Source == b.Target }) {
			return s.fail("switch", "use --mode in-place, or remove one of the two bindings",
				"exchange %q is bound to it and it to that: messages would circle through delayer serve", b.Target)
		}
	}
	// Asked for, not tried: on RabbitMQ 4.0.5 a declaration that conflicts was seen to get no answer,
	// with a long name that is not ASCII.
	marker := spec.Marker(s.Prefix)
	served, err := s.API.Exchange(ctx, marker.Name)
	ours := err == nil
	switch {
	case errors.Is(err, delayer.ErrUnroutable):
	case err != nil:
		return err
	case served.Arguments["alternate-exchange"] != marker.Alternate:
		return s.fail("switch", fmt.Sprintf("let its entry have type: %s and to: %s; then stop delayer serve, and delete exchange %q", spec.Type, target, marker.Name),
			"delayer serve was configured in another way for it")
	}
	there, err := delivery.Exists(ctx, s.Control, target, "")
	if err != nil {
		return err
	}
	if there == delivery.There && !ours {
		return s.fail("switch", "rename that, or use --mode in-place", "its bindings would go to exchange %q, which exists already", target)
	}
	if err := objects.Of(s.Control, "").Apply(ctx, spec.Side(s.Prefix)); err != nil {
		return err
	}
	if err := s.bindTarget(ctx, r, x); err != nil {
		if there == delivery.Gone { // nothing leads to it yet
			_ = s.Control.Do(ctx, func(ch *amqp091.Channel) error {
				const ifUnused = false
				return ch.ExchangeDelete(target, ifUnused, waitForAnswer)
			})
		}
		return err
	}
	return nil
}

// bindTarget declares the target and gives it the bindings of the exchange, but for those to serve,
// and to the exchange itself. It keeps the alternate exchange too: a message that reaches it has
// been routed, as far as the exchange before it knows.
func (s *Swapper) bindTarget(ctx context.Context, r record.Record, x inventory.Definition) error {
	queue, target := entry.NamesOf(s.Prefix, s.Exchange).Queue, string(r.Target)
	args := amqp091.Table{}
	for name, value := range x.Arguments {
		if name != "x-delayed-type" && name != "alternate-exchange" {
			args[name] = value
		}
	}
	if r.Alternate != "" {
		args["alternate-exchange"] = string(r.Alternate)
	}
	err := s.Control.Do(ctx, func(ch *amqp091.Channel) error {
		const durable, autoDelete, internal = true, false, false
		if err := ch.ExchangeDeclare(target, r.Type, durable, autoDelete, internal, waitForAnswer, args); err != nil {
			return err
		}
		for _, b := range x.Out {
			if b.Target == queue || b.ToExchange && b.Target == s.Exchange {
				continue
			}
			b.Source = target
			if err := b.Bind(ch); err != nil {
				return err
			}
		}
		return nil
	})
	known := &delayer.Error{Op: "switch", Object: fmt.Sprintf("exchange %q", s.Exchange), Kind: delayer.ErrConflict, Cause: err}
	switch broker.Code(err) {
	case amqp091.ResourceLocked:
		known.Hint = "delayer serve cannot feed an exclusive queue, because only its own connection can bind it: use --mode in-place, or let its consumer declare it without exclusive"
		return known
	case amqp091.AccessRefused:
		known.Kind, known.Hint = delayer.ErrAccess, "the user needs configure, write and read for the target, write for its queues: rabbitmqctl set_permissions"
		return known
	}
	return broker.Explain("switch", "", fmt.Sprintf("exchange %q", target), err)
}

// notServed refuses an exchange that a process of serve would make its own again.
func (s *Swapper) notServed(ctx context.Context) error {
	queue := entry.NamesOf(s.Prefix, s.Exchange).Queue
	switch q, err := s.Control.Queue(ctx, queue); {
	case broker.Code(err) == amqp091.NotFound:
		return nil
	case err != nil:
		return broker.Explain("look at", "", fmt.Sprintf("queue %q", queue), err)
	case q.Consumers > 0:
		return s.fail("switch", "take it out of the configuration of delayer serve, and start that anew", "delayer serve serves it: queue %q is consumed", queue)
	}
	return nil
}

// reshaping makes the exchange of a record into a shape.
func (s *Swapper) reshaping(r record.Record, to node.Shape) node.Reshaping {
	change := node.Reshaping{
		Vhost: s.Vhost, Exchange: s.Exchange, Lock: s.Lock.Name, Token: s.Lock.Token,
		Behind: cmp.Or(string(r.Target), record.Name(s.Prefix, s.Exchange)), Hold: record.Hold(s.Prefix, s.Exchange),
		Queue:  entry.NamesOf(s.Prefix, s.Exchange).Queue,
		Routes: r.Type, Type: r.Type, AutoDelete: r.AutoDelete, Internal: r.Internal, Alternate: string(r.Alternate), Shape: to,
	}
	switch to {
	case node.Delayed:
		change.Type = inventory.DelayedMessage
	case node.Front: // as serve declares it
		front := r.Spec().Front(s.Prefix).Exchanges[0]
		change.AutoDelete, change.Internal, change.Alternate = false, false, front.Alternate
	}
	return change
}

// again tells that the same command finishes what was begun.
func again(err error) error {
	return fmt.Errorf("%w (run the same command again: it finishes what was begun; delayer migrate rollback undoes it)", err)
}

func (s *Swapper) fail(op, hint, format string, args ...any) error {
	return &delayer.Error{Op: op, Object: fmt.Sprintf("exchange %q", s.Exchange), Kind: delayer.ErrConflict, Cause: fmt.Errorf(format, args...), Hint: hint}
}

const waitForAnswer = false // the noWait argument of amqp091-go's methods
