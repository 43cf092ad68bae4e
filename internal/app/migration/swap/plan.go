package swap

import (
	"slices"

	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

// A Change is what makes an exchange into another shape.
type Change struct {
	Before []Op // harms nothing: proves that the rest is possible, and prepares it
	Gap    []Op // from the deletion until all is routed again
	After  []Op // puts the bindings where they belong, and removes what was for the gap
}

// Plan returns the operations that make an exchange into a shape. One that has it already is not
// deleted.
func Plan(prefix string, from state, to Shape) Change {
	from.onNode = from.onNode && from.is != nil
	p := planner{state: from, prefix: prefix, to: to, want: shaped(prefix, from.former.Exchange, to)}
	switch {
	case to == Front:
		p.link = leads(prefix, from.former)
	case !p.onNode || p.target != "" || p.linked: // else its bindings stay
		p.link = connectors(from.former, from.behindName(prefix))
	}
	return Change{Before: p.before(), Gap: p.gap(), After: p.after()}
}

type planner struct {
	state
	prefix string
	to     Shape
	want   inventory.Exchange
	link   []inventory.BindingInfo // from the exchange to what stands for its bindings in the gap
}

// untouched reports whether the exchange is as it was before any change.
func (p *planner) untouched() bool { return p.is != nil && p.is.Delayed() && p.to != Delayed }

func (p *planner) before() []Op {
	ops := p.proofs()
	if p.to == Front { // first: they may be refused
		ops = append(ops, p.side()...)
	}
	if p.target != "" || len(p.link) > 0 { // the exchange behind is needed
		back := p.behind(p.prefix)
		if p.untouched() && p.target == "" && !p.linked { // what an earlier attempt left may have other bindings
			ops = append(ops, Op{Verb: Delete, Exchange: back.Exchange})
		}
		ops = append(ops, Op{Verb: Declare, Exchange: back.Exchange})
		ops = append(ops, each(Bind, back.Out)...)
		ops = append(ops, p.thin()...)
	}
	return append(ops, p.holds()...)
}

// thin lets the exchange behind route for the one that will be deleted, and removes its other
// bindings: to delete an exchange with 2,000 takes the broker two seconds, in which it loses
// messages. A front leads to serve's queue alone, and an exchange that stays keeps its bindings.
func (p *planner) thin() []Op {
	link := connectors(p.former, p.behindName(p.prefix))
	switch {
	case p.is == nil || sameExchange(*p.is, p.want) || len(link) == 0 || len(link) >= len(p.former.Out),
		p.target != "" && !(p.to == Front && p.is.Delayed()),
		p.onNode && p.to != Front:
		return nil
	}
	return append(each(Bind, link), each(Unbind, p.former.Out)...)
}

// Undo returns the operations that undo Before. lost are the bindings that the exchange lacks now.
func Undo(prefix string, st state, lost []inventory.BindingInfo) []Op {
	p := planner{state: st, prefix: prefix}
	ops := each(Bind, lost)
	if st.record.Target == "" {
		ops = append(ops, Op{Verb: Delete, Exchange: st.behind(prefix).Exchange})
	}
	return append(ops, Op{Verb: Delete, Exchange: p.hold()})
}

// side declares what serve needs. What expires in its queue must have its place before serve runs.
func (p *planner) side() []Op {
	side := p.spec().Side(p.prefix)
	var ops []Op
	for _, x := range side.AllExchanges() {
		ops = append(ops, Op{Verb: Declare, Exchange: inventory.Exchange{Name: x.Name, Type: x.Kind, Durable: true, Arguments: x.Args()}})
	}
	for _, q := range side.Queues {
		ops = append(ops, Op{Verb: DeclareQueue, Queue: q})
	}
	for _, b := range side.Bindings {
		ops = append(ops, Op{Verb: Bind, Binding: inventory.BindingInfo{Source: b.Source, Target: b.Target, Key: b.Key}})
	}
	return ops
}

// spec is the entry of serve.
func (st state) spec() entry.Spec { return record.Record{Former: st.former, Target: st.target}.Spec() }

// proofs repeat what is there: they change nothing, and need the permissions that the gap needs.
// Bindings with arguments are left out: the API does not tell the types of numbers, and a binding
// with another type is another one.
func (p *planner) proofs() []Op {
	if p.is == nil || p.onNode {
		return nil
	}
	is := *p.is
	is.Name = p.former.Name
	ops := []Op{{Verb: Declare, Exchange: is}}
	if !p.untouched() {
		return ops
	}
	for _, b := range p.former.In {
		if len(b.Arguments) == 0 {
			ops = append(ops, Op{Verb: Bind, Binding: b})
		}
	}
	for _, b := range p.former.Out {
		if len(b.Arguments) == 0 {
			return append(ops, Op{Verb: Bind, Binding: b})
		}
	}
	return ops
}

// holds bind the exchanges that lead here to one that routes nothing: one that deletes itself with
// its last binding would be gone otherwise.
func (p *planner) holds() []Op {
	if len(p.former.In) == 0 || p.onNode {
		return nil
	}
	hold := p.hold()
	ops := []Op{{Verb: Declare, Exchange: hold}}
	for _, b := range p.former.In {
		if b.Source != p.former.Name {
			b.Target = hold.Name
			ops = append(ops, Op{Verb: Bind, Binding: b})
		}
	}
	return ops
}

func (p *planner) hold() inventory.Exchange {
	return inventory.Exchange{Name: record.Hold(p.prefix, p.former.Name), Type: "fanout", Durable: true}
}

func (p *planner) gap() []Op {
	var ops []Op
	if p.is != nil && !p.onNode && !sameExchange(*p.is, p.want) {
		ops = append(ops, Op{Verb: Delete, Exchange: p.want})
	}
	if !p.onNode {
		ops = append(ops, Op{Verb: Declare, Exchange: p.want})
	}
	ops = append(ops, each(Bind, p.link)...)
	if len(p.link) == 0 {
		ops = append(ops, each(Bind, p.former.Out)...)
	}
	return append(ops, each(Bind, p.former.In)...)
}

func (p *planner) after() []Op {
	var ops, direct []Op
	if len(p.link) > 0 { // the links stood for these
		direct = each(Bind, p.former.Out)
	}
	switch {
	case p.to == Front:
		ops = each(Unbind, p.stray)
	case p.target != "": // the target stays for what serve and the Delayer still hold
		ops = slices.Concat(direct, each(Unbind, p.link), each(Unbind, leads(p.prefix, p.former)))
	default:
		ops = append(direct, Op{Verb: Delete, Exchange: p.behind(p.prefix).Exchange})
	}
	return append(ops, Op{Verb: Delete, Exchange: p.hold()})
}

func each(verb Verb, all []inventory.BindingInfo) []Op {
	ops := make([]Op, 0, len(all))
	for _, b := range all {
		ops = append(ops, Op{Verb: verb, Binding: b})
	}
	return ops
}
