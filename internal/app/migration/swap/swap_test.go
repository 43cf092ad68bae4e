package swap

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

const name = `it's "the" exchange`

// sameBindings reports whether two lists hold the same bindings.
func sameBindings(a, b []inventory.BindingInfo) bool {
	return len(missing(a, b)) == 0 && len(missing(b, a)) == 0
}

// definitions are exchanges of the plugin with bindings on both sides.
func definitions(t *rapid.T) inventory.Definition {
	kind := rapid.SampledFrom([]string{"topic", "direct", "fanout", "headers", "x-consistent-hash"}).Draw(t, "type")
	d := inventory.Definition{Exchange: inventory.Exchange{
		Name: name, Type: inventory.DelayedMessage, Durable: rapid.Bool().Draw(t, "durable"), AutoDelete: rapid.Bool().Draw(t, "auto-delete"),
		Internal: rapid.Bool().Draw(t, "internal"), Arguments: amqp091.Table{"x-delayed-type": kind},
	}}
	if rapid.Bool().Draw(t, "alternate") {
		d.Arguments["alternate-exchange"] = "other"
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "out") {
		b := inventory.BindingInfo{Source: name, Target: fmt.Sprint("out", i), Key: rapid.SampledFrom([]string{"", "a", "a.b", "#"}).Draw(t, "key")}
		b.ToExchange = rapid.Bool().Draw(t, "to exchange")
		if rapid.Bool().Draw(t, "arguments") {
			b.Arguments = amqp091.Table{"x-match": "any", "n": int64(i)}
		}
		d.Out = append(d.Out, b)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "in") {
		source := fmt.Sprint("in", i)
		if i == 2 {
			source = name // to itself
		}
		b := inventory.BindingInfo{Source: source, Target: name, ToExchange: true, Key: "k"}
		d.In = append(d.In, b)
		if source == name {
			d.Out = append(d.Out, b)
		}
	}
	return d
}

// TestSwap_Identity: a switch and a rollback, each killed at any operation and run again, leave
// what was there before.
func TestSwap_Identity(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		require.NoError(t, flag.Set(checks.Name, "20")) // each is killed some 60 times; -rapid.checks=1000 is wider
		defer flag.Set(checks.Name, checks.DefValue)    //nolint:errcheck // it was taken before
	}
	rapid.Check(t, func(t *rapid.T) {
		d := definitions(t)
		mode := rapid.SampledFrom([]record.Mode{record.InPlace, record.Serving}).Draw(t, "mode")
		before := newFakeBroker(d)
		before.onNode = rapid.Bool().Draw(t, "on the node")
		mutual := func(w *fakeBroker) error { _, err := w.swapper(name).Switch(t.Context(), mode, ""); return err }
		back := func(w *fakeBroker) error { _, err := w.swapper(name).Rollback(t.Context()); return err }
		after := everywhere(t, before, mutual, func(w *fakeBroker) { requireSwitched(t, before, w, d, mode) })
		last := everywhere(t, after, back, func(w *fakeBroker) { requireRestored(t, before, w, mode) })
		stays := before.onNode && slices.Contains(inventory.KnownTypes, d.DelayedType()) && (d.Durable || mode == record.InPlace)
		require.Equal(t, !stays, last.deleted[name], "on the node there is no gap")
	})
}

// everywhere runs a step, and once for each of its operations kills it there and runs it again.
func everywhere(t *rapid.T, from *fakeBroker, step func(*fakeBroker) error, check func(*fakeBroker)) *fakeBroker {
	whole := from.copy()
	require.NoError(t, step(whole))
	check(whole)
	for kill := 1; ; kill++ {
		w := from.copy()
		w.left = kill
		err := step(w)
		if err == nil {
			return whole
		}
		require.ErrorIs(t, err, errKilled, "killed after %d operations", kill)
		w.left = -1
		require.NoError(t, step(w), "killed after %d operations", kill)
		check(w)
	}
}

