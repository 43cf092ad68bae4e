package swap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

// change makes the exchange into a shape. The record says begun before anything is deleted, and
// done when all is verified.
func (s *Swapper) change(ctx context.Context, st state, begun record.Record, to Shape, done record.Step) (Result, error) {
	result := Result{To: to}
	if s.onNode(st) {
		err := s.Node.CanReshape(ctx, s.reshaping(st, to))
		// That has waited for the program of a tool that was killed, which goes on to its end. What
		// was read before may be what it has changed since: to bind a front to what was behind it
		// makes messages early.
		if err == nil {
			st, err = s.look(ctx, st.record, st.target)
		}
		if err != nil {
			return result, err
		}
		st.onNode = s.onNode(st)
	}
	st, err := s.prepare(ctx, st, &begun, to)
	if err != nil {
		return result, err
	}
	result.Bindings = len(st.former.Out) + len(st.former.In)
	if err := s.swap(ctx, st, to, &result); err != nil {
		return result, err
	}
	return result, s.Journal.Save(ctx, begun.To(done, s.Now()))
}

// onNode reports whether the node changes the exchange. It cannot make a transient one durable, as
// a front is.
func (s *Swapper) onNode(st state) bool {
	return s.Node != nil && st.is != nil && slices.Contains(inventory.KnownTypes, st.former.DelayedType()) && (st.target == "" || st.former.Durable)
}

// prepare writes the record and does what comes before the gap, until the bindings are those that
// were prepared. After an error the exchange is as it was.
func (s *Swapper) prepare(ctx context.Context, st state, begun *record.Record, to Shape) (state, error) {
	before := st.record
	for range mostLooks {
		begun.Former = st.former
		if err := s.Journal.Save(ctx, *begun); err != nil {
			return st, err
		}
		if err := s.Broker.Perform(ctx, Plan(s.Prefix, st, to).Before); err != nil {
			return st, errors.Join(s.explain(err, st, to), s.undo(ctx, st, before))
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
	st.linked = s.linked(*st, now.Out)
	now = own(now, s.Prefix, st.behindName(s.Prefix))
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
	had := st.former.Out
	if st.isFront() {
		had = st.stray // on the front, those of the exchange behind would make messages early
	}
	undo := Change{After: Undo(s.Prefix, st, missing(had, out))}
	if err := s.repair(ctx, &st, undo, &result); err != nil {
		return s.again(err)
	}
	if before.Step == "" {
		before = record.Record{Former: st.former}.To(record.Prepared, s.Now())
	}
	latest, _ := s.Journal.Record()
	before.Number = latest.Number + 1
	return s.Journal.Save(ctx, before)
}

func (st state) isFront() bool {
	return st.record.Mode == record.Serving && st.record.Step != record.Restored
}

// swap changes the exchange, does what follows, and verifies it. It does not stop when ctx ends.
func (s *Swapper) swap(ctx context.Context, st state, to Shape, result *Result) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishFor)
	defer cancel()
	if !s.Journal.Locked() {
		return s.again(errLost)
	}
	result.Changed = st.is == nil || !sameExchange(*st.is, shaped(s.Prefix, st.former.Exchange, to))
	plan := Plan(s.Prefix, st, to)
	var failed error
	if st.onNode {
		if err := s.Node.Reshape(ctx, s.reshaping(st, to)); err != nil {
			return s.again(err)
		}
	} else {
		began := time.Now()
		failed = s.Broker.Perform(ctx, plan.Gap)
		if result.Changed {
			result.Gap = time.Since(began)
		}
	}
	if failed == nil {
		failed = s.Broker.Perform(ctx, plan.After)
	}
	return s.finish(ctx, st, to, result, failed)
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
		if !s.Journal.Locked() {
			return s.again(errors.Join(failed, errLost))
		}
		plan := Plan(s.Prefix, st, to)
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
	behind, hold := st.behindName(s.Prefix), record.Hold(s.Prefix, s.Exchange)
	for _, b := range refused {
		// What does not exist is what the binding leads to, or comes from: the end that is neither
		// the exchange nor one of ours.
		exists, end := s.Broker.Exists, b.Source
		if slices.Contains([]string{s.Exchange, behind, hold}, b.Source) {
			end = b.Target
			if !b.ToExchange {
				exists = s.Broker.HasQueue
			}
		}
		there, err := exists(ctx, end)
		if err != nil {
			return err
		}
		if there {
			return s.fail("switch", delayer.ErrConflict, "is another tool at work?", "%v: one of them was deleted meanwhile", b)
		}
		switch {
		case b.Source == behind:
			b.Source = s.Exchange
		case b.Target == hold:
			b.Target = s.Exchange
		}
		gone := []inventory.BindingInfo{b}
		result.Gone = union(result.Gone, gone)
		st.former.Out, st.former.In = missing(st.former.Out, gone), missing(st.former.In, gone)
	}
	return nil
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
	st.is, st.linked = &now.Exchange, s.linked(*st, now.Out)
	wanted := append(st.former.Out, st.former.In...)
	if to == Front { // one that can never be had is wanted while the exchange behind lacks any
		behind, err := s.behindNow(ctx, *st)
		if err != nil {
			return false, err
		}
		wanted = slices.Concat(leads(s.Prefix, st.former), st.former.In, missing(st.former.Out, behind))
	}
	lacking := missing(wanted, append(now.Out, now.In...))
	result.Repaired += len(lacking)
	return len(lacking) == 0 && sameExchange(now.Exchange, shaped(s.Prefix, st.former.Exchange, to)), nil
}

// putBack restores the plugin's exchange after the new one was refused.
func (s *Swapper) putBack(ctx context.Context, st state, why error) error {
	latest, _ := s.Journal.Record()
	latest = latest.To(record.Restoring, s.Now())
	latest.Former = st.former
	if err := s.Journal.Save(ctx, latest); err != nil {
		return s.again(errors.Join(why, err))
	}
	var result Result
	st.is = nil
	plan := Plan(s.Prefix, st, Delayed)
	err := s.repair(ctx, &st, plan, &result)
	whole := false
	if err == nil {
		whole, err = s.whole(ctx, &st, Delayed, &result)
	}
	if err != nil || !whole {
		return fmt.Errorf("%w (putting it back failed too: run delayer migrate rollback)", errors.Join(why, err))
	}
	back := latest.To(record.Restored, s.Now())
	if back.Target == "" {
		back = latest.To(record.Prepared, s.Now())
	}
	return fmt.Errorf("%w (the exchange was put back with its bindings: nothing was switched)", errors.Join(why, s.Journal.Save(ctx, back)))
}
