package swap

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

// A fakeBroker has exchanges and bindings, with the record in it. After so many operations it
// stops answering, as to a tool that was killed.
type fakeBroker struct {
	exchanges map[string]inventory.Exchange
	queues    map[string]bool
	bindings  map[string]inventory.BindingInfo
	record    *record.Record
	left      int               // operations until the tool is killed; -1: never
	refuse    func(Op) error    // what the broker refuses
	before    map[string]func() // runs once before an operation of this text
	deleted   map[string]bool   // exchanges that were ever deleted
	onNode    bool              // the tool has rabbitmqctl
}

var errKilled = errors.New("killed")

func newFakeBroker(d inventory.Definition) *fakeBroker {
	w := &fakeBroker{
		exchanges: map[string]inventory.Exchange{d.Name: d.Exchange}, queues: map[string]bool{},
		bindings: map[string]inventory.BindingInfo{}, left: -1, deleted: map[string]bool{},
		before: map[string]func(){},
	}
	for _, b := range append(slices.Clone(d.Out), d.In...) {
		for name, exchange := range map[string]bool{b.Source: true, b.Target: b.ToExchange} {
			if !exchange {
				w.queues[name] = true
			} else if name != d.Name {
				w.exchanges[name] = inventory.Exchange{Name: name, Type: "topic", AutoDelete: true}
			}
		}
		w.bindings[identity(b)] = b
	}
	return w
}

func (w *fakeBroker) copy() *fakeBroker {
	c := *w
	c.exchanges, c.queues, c.bindings, c.deleted = maps.Clone(w.exchanges), maps.Clone(w.queues), maps.Clone(w.bindings), maps.Clone(w.deleted)
	return &c
}

func (w *fakeBroker) alive() error {
	if w.left == 0 {
		return errKilled
	}
	if w.left > 0 {
		w.left--
	}
	return nil
}

// errMissing is the broker's 404.
var errMissing = errors.New("404")

func (w *fakeBroker) do(op Op) error {
	if f := w.before[op.String()]; f != nil {
		delete(w.before, op.String())
		f()
	}
	if w.left == 0 {
		return errKilled
	}
	if w.refuse != nil {
		if err := w.refuse(op); err != nil {
			return err
		}
	}
	defer func() { _ = w.alive() }()
	b := op.Binding
	switch op.Verb {
	case Declare:
		if was, there := w.exchanges[op.Exchange.Name]; there {
			if !sameExchange(was, op.Exchange) {
				return errors.New("406")
			}
			return nil
		}
		w.exchanges[op.Exchange.Name] = op.Exchange
	case Delete:
		w.deleteExchange(op.Exchange.Name)
	case DeclareQueue:
		w.queues[op.Queue.Name] = true
	case Bind:
		_, from := w.exchanges[b.Source]
		_, to := w.exchanges[b.Target]
		if !from || b.ToExchange && !to || !b.ToExchange && !w.queues[b.Target] {
			return errMissing
		}
		w.bindings[identity(b)] = b
	case Unbind:
		w.unbind(b)
	}
	return nil
}

func (w *fakeBroker) deleteExchange(name string) {
	if _, there := w.exchanges[name]; !there {
		return
	}
	delete(w.exchanges, name)
	w.deleted[name] = true
	for _, b := range slices.Collect(maps.Values(w.bindings)) {
		if b.Source == name || b.ToExchange && b.Target == name {
			w.unbind(b)
		}
	}
}

// unbind deletes an exchange with its last binding if it is auto-delete.
func (w *fakeBroker) unbind(b inventory.BindingInfo) {
	if _, there := w.bindings[identity(b)]; !there {
		return
	}
	delete(w.bindings, identity(b))
	for _, other := range w.bindings {
		if other.Source == b.Source {
			return
		}
	}
	if w.exchanges[b.Source].AutoDelete {
		w.deleteExchange(b.Source)
	}
}

func (w *fakeBroker) deleteQueue(name string) {
	delete(w.queues, name)
	for _, b := range slices.Collect(maps.Values(w.bindings)) {
		if !b.ToExchange && b.Target == name {
			w.unbind(b)
		}
	}
}

func (w *fakeBroker) Perform(_ context.Context, ops []Op) error {
	for _, op := range ops {
		if err := w.do(op); err != nil {
			return err
		}
	}
	return nil
}

func (w *fakeBroker) Repair(_ context.Context, ops []Op) (refused []inventory.BindingInfo, err error) {
	for _, op := range ops {
		switch err := w.do(op); {
		case errors.Is(err, errMissing):
			refused = append(refused, op.Binding)
		case err != nil:
			return refused, err
		}
	}
	return refused, nil
}