func requireSwitched(t *rapid.T, before, w *fakeBroker, d inventory.Definition, mode record.Mode) {
	require.Equal(t, record.Switched, w.record.Step)
	require.NotContains(t, w.exchanges, record.Hold("p", name))
	for other := range before.exchanges {
		require.Contains(t, w.exchanges, other, "an exchange that deletes itself")
	}
	x := w.exchanges[name]
	if mode == record.InPlace {
		require.Equal(t, [3]bool{d.Durable, d.AutoDelete, d.Internal}, [3]bool{x.Durable, x.AutoDelete, x.Internal})
		require.Equal(t, d.Arguments["alternate-exchange"], x.Arguments["alternate-exchange"])
		require.Equal(t, d.DelayedType(), x.Type)
		require.Equal(t, before.bindings, w.bindings)
		require.Equal(t, len(before.exchanges), len(w.exchanges))
		return
	}
	front := w.record.Spec().Front("p").Exchanges[0]
	require.Equal(t, inventory.Exchange{Name: name, Type: front.Kind, Durable: true, Arguments: x.Arguments}, x, "as serve declares it")
	require.Equal(t, front.Args()["alternate-exchange"], x.Arguments["alternate-exchange"])
	out, in, _ := w.Bindings(t.Context(), name)
	require.True(t, sameBindings(d.In, in))
	require.True(t, sameBindings(own(inventory.Definition{Exchange: x, Out: out}, "p", DefaultTarget(name)).Out, nil), "%v", out)
	require.Subset(t, out, leads("p", own(d, "p", "")))
	require.Equal(t, DefaultTarget(name), w.record.Target)
	atTarget := w.atTarget(t)
	require.True(t, sameBindings(own(d, "p", "").Out, atTarget), "%v", atTarget)
}

// atTarget are the bindings of the default target, as if they were the exchange's own.
func (w *fakeBroker) atTarget(t require.TestingT) []inventory.BindingInfo {
	out, err := w.swapper(name).behindNow(context.Background(), state{target: DefaultTarget(name)})
	require.NoError(t, err)
	return out
}

// ours reports whether a binding is beside the exchange: in serve, or of its target.
func ours(b inventory.BindingInfo) bool {
	return b.Source == DefaultTarget(name) || strings.HasPrefix(b.Source, "p.migration.") || strings.HasPrefix(b.Source, "p.serve.")
}

func requireRestored(t *rapid.T, before, w *fakeBroker, mode record.Mode) {
	for other := range before.exchanges {
		require.Equal(t, before.exchanges[other], w.exchanges[other])
	}
	bindings := maps.Clone(w.bindings)
	maps.DeleteFunc(bindings, func(_ string, b inventory.BindingInfo) bool { return ours(b) })
	require.Equal(t, before.bindings, bindings)
	want := record.Prepared
	if mode == record.Serving {
		want = record.Restored
		require.Contains(t, w.exchanges, DefaultTarget(name), "the Delayer may hold messages for it")
	}
	require.Equal(t, want, w.record.Step)
}

func topic(out ...string) inventory.Definition {
	d := inventory.Definition{Exchange: inventory.Exchange{
		Name: name, Type: inventory.DelayedMessage, Durable: true, Arguments: amqp091.Table{"x-delayed-type": "topic"},
	}}
	for _, q := range out {
		d.Out = append(d.Out, inventory.BindingInfo{Source: name, Target: q, Key: "k." + q})
	}
	return d
}

// eachKill switches a small broker, in each mode and on both ways, killed after each operation in
// turn.
func eachKill(t *testing.T, then func(before, killed *fakeBroker, mode record.Mode, kill int)) {
	for _, mode := range []record.Mode{record.InPlace, record.Serving} {
		for _, onNode := range []bool{false, true} {
			before := newFakeBroker(topic("a", "b", "c"))
			before.onNode = onNode
			for kill := 1; ; kill++ {
				w := before.copy()
				w.left = kill
				if _, err := w.swapper(name).Switch(t.Context(), mode, ""); err == nil {
					break
				}
				w.left = -1
				then(before, w, mode, kill)
			}
		}
	}
}

// TestSwitch_Rollback_Interrupted: a switch that was killed anywhere is undone by a rollback too.
func TestSwitch_Rollback_Interrupted(t *testing.T) {
	eachKill(t, func(before, w *fakeBroker, mode record.Mode, kill int) {
		_, err := w.swapper(name).Rollback(t.Context())
		require.NoError(t, err)
		require.Equal(t, before.exchanges[name], w.exchanges[name])
		for id := range before.bindings {
			require.Contains(t, w.bindings, id, "%s, killed after %d operations", mode, kill)
		}
	})
}

