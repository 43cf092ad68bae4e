package objects

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer"
)

// PolicyWatchConfig is what a PolicyWatch needs.
type PolicyWatchConfig struct {
	Backend string
	Logger  *slog.Logger
	Every   time.Duration // the pause between two looks, plus up to half of it at random; 0: 5 s

	// Look returns nil if no policy does harm, ErrConflict if one does, and any other error if that
	// is unknown.
	Look func(context.Context) error

	Observer delayer.Observer // is told of faults
}

const (
	lookEvery   = 5 * time.Second
	lookTimeout = 30 * time.Second // for one look
)

// A PolicyWatch looks for policies again and again. It knows whether delayed messages may be
// published.
type PolicyWatch struct {
	cfg   PolicyWatchConfig
	fault atomic.Pointer[delayer.Error]
}

// NewPolicyWatch returns a PolicyWatch that has not looked yet.
func NewPolicyWatch(cfg PolicyWatchConfig) *PolicyWatch {
	cfg.Every = cmp.Or(cfg.Every, lookEvery)
	return &PolicyWatch{cfg: cfg}
}

// Fault returns nil when delayed messages may be published. Otherwise it returns an error of kind
// ErrConflict that names the object and the policy's key. All callers get the same error: copy it
// before you change it. A nil PolicyWatch knows of no fault.
func (w *PolicyWatch) Fault() *delayer.Error {
	if w == nil {
		return nil
	}
	return w.fault.Load()
}

// Run looks for policies until ctx ends, while busy returns true or a fault stands.
func (w *PolicyWatch) Run(ctx context.Context, busy func() bool) {
	pause := func() time.Duration { return w.cfg.Every + rand.N(w.cfg.Every/2) }
	next := time.NewTimer(pause())
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			w.tell(w.Fault(), nil) // nobody asks any more
			return
		case <-next.C:
			if busy() || w.Fault() != nil {
				within, cancel := context.WithTimeout(ctx, lookTimeout)
				w.learn(w.cfg.Look(within))
				cancel()
			}
			next.Reset(pause())
		}
	}
}

// verdict returns the fault that stands after an answer. A fault stands until an answer finds
// nothing. An error that is no ErrConflict says nothing, and changes nothing.
func verdict(stands *delayer.Error, answer error) *delayer.Error {
	var found *delayer.Error
	if answer == nil || errors.Is(answer, delayer.ErrConflict) && errors.As(answer, &found) {
		return found
	}
	return stands
}

// learn takes an answer, and logs where that changes whether messages may be published.
func (w *PolicyWatch) learn(answer error) {
	was := w.Fault()
	now := verdict(was, answer)
	w.fault.Store(now)
	switch {
	case was == nil && now != nil:
		w.cfg.Logger.Error("delayed messages would be early or lost; none is published until this is fixed", "error", now)
		w.tell(was, now)
	case was != nil && now == nil:
		w.cfg.Logger.Info("the policy is gone; delayed messages are published again", "backend", w.cfg.Backend)
		w.tell(was, now)
	case answer != nil && !errors.Is(answer, delayer.ErrConflict):
		w.cfg.Logger.Debug("cannot look for policies", "backend", w.cfg.Backend, "error", answer)
	}
}

// tell tells the Observer of a change. An error that is a nil pointer would not be nil.
func (w *PolicyWatch) tell(was, now *delayer.Error) {
	if w.cfg.Observer.PolicyFault == nil || was == now {
		return
	}
	event := delayer.PolicyFaultEvent{Backend: w.cfg.Backend}
	if was != nil {
		event.Was = was
	}
	if now != nil {
		event.Now = now
	}
	w.cfg.Observer.PolicyFault(event)
}