func (w *fakeBroker) Exists(_ context.Context, exchange string) (bool, error) {
	_, there := w.exchanges[exchange]
	return there, w.answers()
}

func (w *fakeBroker) HasQueue(_ context.Context, queue string) (bool, error) {
	return w.queues[queue], w.answers()
}

// answers is alive without counting.
func (w *fakeBroker) answers() error {
	if w.left == 0 {
		return errKilled
	}
	return nil
}

func (w *fakeBroker) Definition(ctx context.Context, exchange string) (inventory.Definition, error) {
	d := inventory.Definition{Exchange: w.exchanges[exchange]}
	var err error
	d.Out, d.In, err = w.Bindings(ctx, exchange)
	return d, err
}

func (w *fakeBroker) Bindings(_ context.Context, exchange string) (out, in []inventory.BindingInfo, err error) {
	for _, id := range slices.Sorted(maps.Keys(w.bindings)) {
		b := w.bindings[id]
		if b.Source == exchange {
			out = append(out, b)
		}
		if b.ToExchange && b.Target == exchange {
			in = append(in, b)
		}
	}
	return out, in, w.answers()
}

func (w *fakeBroker) Record() (record.Record, bool) {
	if w.record == nil {
		return record.Record{}, false
	}
	return *w.record, true
}

func (w *fakeBroker) Save(_ context.Context, r record.Record) error {
	if err := w.alive(); err != nil {
		return err
	}
	w.record = &r
	return nil
}

func (w *fakeBroker) Locked() bool  { return w.left != 0 }
func (w *fakeBroker) Token() string { return "token" }

// CanReshape refuses what the node would.
func (w *fakeBroker) CanReshape(_ context.Context, r node.Reshaping) error {
	if _, there := w.exchanges[r.Exchange]; !there {
		return errMissing
	}
	return w.answers()
}

// Reshape does what the program reshape.erl does. It ends even if the tool is killed meanwhile.
func (w *fakeBroker) Reshape(_ context.Context, r node.Reshaping) error {
	if err := w.alive(); err != nil {
		return err
	}
	x := w.exchanges[r.Exchange]
	x.Type, x.AutoDelete, x.Internal, x.Arguments = r.Type, r.AutoDelete, r.Internal, maps.Clone(x.Arguments)
	delete(x.Arguments, delayedType)
	delete(x.Arguments, alternate)
	if r.Alternate != "" {
		x.Arguments[alternate] = r.Alternate
	}
	switch Shape(r.Shape) {
	case Delayed:
		x.Arguments[delayedType] = r.Routes
	case Front:
		w.feed(r)
	}
	w.exchanges[r.Exchange] = x
	if Shape(r.Shape) != Front {
		w.release(r)
	}
	return nil
}

// feed lets an exchange lead to serve's queue, and to nothing else.
func (w *fakeBroker) feed(r node.Reshaping) {
	out, _, _ := w.Bindings(context.Background(), r.Exchange)
	out = slices.DeleteFunc(out, func(b inventory.BindingInfo) bool { return b.Target == r.Queue || b.Target == r.Exchange })
	for _, b := range out {
		if b.Target != r.Behind {
			b.Source = r.Behind
			w.bindings[identity(b)] = b
		}
	}
	former := inventory.Definition{Out: out}
	former.Name, former.Arguments = r.Exchange, amqp091.Table{delayedType: r.Routes}
	for _, b := range leads("p", former) {
		w.bindings[identity(b)] = b
	}
	for _, b := range out {
		w.unbind(b)
	}
}

// release lets an exchange lead to the one behind instead of serve's queue.
func (w *fakeBroker) release(r node.Reshaping) {
	out, _, _ := w.Bindings(context.Background(), r.Exchange)
	fed := slices.DeleteFunc(out, func(b inventory.BindingInfo) bool { return b.Target != r.Queue })
	if len(fed) == 0 {
		return
	}
	had, _, _ := w.Bindings(context.Background(), r.Behind)
	former := inventory.Definition{Out: had}
	former.Name, former.Arguments = r.Exchange, amqp091.Table{delayedType: r.Routes}
	for _, b := range connectors(former, r.Behind) {
		w.bindings[identity(b)] = b
	}
	for _, b := range fed { // the exchange stays, also without any binding
		delete(w.bindings, identity(b))
	}
}

func (w *fakeBroker) swapper(exchange string) *Swapper {
	s := &Swapper{Prefix: "p", Exchange: exchange, API: w, Broker: w, Journal: w, Now: func() time.Time { return time.Unix(1, 0) }}
	if w.onNode {
		s.Node = w
	}
	return s
}
