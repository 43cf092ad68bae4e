package retry

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer/internal/lib/attempt"
)

// An Attempt describes one run of the handler for a message.
type Attempt struct {
	Number       int       // from 1
	Max          int       // the number of the last attempt
	FirstFailure time.Time // zero at the first attempt
	LastError    string    // of the previous attempt: valid UTF-8, at most 500 bytes
	// UserID is the user-id that the message had at its first attempt. Trust it at the first
	// attempt only: later the broker has not checked it.
	UserID string
}

type infoKey struct{}

// Info returns the attempt of the handler that was given ctx, or a zero Attempt.
func Info(ctx context.Context) Attempt {
	run, _ := ctx.Value(infoKey{}).(*run)
	if run == nil {
		return Attempt{}
	}
	s := run.state
	return Attempt{
		Number: s.Failures + 1, Max: run.planner.policy.attempts(), FirstFailure: s.First, LastError: s.LastError(), UserID: s.Original.UserID,
	}
}

// Last reports whether the message will be parked if the handler that was given ctx fails with err
// now: because err is permanent, or because the attempts, [Policy].MaxAge or the longest delay
// allow no other. Ask shortly before the handler returns, such as to note in a database that the
// work has failed for good: its answer is kept to, however long that takes. It is true for a ctx of
// no handler.
//
// Two cases remain. An attempt that is interrupted, as by a lost connection, is made again after
// all. And a message whose headers leave no room for a retry's is parked although another attempt
// was due.
func Last(ctx context.Context, err error) bool {
	run, _ := ctx.Value(infoKey{}).(*run)
	if run == nil {
		return true
	}
	now := time.Now()
	run.asked.Store(&now)
	_, decision := run.fail(err, "")
	return decision.park != ""
}

// A run is one run of the handler.
type run struct {
	state   attempt.State // before it
	planner planner
	asked   atomic.Pointer[time.Time] // when the handler last asked whether it is the last
}

func (r *Retrier) begin(s attempt.State) *run {
	p, chance := r.planner, r.planner.chance()
	p.chance = func() float64 { return chance } // each question gets the same answer
	return &run{state: s, planner: p}
}

// fail returns the state and the decision after a failure. It is of the time when the handler asked
// what would become of the message, because the answer must stay true.
func (r *run) fail(err error, text string) (attempt.State, decision) {
	now := time.Now()
	if asked := r.asked.Load(); asked != nil {
		now = *asked
	}
	s := r.state.Fail(now, text)
	return s, r.planner.decide(s, now, err)
}
