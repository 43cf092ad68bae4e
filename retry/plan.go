package retry

import (
	"fmt"
	"math"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A planner decides what becomes of a message that has failed. It does no I/O.
type planner struct {
	policy Policy
	limits delayer.Limits
	chance func() float64 // from 0 up to 1
}

// A decision is to wait, or to park for the reason in park.
type decision struct {
	wait time.Duration
	park string
}

// decide returns the decision for a state that already counts the failure err.
func (p planner) decide(s attempt.State, now time.Time, err error) decision {
	if IsPermanent(err) {
		return decision{park: "the error is permanent"}
	}
	if s.Failures >= p.policy.attempts() {
		return decision{park: fmt.Sprintf("all %d attempts failed", p.policy.attempts())}
	}
	asked, ok := waitOf(err)
	if !ok {
		asked = p.jitter(p.policy.interval(s.Failures))
	}
	wait, err := message.RoundUp(asked, p.limits)
	if err != nil {
		return decision{park: "it cannot wait that long: " + err.Error()}
	}
	if age := now.Sub(s.First); p.policy.MaxAge > 0 && wait > p.policy.MaxAge-age {
		return decision{park: fmt.Sprintf("the next attempt would be later than %v after the first failure", p.policy.MaxAge)}
	}
	return decision{wait: wait}
}

// interval is the wait after a number of failures, before jitter. It never overflows.
func (p Policy) interval(failures int) time.Duration {
	if n := len(p.Intervals); n > 0 {
		return p.Intervals[min(failures, n)-1]
	}
	wait := float64(p.First) + float64(p.Step)*float64(failures-1)
	if p.Factor > 0 {
		wait = float64(p.First) * math.Pow(p.Factor, float64(failures-1))
	}
	longest := time.Duration(math.MaxInt64)
	if p.Cap > 0 {
		longest = p.Cap
	}
	if wait >= float64(longest) {
		return longest
	}
	return time.Duration(wait)
}

// jitter shortens a wait at random.
func (p planner) jitter(wait time.Duration) time.Duration {
	if p.policy.Jitter == 0 {
		return wait
	}
	return wait - time.Duration(p.policy.Jitter*p.chance()*float64(wait))
}
