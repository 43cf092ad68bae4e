package retry

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// A Policy says how long a failed message waits, and when to give up. The waits are listed in
// Intervals, or computed from First: constant, or exponential with Factor.
//
// Without Jitter, listed intervals must be delays of the backend. Computed waits are rounded up to
// its resolution or next tier; with [delayer.Limits].ExactTiers they must be tiers. All waits must be
// within its longest delay. [Open] and [Consume] check it.
//
// It can be part of a service's own YAML.
type Policy struct {
	// Intervals are the waits after the first failure, the second and so on. The last one also
	// holds for all further failures.
	Intervals []time.Duration `yaml:"intervals"`

	// First is the wait after the first failure if Intervals is empty.
	First time.Duration `yaml:"first"`
	// Factor multiplies the wait with each further failure. At least 1. Default: 1.
	Factor float64 `yaml:"factor"`
	// Cap is the longest computed wait. Default: no cap.
	Cap time.Duration `yaml:"cap"`

	// Jitter, 0 to 1, is the part of each wait that is random: with 0.2 a wait of 10s takes 8s to
	// 10s. It spreads messages that failed at the same time. Default: 0.
	Jitter float64 `yaml:"jitter"`

	// MaxAttempts is how often a message is handled, including the first time, before it is parked.
	// Default: len(Intervals) + 1, or 10 without Intervals.
	MaxAttempts int `yaml:"max_attempts"`
	// MaxAge is the longest time between the first failure and the last attempt. Default: no limit.
	MaxAge time.Duration `yaml:"max_age"`
}

const (
	defaultAttempts = 10
	mostAttempts    = 10_000
)

// attempts is MaxAttempts or its default.
func (p Policy) attempts() int {
	switch {
	case p.MaxAttempts != 0:
		return p.MaxAttempts
	case len(p.Intervals) > 0:
		return len(p.Intervals) + 1
	}
	return defaultAttempts
}

// validate checks the policy against the limits of a Delayer.
func (p Policy) validate(l delayer.Limits) error {
	if key, err := p.check(); err != nil {
		return configError(key, err)
	}
	if l.ExactTiers && p.Jitter > 0 {
		return configError("jitter", errors.New("the backend takes its tiers alone, and jitter would miss them"))
	}
	for i, interval := range p.Intervals {
		if err := p.possible(interval, l, p.Jitter == 0); err != nil {
			return configError(fmt.Sprintf("intervals[%d]", i), err)
		}
	}
	for failures := 1; len(p.Intervals) == 0 && failures < p.attempts(); failures++ {
		if err := p.possible(p.interval(failures), l, l.ExactTiers); err != nil {
			return configError(fmt.Sprintf("the wait after failure %d", failures), err)
		}
	}
	return nil
}

// possible returns an error if a backend cannot do an interval, or, with exact, must round it.
func (p Policy) possible(interval time.Duration, l delayer.Limits, exact bool) error {
	wait, err := message.RoundUp(interval, l)
	switch {
	case err != nil:
		return err
	case exact && wait != interval && l.Tiers != nil:
		return fmt.Errorf("%v is none of the backend's tiers %v: the next is %v", interval, l.Tiers, wait)
	case exact && wait != interval:
		return fmt.Errorf("%v is no multiple of the backend's resolution %v: it would take %v", interval, l.Resolution, wait)
	}
	return nil
}

func (p Policy) check() (key string, err error) {
	for i, d := range p.Intervals {
		if d < 0 {
			return fmt.Sprintf("intervals[%d]", i), fmt.Errorf("%v is negative", d)
		}
	}
	for _, d := range [...]struct {
		key   string
		value time.Duration
	}{{"first", p.First}, {"cap", p.Cap}, {"max_age", p.MaxAge}} {
		if d.value < 0 {
			return d.key, fmt.Errorf("%v is negative", d.value)
		}
	}
	computed := p.First != 0 || p.Factor != 0 || p.Cap != 0
	switch {
	case p.MaxAttempts < 0 || p.MaxAttempts > mostAttempts:
		return "max_attempts", fmt.Errorf("%d is not between 1 and %d", p.MaxAttempts, mostAttempts)
	case !(p.Jitter >= 0 && p.Jitter <= 1):
		return "jitter", fmt.Errorf("%v is not between 0 and 1", p.Jitter)
	case len(p.Intervals) > 0 && computed:
		return "intervals", errors.New("first, factor and cap compute intervals: give the one or the other")
	case p.Factor != 0 && !(p.Factor >= 1):
		return "factor", fmt.Errorf("%v is below 1: intervals would shrink", p.Factor)
	case p.First == 0 && computed:
		return "first", errors.New("no first interval: factor and cap need one")
	case p.First == 0 && len(p.Intervals) == 0 && p.MaxAttempts != 1:
		return "intervals", errors.New("no interval, and so no retry: give intervals or first, or max_attempts 1 to park at the first failure")
	}
	return "", nil
}

func configError(key string, cause error) error {
	return &delayer.Error{Op: "open retry policy", Object: key, Kind: delayer.ErrConfig, Cause: cause}
}

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
	if isPermanent(err) {
		return decision{park: "the error is permanent"}
	}
	if s.Failures >= p.policy.attempts() {
		return decision{park: fmt.Sprintf("all %d attempts failed", p.policy.attempts())}
	}
	asked, ok := waitOf(err)
	if !ok {
		asked = p.policy.interval(s.Failures)
		if p.policy.Jitter > 0 {
			asked -= time.Duration(p.policy.Jitter * p.chance() * float64(asked))
		}
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
	wait := float64(p.First) * math.Pow(max(p.Factor, 1), float64(failures-1))
	longest := time.Duration(math.MaxInt64)
	if p.Cap > 0 {
		longest = p.Cap
	}
	if wait >= float64(longest) {
		return longest
	}
	return time.Duration(wait)
}