// TestSwitch_Refused: what the broker refuses before the gap changes nothing.
func TestSwitch_RefusedBefore(t *testing.T) {
	w := newFakeBroker(topic("a", "b"))
	before := w.copy()
	refused := errors.New("405: exclusive")
	w.refuse = func(op Op) error {
		if op.Verb == Bind && op.Binding.Target == "b" {
			return refused
		}
		return nil
	}
	_, err := w.swapper(name).Switch(t.Context(), record.InPlace, "")
	require.ErrorIs(t, err, refused)
	require.Equal(t, before.exchanges, w.exchanges)
	require.Equal(t, before.bindings, w.bindings)
	require.Equal(t, record.Prepared, w.record.Step)
}

// TestSwitch_PutBack: what the broker refuses in the gap is put back.
func TestSwitch_PutBack(t *testing.T) {
	w := newFakeBroker(topic("a", "b"))
	before := w.copy()
	refused := errors.New("403")
	w.refuse = func(op Op) error {
		if op.Verb == Declare && op.Exchange.Name == name && op.Exchange.Type == "topic" {
			return refused
		}
		return nil
	}
	_, err := w.swapper(name).Switch(t.Context(), record.InPlace, "")
	require.ErrorIs(t, err, refused)
	require.ErrorContains(t, err, "put back")
	require.True(t, w.deleted[name])
	require.Equal(t, before.exchanges[name], w.exchanges[name])
	require.Equal(t, before.bindings, w.bindings)
	require.Equal(t, record.Prepared, w.record.Step)
}

// TestSwitch_Meanwhile: bindings that others make or lose during the switch.
func TestSwitch_Meanwhile(t *testing.T) {
	w := newFakeBroker(topic("a", "b"))
	w.queues["new"] = true
	fresh := inventory.BindingInfo{Source: name, Target: "new", Key: "n"}
	w.before[Op{Verb: Declare, Exchange: state{former: topic("a", "b")}.behind("p").Exchange}.String()] = func() { w.bindings[identity(fresh)] = fresh }
	w.before[Op{Verb: Delete, Exchange: inventory.Exchange{Name: name}}.String()] = func() { w.deleteQueue("a") }
	result, err := w.swapper(name).Switch(t.Context(), record.InPlace, "")
	require.NoError(t, err)
	require.Contains(t, w.bindings, identity(fresh))
	require.Equal(t, []inventory.BindingInfo{{Source: name, Target: "a", Key: "k.a"}}, result.Gone)
	require.Len(t, w.bindings, 2)
	require.Len(t, w.record.Former.Out, 3, "as last seen")
}

// TestSwitch_ApplicationDeclares: an application declares the exchange while the tool is dead.
func TestSwitch_ApplicationDeclares(t *testing.T) {
	d := topic("a", "b")
	w := newFakeBroker(d)
	s := w.swapper(name)
	w.before[Op{Verb: Declare, Exchange: shaped("p", d.Exchange, Plain)}.String()] = func() { w.left = 0 }
	_, err := s.Switch(t.Context(), record.InPlace, "")
	require.ErrorIs(t, err, errKilled)
	require.NotContains(t, w.exchanges, name)
	w.left = -1
	w.exchanges[name] = d.Exchange
	_, err = s.Switch(t.Context(), record.InPlace, "")
	require.NoError(t, err)
	require.Equal(t, "topic", w.exchanges[name].Type)
	require.Len(t, w.bindings, 2)

	w = newFakeBroker(d)
	w.before[Op{Verb: Declare, Exchange: shaped("p", d.Exchange, Plain)}.String()] = func() { w.left = 0 }
	_, err = w.swapper(name).Switch(t.Context(), record.InPlace, "")
	require.ErrorIs(t, err, errKilled)
	w.left = -1
	w.exchanges[name] = inventory.Exchange{Name: name, Type: "headers"}
	_, err = w.swapper(name).Switch(t.Context(), record.InPlace, "")
	require.ErrorContains(t, err, "someone has declared it as type headers")
}

