package swap

import (
	"context"
	"slices"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
)

// Prepare writes the record of an exchange that has none. It reports whether it did.
func (s *Swapper) Prepare(ctx context.Context) (bool, error) {
	if _, found := s.Journal.Record(); found {
		return false, nil
	}
	st, err := s.look(ctx, record.Record{})
	if err != nil {
		return false, err
	}
	if err := s.mustBeDelayed("prepare", st); err != nil {
		return false, err
	}
	return true, s.Journal.Save(ctx, record.Record{Former: st.former}.To(record.Prepared, s.Now()))
}

// Switch makes the exchange ours. Where that was begun, it is finished; where it was done, what
// came since is moved.
func (s *Swapper) Switch(ctx context.Context, mode record.Mode) (Result, error) {
	r, _ := s.Journal.Record()
	switch {
	case r.Step == record.Restoring:
		return Result{}, s.fail("switch", delayer.ErrConflict, "run delayer migrate rollback first: it finishes that", "a rollback of it was interrupted")
	case r.Step == record.Switching && r.Mode != mode:
		return Result{}, s.fail("switch", delayer.ErrConflict, "finish that with the same command, or run delayer migrate rollback", "a switch with --mode %s was interrupted", r.Mode)
	case r.Step == record.Switched && r.Mode == record.InPlace && mode == record.Bridging:
		return Result{}, s.fail("switch", delayer.ErrConflict, "run delayer migrate rollback first, and switch then", "it was switched in place")
	}
	st, err := s.look(ctx, r)
	if err != nil {
		return Result{}, err
	}
	if r.Step != record.Switching && r.Step != record.Switched {
		err = s.mustBeDelayed("switch", st)
	}
	to := Plain
	if mode == record.Bridging {
		to = Front
		if err == nil {
			err = s.mustNotCircle(st.former)
		}
	}
	if err == nil {
		err = s.mustBeKnown(st, to)
	}
	if err != nil {
		return Result{}, err
	}
	begun := r.To(record.Switching, s.Now())
	begun.Mode, begun.Bridged = mode, r.Bridged || mode == record.Bridging
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
		if st.is.Type == shaped(st.former.Exchange, shape).Type {
			return nil
		}
	}
	return s.fail("switch", delayer.ErrConflict, "delete it, and run the command again: its bindings are in the record",
		"someone has declared it as type %s, which it never was", st.is.Type)
}

// mustNotCircle refuses a bridge where an exchange that this one leads to leads back: each round
// would go through the bridge's queue, for ever.
func (s *Swapper) mustNotCircle(d inventory.Definition) error {
	for _, b := range d.Out {
		if b.ToExchange && slices.ContainsFunc(d.In, func(in inventory.BindingInfo) bool { return in.Source == b.Target }) {
			return s.fail("switch", delayer.ErrConflict, "use --mode in-place, or remove one of the two bindings",
				"exchange %q is bound to it and it to that: messages would circle through the bridge", b.Target)
		}
	}
	return nil
}

// Rollback makes the exchange the plugin's again, with its bindings of now.
func (s *Swapper) Rollback(ctx context.Context) (Result, error) {
	r, found := s.Journal.Record()
	if !found {
		return Result{}, s.fail("rollback", delayer.ErrConflict, "delayer migrate status shows what there is", "it has no record: nothing was switched, or it was retired")
	}
	st, err := s.look(ctx, r)
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
	if r.Bridged {
		done = record.Restored
	}
	return s.change(ctx, st, r.To(record.Restoring, s.Now()), Delayed, done)
}
