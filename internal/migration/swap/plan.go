package swap

import (
	"slices"

	"github.com/delayer-go/delayer/internal/migration/inventory"
	"github.com/delayer-go/delayer/internal/migration/record"
)

// A Change is what makes an exchange into another shape.
type Change struct {
	Before []Op // harms nothing: proves that the rest is possible, and prepares it
	Gap    []Op // from the deletion until all is routed again
	After  []Op // puts the bindings where they belong, and removes what was for the gap
}

// A Request says what a change starts from, and what it must reach.
type Request struct {
	Prefix string
	Former inventory.Definition // the plugin's exchange, with all bindings to carry over
	Is     *inventory.Exchange  // what is there; nil if the exchange is missing
	To     Shape
	Bridge bool // a bridge runs, or ran: the exchange behind is in use, and stays

	// OnNode: the exchange is not deleted. The node changes its type, before After.
	OnNode bool

	// Linked: the exchange leads to the one behind already, which an earlier attempt left.
	Linked bool

	// Stray are bindings of a front that are not ours. What they route goes around the bridge, and
	// is early: they are moved to the exchange behind.
	Stray []inventory.Binding
}

// Plan returns the operations. An exchange that has its new shape already is not deleted.
func Plan(r Request) Change {
	r.OnNode = r.OnNode && r.Is != nil
	p := planner{Request: r, want: shaped(r.Former.Exchange, r.To)}
	p.link = p.links()
	return Change{Before: p.before(), Gap: p.gap(), After: p.after()}
}

type planner struct {
	Request
	want inventory.Exchange
	link []inventory.Binding // from the exchange to what stands for its bindings in the gap
}

func (p *planner) links() []inventory.Binding {
	if p.To == Front {
		return bridgeBindings(p.Prefix, p.Former)
	}
	if p.OnNode && !p.Bridge && !p.Linked {
		return nil // its bindings stay
	}
	return connectors(p.Former, record.Behind(p.Prefix, p.Former.Name))
}

// usesBehind reports whether the exchange behind is needed.
func (p *planner) usesBehind() bool { return p.Bridge || p.To == Front || len(p.link) > 0 }

// untouched reports whether the exchange is as it was before any change.
func (p *planner) untouched() bool { return p.Is != nil && p.Is.Delayed() && p.To != Delayed }

func (p *planner) before() []Op {
	ops := p.proofs()
	if p.usesBehind() {
		back := behind(p.Prefix, p.Former)
		if p.untouched() && !p.Bridge && !p.Linked { // what an earlier attempt left may have other bindings
			ops = append(ops, Op{Verb: Delete, Exchange: back.Exchange})
		}
		ops = append(ops, Op{Verb: Declare, Exchange: back.Exchange})
		ops = append(ops, bind(back.Out)...)
		ops = append(ops, p.thin()...)
	}
	if p.To == Front {
		ops = append(ops, bridgeSide(p.Prefix, p.Former.Name)...)
	}
	return append(ops, p.holds()...)
}

// thin lets the exchange behind route for the one that will be deleted, and removes its other
// bindings: to delete an exchange with 2,000 takes the broker two seconds, in which it loses
// messages. A front leads to its bridge alone, and an exchange that stays keeps its bindings.
func (p *planner) thin() []Op {
	link := connectors(p.Former, record.Behind(p.Prefix, p.Former.Name))
	switch {
	case p.Is == nil || sameExchange(*p.Is, p.want) || len(link) == 0 || len(link) >= len(p.Former.Out),
		p.Bridge && !(p.To == Front && p.Is.Delayed()),
		p.OnNode && p.To != Front:
		return nil
	}
	return append(bind(link), unbind(p.Former.Out)...)
}

// Undo returns the operations that undo Before. lost are the bindings that the exchange lacks now.
func Undo(r Request, lost []inventory.Binding) []Op {
	p := planner{Request: r}
	ops := bind(lost)
	if !r.Bridge {
		ops = append(ops, Op{Verb: Delete, Exchange: behind(r.Prefix, r.Former).Exchange})
	}
	return append(ops, Op{Verb: Delete, Exchange: p.hold()})
}

