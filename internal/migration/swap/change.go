package swap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/migration/inventory"
	"github.com/delayer-go/delayer/internal/migration/record"
)

// change makes the exchange into a shape. The record says begun before anything is deleted, and
// done when all is verified.
func (s *Swapper) change(ctx context.Context, st state, begun record.Record, to Shape, done record.Step) (Result, error) {
	result := Result{From: shapeOf(st), To: to}
	st.onNode = s.Node != nil && st.is != nil && routesAsKnown(st.former.DelayedType())
	if st.onNode {
		if err := s.Node.CanReshape(ctx, s.reshaping(st, to)); err != nil {
			return result, err
		}
	}
	st, err := s.prepare(ctx, st, &begun, to)
	if err != nil {
		return result, err
	}
	result.Bindings = len(st.former.Out) + len(st.former.In)
	if err := s.swap(ctx, st, to, &result); err != nil {
		return result, err
	}
	return result, s.Keeper.Save(ctx, begun.To(done, s.Now()))
}

// shapeOf is what an exchange is now, for people.
func shapeOf(st state) Shape {
	switch {
	case st.is == nil:
		return "missing"
	case st.is.Delayed():
		return Delayed
	case st.record.Mode == record.Bridging:
		return Front
	}
	return Plain
}

// prepare writes the record and does what comes before the gap, until the bindings are those that
// were prepared. After an error the exchange is as it was.
func (s *Swapper) prepare(ctx context.Context, st state, begun *record.Record, to Shape) (state, error) {
	before := st.record
	for range mostLooks {
		begun.Former = st.former
		if err := s.Keeper.Save(ctx, *begun); err != nil {
			return st, err
		}
		if err := s.Broker.Perform(ctx, Plan(s.request(st, to)).Before); err != nil {
			return st, errors.Join(explainExclusive(err, to, st.onNode), s.undo(ctx, st, before))
		}
		same, err := s.refresh(ctx, &st)
		if err != nil || same {
			return st, err
		}
		begun.Number++
	}
	return st, s.fail("switch", nil, "try again when fewer applications bind their queues", "its bindings change all the time")
}

// refresh reads the bindings again, and reports whether they are the same.
func (s *Swapper) refresh(ctx context.Context, st *state) (same bool, err error) {
	if st.is == nil {
		return true, nil
	}
	var now inventory.Definition
	now.Exchange = *st.is
	if now.Out, now.In, err = s.API.Bindings(ctx, s.Exchange); err != nil {
		return false, err
	}
	st.linked = s.linked(now.Out)
	now = own(now, s.Prefix)
	out, in := missing(now.Out, st.former.Out), missing(now.In, st.former.In)
	st.former.Out, st.former.In = union(st.former.Out, out), union(st.former.In, in)
	return len(out)+len(in) == 0, nil
}

// undo leaves an exchange that was not touched with the record that it had.
func (s *Swapper) undo(ctx context.Context, st state, before record.Record) error {
	if st.is == nil || before.Step == record.Switching || before.Step == record.Restoring {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishFor)
	defer cancel()
	out, _, err := s.API.Bindings(ctx, s.Exchange)
	if err != nil {
		return s.again(err)
	}
	var result Result
	undo := Change{After: Undo(s.request(st, Plain), missing(st.had(), out))}
	if err := s.repair(ctx, &st, undo, &result); err != nil {
		return s.again(err)
	}
	if before.Step == "" {
		before = record.Record{Former: st.former}.To(record.Prepared, s.Now())
	}
	latest, _ := s.Keeper.Record()
	before.Number = latest.Number + 1
	return s.Keeper.Save(ctx, before)
}

// had are the bindings that the exchange itself had when it was looked at. Those of a front are at the
// exchange behind: on the front they would make messages early.
func (st state) had() []inventory.Binding {
	if st.isFront() {
		return st.stray
	}
	return st.former.Out
}

// isFront reports whether the exchange leads to a bridge.
func (st state) isFront() bool {
	return st.record.Mode == record.Bridging && st.record.Step != record.Restored
}

// swap changes the exchange, does what follows, and verifies it. It does not stop when ctx ends.
func (s *Swapper) swap(ctx context.Context, st state, to Shape, result *Result) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishFor)
	defer cancel()
	if !s.Keeper.Locked() {
		return s.again(errLost)
	}
	result.Changed = st.is == nil || !sameExchange(*st.is, shaped(st.former.Exchange, to))
	plan := Plan(s.request(st, to))
	failed := s.exchange(ctx, st, to, plan.Gap, result)
	if failed != nil && st.onNode {
		return s.again(failed)
	}
	if failed == nil {
		failed = s.Broker.Perform(ctx, plan.After)
	}
	return s.finish(ctx, st, to, result, failed)
}

// exchange makes the new exchange of the old one: on the node, or by the operations of the gap.
func (s *Swapper) exchange(ctx context.Context, st state, to Shape, gap []Op, result *Result) error {
	if st.onNode {
		return s.Node.Reshape(ctx, s.reshaping(st, to))
	}
	began := time.Now()
	err := s.Broker.Perform(ctx, gap)
	if result.Changed {
		result.Gap = time.Since(began)
	}
	return err
}