// TestSwitch_Stray: a queue that is bound to the front gets its messages through serve, once
// the switch is repeated.
func TestSwitch_Stray(t *testing.T) {
	w := newFakeBroker(topic("a"))
	switchTo := func(mode record.Mode) Result {
		result, err := w.swapper(name).Switch(t.Context(), mode, "")
		require.NoError(t, err)
		return result
	}
	require.True(t, switchTo(record.Serving).Changed)
	w.queues["late"] = true
	stray := inventory.BindingInfo{Source: name, Target: "late", Key: "l"}
	w.bindings[identity(stray)] = stray
	require.False(t, switchTo(record.Serving).Changed)
	require.NotContains(t, w.bindings, identity(stray))
	atTarget := w.atTarget(t)
	require.True(t, sameBindings([]inventory.BindingInfo{stray, {Source: name, Target: "a", Key: "k.a"}}, atTarget))

	_, err := w.swapper(name).Switch(t.Context(), record.InPlace, "")
	require.ErrorContains(t, err, "it was switched with --mode serve (run delayer migrate rollback first")
	_, err = w.swapper(name).Rollback(t.Context())
	require.NoError(t, err)
	out, _, err := w.Bindings(t.Context(), name)
	require.NoError(t, err)
	require.True(t, sameBindings(out, atTarget), "%v", out)
	_, err = w.swapper(name).Switch(t.Context(), record.InPlace, "")
	require.ErrorContains(t, err, "what delayer serve needed for it is still there")
	_, err = w.swapper(name).Switch(t.Context(), record.Serving, "elsewhere")
	require.ErrorContains(t, err, "its target is exchange")
	require.True(t, switchTo(record.Serving).Changed)
}

// TestSwitch_NodeFails: what cannot be done is refused before anything is changed. Where it is not
// known whether it was done, the exchange is left to the next run.
func TestSwitch_NodeFails(t *testing.T) {
	w := newFakeBroker(topic("a", "b"))
	before := w.copy()
	broken := &brokenNode{fakeBroker: w, refuses: true}
	s := w.swapper(name)
	s.Node = broken
	_, err := s.Switch(t.Context(), record.InPlace, "")
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, before, w)

	for _, mode := range []record.Mode{record.InPlace, record.Serving} {
		for _, does := range []bool{false, true} {
			w = before.copy()
			s, broken = w.swapper(name), &brokenNode{fakeBroker: w, does: does}
			s.Node = broken
			_, err = s.Switch(t.Context(), mode, "")
			require.ErrorIs(t, err, errBroken)
			require.ErrorContains(t, err, "run the same command again")
			require.Equal(t, record.Switching, w.record.Step)
			s.Node = w
			_, err = s.Switch(t.Context(), mode, "")
			require.NoError(t, err)
			require.Empty(t, w.deleted[name])
			_, err = s.Rollback(t.Context())
			require.NoError(t, err)
			require.Equal(t, before.exchanges[name], w.exchanges[name])
			for id := range before.bindings {
				require.Contains(t, w.bindings, id)
			}
		}
	}
}

var errBroken = errors.New("rabbitmqctl failed")

// A brokenNode fails before or after the change, or refuses it.
type brokenNode struct {
	*fakeBroker
	refuses, does bool
}

func (n *brokenNode) CanReshape(context.Context, node.Reshaping) error {
	if n.refuses {
		return errBroken
	}
	return nil
}

func (n *brokenNode) Reshape(ctx context.Context, r node.Reshaping) error {
	if n.does {
		_ = n.fakeBroker.Reshape(ctx, r)
	}
	return errBroken
}

// TestSwitch_StillAtWork: a tool was killed, and its program on the node goes on while the next
// tool reads the exchange. What is bound to a front then goes around serve: it is early.
func TestSwitch_StillAtWork(t *testing.T) {
	for _, kind := range []string{"topic", "direct", "fanout", "headers"} {
		d := topic("a", "b")
		d.Arguments = amqp091.Table{delayedType: kind}
		w := newFakeBroker(d)
		s := w.swapper(name)
		s.Node = &busyNode{fakeBroker: w}
		_, err := s.Switch(t.Context(), record.Serving, "")
		require.ErrorIs(t, err, errBroken)
		require.True(t, w.exchanges[name].Delayed(), "its program is at work")

		queue := entry.NamesOf("p", name).Queue
		w.refuse = func(op Op) error {
			if b := op.Binding; op.Verb == Bind && b.Source == name && b.Target != queue && !w.exchanges[name].Delayed() {
				return fmt.Errorf("%s: %v makes messages early", kind, op)
			}
			return nil
		}
		_, err = s.Switch(t.Context(), record.Serving, "")
		require.NoError(t, err)
	}
}

// A busyNode does the first change when it is next asked whether it can make one: a program waits
// for the one before.
type busyNode struct {
	*fakeBroker
	first *node.Reshaping // that is not done yet
	began bool
}