// bridgeSide declares the bridge's queues. What expires there must have its place before a bridge
// runs.
func bridgeSide(prefix, exchange string) []Op {
	side := record.BridgePlan(prefix, exchange)
	var ops []Op
	for _, x := range side.Exchanges {
		ops = append(ops, Op{Verb: Declare, Exchange: inventory.Exchange{Name: x.Name, Type: x.Kind, Durable: true}})
	}
	for _, q := range side.Queues {
		ops = append(ops, Op{Verb: DeclareQueue, Queue: q})
	}
	for _, b := range side.Bindings {
		ops = append(ops, Op{Verb: Bind, Binding: inventory.Binding{Source: b.Source, Target: b.Target, Key: b.Key}})
	}
	return ops
}

// proofs repeat what is there: they change nothing, and need the permissions that the gap needs.
// Bindings with arguments are left out: the API does not tell the types of numbers, and a binding
// with another type is another one.
func (p *planner) proofs() []Op {
	if p.Is == nil || p.OnNode {
		return nil
	}
	is := *p.Is
	is.Name = p.Former.Name
	ops := []Op{{Verb: Declare, Exchange: is}}
	if !p.untouched() {
		return ops
	}
	for _, b := range p.Former.In {
		if len(b.Arguments) == 0 {
			ops = append(ops, Op{Verb: Bind, Binding: b})
		}
	}
	for _, b := range p.Former.Out {
		if len(b.Arguments) == 0 {
			return append(ops, Op{Verb: Bind, Binding: b})
		}
	}
	return ops
}

// holds bind the exchanges that lead here to one that routes nothing: one that deletes itself with
// its last binding would be gone otherwise.
func (p *planner) holds() []Op {
	if len(p.Former.In) == 0 || p.OnNode {
		return nil
	}
	hold := p.hold()
	ops := []Op{{Verb: Declare, Exchange: hold}}
	for _, b := range p.Former.In {
		if b.Source != p.Former.Name {
			b.Target = hold.Name
			ops = append(ops, Op{Verb: Bind, Binding: b})
		}
	}
	return ops
}

func (p *planner) hold() inventory.Exchange {
	return inventory.Exchange{Name: record.Hold(p.Prefix, p.Former.Name), Type: "fanout", Durable: true}
}

func (p *planner) gap() []Op {
	var ops []Op
	if p.Is != nil && !p.OnNode && !sameExchange(*p.Is, p.want) {
		ops = append(ops, Op{Verb: Delete, Exchange: p.want})
	}
	if !p.OnNode {
		ops = append(ops, Op{Verb: Declare, Exchange: p.want})
	}
	ops = append(ops, bind(p.link)...)
	if len(p.link) == 0 {
		ops = append(ops, bind(p.Former.Out)...)
	}
	return append(ops, bind(p.Former.In)...)
}

func (p *planner) after() []Op {
	var ops []Op
	switch {
	case p.To == Front:
		ops = unbind(p.Stray)
	case p.Bridge: // the exchange behind stays for what the Delayer still holds
		ops = slices.Concat(p.direct(), unbind(p.link), unbind(bridgeBindings(p.Prefix, p.Former)))
	default:
		ops = append(p.direct(), Op{Verb: Delete, Exchange: behind(p.Prefix, p.Former).Exchange})
	}
	return append(ops, Op{Verb: Delete, Exchange: p.hold()})
}

// direct are the bindings that links stood for.
func (p *planner) direct() []Op {
	if len(p.link) == 0 {
		return nil
	}
	return bind(p.Former.Out)
}

func bind(all []inventory.Binding) []Op   { return each(Bind, all) }
func unbind(all []inventory.Binding) []Op { return each(Unbind, all) }

func each(verb Verb, all []inventory.Binding) []Op {
	ops := make([]Op, 0, len(all))
	for _, b := range all {
		ops = append(ops, Op{Verb: verb, Binding: b})
	}
	return ops
}