// again tells that the same command finishes what was begun.
func (s *Swapper) again(err error) error {
	return fmt.Errorf("%w (run the same command again: it goes on from the record; delayer migrate rollback undoes it)", err)
}

// finish makes what is missing, one operation at a time. An exchange that cannot be had in its new
// shape is put back.
func (s *Swapper) finish(ctx context.Context, st state, to Shape, result *Result, failed error) error {
	for range mostRepairs {
		whole, err := s.whole(ctx, &st, to, result)
		if err != nil {
			return s.again(errors.Join(failed, err))
		}
		if whole && failed == nil {
			return nil
		}
		if !s.Keeper.Locked() {
			return s.again(errors.Join(failed, errLost))
		}
		plan := Plan(s.request(st, to))
		err = s.repair(ctx, &st, plan, result)
		if failed = err; err != nil && to != Delayed && st.is == nil {
			return s.putBack(ctx, st, err)
		}
	}
	return s.again(errors.Join(failed, s.fail("switch", nil, "", "what the management API shows is not what was declared")))
}

// repair does a plan one operation at a time. Bindings whose other end is gone are left out.
func (s *Swapper) repair(ctx context.Context, st *state, plan Change, result *Result) error {
	refused, err := s.Broker.Repair(ctx, append(append(plan.Before, plan.Gap...), plan.After...))
	if err != nil {
		return err
	}
	for _, b := range refused {
		gone, err := s.otherEndGone(ctx, b)
		if err != nil {
			return err
		}
		if !gone {
			return s.fail("switch", delayer.ErrConflict, "is another tool at work?", "%s: one of them was deleted meanwhile", describe(b))
		}
		s.forget(st, b, result)
	}
	return nil
}

// otherEndGone reports whether what a binding leads to, or comes from, does not exist: the end that
// is neither the exchange nor one of ours.
func (s *Swapper) otherEndGone(ctx context.Context, b inventory.Binding) (bool, error) {
	ours := []string{s.Exchange, record.Behind(s.Prefix, s.Exchange), record.Hold(s.Prefix, s.Exchange)}
	exists := func() (bool, error) { return s.Broker.Exists(ctx, b.Source) }
	if slices.Contains(ours, b.Source) {
		exists = func() (bool, error) { return s.Broker.HasQueue(ctx, b.Target) }
		if b.ToExchange {
			exists = func() (bool, error) { return s.Broker.Exists(ctx, b.Target) }
		}
	}
	there, err := exists()
	return err == nil && !there, err
}

// forget leaves out a binding.
func (s *Swapper) forget(st *state, b inventory.Binding, result *Result) {
	switch {
	case b.Source == record.Behind(s.Prefix, s.Exchange):
		b.Source = s.Exchange
	case b.Target == record.Hold(s.Prefix, s.Exchange):
		b.Target = s.Exchange
	}
	gone := []inventory.Binding{b}
	result.Gone = union(result.Gone, gone)
	st.former.Out, st.former.In = missing(st.former.Out, gone), missing(st.former.In, gone)
}

// whole verifies the exchange and its bindings against the management API. It sets what is there.
func (s *Swapper) whole(ctx context.Context, st *state, to Shape, result *Result) (bool, error) {
	st.is = nil
	there, err := s.Broker.Exists(ctx, s.Exchange)
	if err != nil || !there {
		return false, err
	}
	now, err := s.API.Definition(ctx, s.Exchange)
	if err != nil {
		return false, err
	}
	st.is, st.linked = &now.Exchange, s.linked(now.Out)
	wanted := append(st.former.Out, st.former.In...)
	if to == Front {
		if wanted, err = s.frontWants(ctx, *st); err != nil {
			return false, err
		}
	}
	lacking := missing(wanted, append(now.Out, now.In...))
	result.Repaired += len(lacking)
	return len(lacking) == 0 && sameExchange(now.Exchange, shaped(st.former.Exchange, to)), nil
}

// frontWants are the bindings that a front must have; one of them can never be had while the
// exchange behind lacks any.
func (s *Swapper) frontWants(ctx context.Context, st state) ([]inventory.Binding, error) {
	have, err := s.behindNow(ctx)
	wanted := append(bridgeBindings(s.Prefix, st.former), st.former.In...)
	return append(wanted, missing(st.former.Out, have)...), err
}

// putBack restores the plugin's exchange after the new one was refused.
func (s *Swapper) putBack(ctx context.Context, st state, why error) error {
	latest, _ := s.Keeper.Record()
	latest = latest.To(record.Restoring, s.Now())
	latest.Former = st.former
	if err := s.Keeper.Save(ctx, latest); err != nil {
		return s.again(errors.Join(why, err))
	}
	var result Result
	st.is = nil
	plan := Plan(s.request(st, Delayed))
	err := s.repair(ctx, &st, plan, &result)
	whole := false
	if err == nil {
		whole, err = s.whole(ctx, &st, Delayed, &result)
	}
	if err != nil || !whole {
		return fmt.Errorf("%w (putting it back failed too: run delayer migrate rollback)", errors.Join(why, err))
	}
	back := latest.To(record.Restored, s.Now())
	if !back.Bridged {
		back = latest.To(record.Prepared, s.Now())
	}
	return fmt.Errorf("%w (the exchange was put back with its bindings: nothing was switched)", errors.Join(why, s.Keeper.Save(ctx, back)))
}
