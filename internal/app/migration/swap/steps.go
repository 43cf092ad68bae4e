package swap

import (
	"cmp"
	"context"
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

// Prepare writes the record of an exchange that has none. It reports whether it did.
func (s *Swapper) Prepare(ctx context.Context) (bool, error) {
	if _, found := s.Journal.Record(); found {
		return false, nil
	}
	st, err := s.look(ctx, record.Record{}, "")
	if err != nil {
		return false, err
	}
	if err := s.mustBeDelayed("prepare", st); err != nil {
		return false, err
	}
	return true, s.Journal.Save(ctx, record.Record{Former: st.former}.To(record.Prepared, s.Now()))
}

// DefaultTarget is the exchange that consumers bind to after a switch to serve.
func DefaultTarget(exchange string) string { return exchange + ".delivery" }

// Switch makes the exchange ours. Where that was begun, it is finished; where it was done, what
// came since is moved. target, of mode Serving, is the exchange that gets its bindings: "" is the
// one of the record, or else DefaultTarget.
func (s *Swapper) Switch(ctx context.Context, mode record.Mode, target string) (Result, error) {
	r, _ := s.Journal.Record()
	switch {
	case r.Step == record.Restoring:
		return Result{}, s.fail("switch", delayer.ErrConflict, "run delayer migrate rollback first: it finishes that", "a rollback of it was interrupted")
	case r.Step == record.Switching && r.Mode != mode:
		return Result{}, s.fail("switch", delayer.ErrConflict, "finish that with the same command, or run delayer migrate rollback", "a switch with --mode %s was interrupted", r.Mode)
	case r.Step == record.Switched && r.Mode != mode:
		return Result{}, s.fail("switch", delayer.ErrConflict, "run delayer migrate rollback first, and switch then", "it was switched with --mode %s", r.Mode)
	case r.Target != "" && mode == record.InPlace:
		return Result{}, s.fail("switch", delayer.ErrConflict, "run delayer migrate rollback again first: it removes that", "what delayer serve needed for it is still there")
	case r.Target != "" && target != "" && target != r.Target:
		return Result{}, s.fail("switch", delayer.ErrConflict, "leave out --to", "its target is exchange %q already", r.Target)
	}
	target = cmp.Or(r.Target, target, DefaultTarget(s.Exchange))
	if mode != record.Serving {
		target = r.Target
	}
	st, err := s.look(ctx, r, target)
	if err != nil {
		return Result{}, err
	}
	if r.Step != record.Switching && r.Step != record.Switched {
		err = s.mustBeDelayed("switch", st)
	}
	to := Plain
	if mode == record.Serving {
		to = Front
		if err == nil {
			err = s.mayServe(ctx, st)
		}
	}
	if err == nil {
		err = s.mustBeKnown(st, to)
	}
	if err != nil {
		return Result{}, err
	}
	begun := r.To(record.Switching, s.Now())
	begun.Mode, begun.Target = mode, target
	return s.change(ctx, st, begun, to, record.Switched)
}

// mustBeDelayed: the migration begins with an exchange of the plugin.
func (s *Swapper) mustBeDelayed(op string, st state) error {
	switch {
	case st.is == nil:
		return s.fail(op, delayer.ErrUnroutable, "delayer migrate assess lists the exchanges of the plugin; are broker and vhost right?", "it does not exist")
	case !st.is.Delayed():
		return s.fail(op, delayer.ErrConflict, "only an exchange of type x-delayed-message is migrated", "its type is %s", st.is.Type)
	}
	return nil
}

// mustBeKnown refuses an exchange that someone else declared while a change was interrupted.
func (s *Swapper) mustBeKnown(st state, to Shape) error {
	if st.is == nil {
		return nil
	}
	for _, shape := range []Shape{to, Delayed, Plain, Front} {
		if st.is.Type == shaped(s.Prefix, st.former.Exchange, shape).Type {
			return nil
		}
	}
	return s.fail("switch", delayer.ErrConflict, "delete it, and run the command again: its bindings are in the record",
		"someone has declared it as type %s, which it never was", st.is.Type)
}

// mayServe refuses what serve would, a target that is something else already, and a circle: an
// exchange that this one leads to leads back, so each round would go through serve's queue, for
// ever.
func (s *Swapper) mayServe(ctx context.Context, st state) error {
	if err := entry.Check([]entry.Spec{st.spec()}); err != nil {
		return s.fail("switch", delayer.ErrConflict, "use --mode in-place, or another --to", "delayer serve refuses it: %w", err)
	}
	for _, b := range st.former.Out {
		if b.ToExchange && slices.ContainsFunc(st.former.In, func(in inventory.BindingInfo) bool { return in.Source == b.Target }) {
			return s.fail("switch", delayer.ErrConflict, "use --mode in-place, or remove one of the two bindings",
				"exchange %q is bound to it and it to that: messages would circle through delayer serve", b.Target)
		}
	}
	if st.record.Target != "" {
		return nil
	}
	there, err := s.Broker.Exists(ctx, st.target)
	if err == nil && there {
		err = s.fail("switch", delayer.ErrConflict, "give another one with --to", "its bindings would go to exchange %q, which exists already", st.target)
	}
	return err
}

// Settle ends the migration of an exchange of serve: the plugin has nothing left for it, so a
// direct exchange needs no bindings beside its alternate exchange. Others stay as they are.
func (s *Swapper) Settle(ctx context.Context) error {
	r, _ := s.Journal.Record()
	if r.Target == "" || r.Spec().Type != amqp091.ExchangeDirect {
		return nil
	}
	out, _, err := s.API.Bindings(ctx, s.Exchange)
	if err != nil {
		return err
	}
	queue := entry.NamesOf(s.Prefix, s.Exchange).Queue
	out = slices.DeleteFunc(out, func(b inventory.BindingInfo) bool { return b.ToExchange || b.Target != queue })
	return s.Broker.Perform(ctx, each(Unbind, out))
}

// Rollback makes the exchange the plugin's again, with its bindings of now.
func (s *Swapper) Rollback(ctx context.Context) (Result, error) {
	r, found := s.Journal.Record()
	if !found {
		return Result{}, s.fail("rollback", delayer.ErrConflict, "delayer migrate status shows what there is", "it has no record: nothing was switched, or it was retired")
	}
	st, err := s.look(ctx, r, r.Target)
	if err != nil {
		return Result{}, err
	}
	if r.Step == record.Prepared || r.Step == record.Restored {
		result := Result{To: Delayed, Bindings: len(st.former.Out) + len(st.former.In)}
		return result, s.mustBeDelayed("rollback", st)
	}
	if err := s.mustBeKnown(st, Delayed); err != nil {
		return Result{}, err
	}
	if s.Plugin != nil {
		if err := s.Plugin(ctx); err != nil {
			return Result{}, err
		}
	}
	done := record.Prepared
	if r.Target != "" {
		done = record.Restored
	}
	return s.change(ctx, st, r.To(record.Restoring, s.Now()), Delayed, done)
}