func (n *busyNode) CanReshape(ctx context.Context, r node.Reshaping) error {
	if n.first != nil {
		_ = n.fakeBroker.Reshape(ctx, *n.first)
		n.first = nil
	}
	return n.fakeBroker.CanReshape(ctx, r)
}

func (n *busyNode) Reshape(ctx context.Context, r node.Reshaping) error {
	if !n.began {
		n.first, n.began = &r, true
		return errBroken
	}
	return n.fakeBroker.Reshape(ctx, r)
}

// TestSwitch_Mixed: a change that was killed on one way is finished on the other.
func TestSwitch_Mixed(t *testing.T) {
	eachKill(t, func(before, w *fakeBroker, mode record.Mode, kill int) {
		w.onNode = !before.onNode
		_, err := w.swapper(name).Switch(t.Context(), mode, "")
		require.NoError(t, err, "%s, killed after %d operations", mode, kill)
		_, err = w.swapper(name).Rollback(t.Context())
		require.NoError(t, err)
		bindings := maps.Clone(w.bindings)
		maps.DeleteFunc(bindings, func(_ string, b inventory.BindingInfo) bool {
			return ours(b)
		})
		require.Equal(t, before.bindings, bindings, "%s, killed after %d operations", mode, kill)
	})
}

func TestSwitch_MayNot(t *testing.T) {
	plain := topic("a")
	plain.Type = "topic"
	_, err := newFakeBroker(plain).swapper(name).Switch(t.Context(), record.InPlace, "")
	require.ErrorContains(t, err, "its type is topic")
	_, err = newFakeBroker(topic()).swapper("another").Switch(t.Context(), record.InPlace, "")
	require.ErrorContains(t, err, "does not exist")
	_, err = newFakeBroker(topic()).swapper(name).Rollback(t.Context())
	require.ErrorContains(t, err, "no record")

	circle := topic()
	circle.Out = []inventory.BindingInfo{{Source: name, Target: "x", ToExchange: true}}
	circle.In = []inventory.BindingInfo{{Source: "x", Target: name, ToExchange: true}}
	_, err = newFakeBroker(circle).swapper(name).Switch(t.Context(), record.Serving, "")
	require.ErrorContains(t, err, "circle")

	taken := newFakeBroker(topic())
	taken.exchanges["taken"] = inventory.Exchange{Name: "taken", Type: "topic"}
	_, err = taken.swapper(name).Switch(t.Context(), record.Serving, "taken")
	require.ErrorContains(t, err, `"taken", which exists already (give another one with --to)`)
	long := topic()
	long.Name = strings.Repeat("x", 101)
	_, err = newFakeBroker(long).swapper(long.Name).Switch(t.Context(), record.Serving, "")
	require.ErrorContains(t, err, "longer than 100 bytes")
	require.Nil(t, taken.record)

	w := newFakeBroker(topic("a"))
	_, err = w.swapper(name).Switch(t.Context(), record.InPlace, "")
	require.NoError(t, err)
	_, err = w.swapper(name).Switch(t.Context(), record.Serving, "")
	require.ErrorContains(t, err, "rollback first")
	s := w.swapper(name)
	s.Plugin = func(context.Context) error { return errPlugin }
	_, err = s.Rollback(t.Context())
	require.ErrorIs(t, err, errPlugin)
	require.Equal(t, "topic", w.exchanges[name].Type, "nothing was changed")
}

// TestPlan_Gap: however many bindings there are, the gap has one for all of them, or for a direct
// exchange one for each key.
func TestPlan_Gap(t *testing.T) {
	for kind, want := range map[string]int{"topic": 3, "fanout": 3, "headers": 3, "direct": 4, "x-random": 502} {
		d := topic()
		d.Arguments["x-delayed-type"] = kind
		for i := range 500 {
			d.Out = append(d.Out, inventory.BindingInfo{Source: name, Target: fmt.Sprint(i), Key: fmt.Sprint(i % 2)})
		}
		require.Len(t, Plan("p", state{former: d, is: &d.Exchange}, Plain).Gap, want, kind)
		require.Len(t, Plan("p", state{former: d, is: &d.Exchange, target: "to"}, Front).Gap, map[bool]int{true: 4, false: 3}[kind == "direct"], kind)
	}
	require.True(t, slices.ContainsFunc(Plan("p", state{former: topic("a")}, Plain).Gap, func(op Op) bool { return op.Verb == Declare }))
}
