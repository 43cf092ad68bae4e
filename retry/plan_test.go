package retry

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/once"
)

var (
	errTest = errors.New("broken")
	start   = time.UnixMilli(1_700_000_000_000)

	ladder = delayer.Limits{Max: 24 * time.Hour, Resolution: time.Second}
	tiers  = delayer.Limits{
		Max: time.Hour, Resolution: time.Second, Tiers: []time.Duration{3 * time.Second, 10 * time.Second, time.Minute, time.Hour},
	}
)

func intervals(list ...time.Duration) Policy { return Policy{Intervals: list} }

// notPermanent is an error that says that another attempt may help, whatever it wraps.
type notPermanent struct{ error }

func (n notPermanent) Error() string { return "busy" }
func (n notPermanent) Unwrap() error { return n.error }
func (notPermanent) Permanent() bool { return false }

// waits are those of a message that always fails, and why it is parked in the end.
func waits(p planner, err error) (list []time.Duration, reason string) {
	s, now := attempt.State{}, start
	for {
		s = s.Fail(now, err.Error())
		d := p.decide(s, now, err)
		if d.park != "" {
			return list, d.park
		}
		list = append(list, d.wait)
		now = now.Add(d.wait)
	}
}

func TestPlan_Waits(t *testing.T) {
	const s, m = time.Second, time.Minute
	_, noID := once.ID(amqp091.Delivery{})
	for name, c := range map[string]struct {
		policy Policy
		limits delayer.Limits
		err    error
		want   []time.Duration
		park   string
	}{
		"the seed's":              {intervals(3*s, 10*s, 30*s), ladder, errTest, []time.Duration{3 * s, 10 * s, 30 * s}, "all 4 attempts failed"},
		"fewer attempts":          {Policy{Intervals: []time.Duration{3 * s, 10 * s}, MaxAttempts: 2}, ladder, errTest, []time.Duration{3 * s}, "all 2 attempts"},
		"more attempts":           {Policy{Intervals: []time.Duration{3 * s, 10 * s}, MaxAttempts: 5}, ladder, errTest, []time.Duration{3 * s, 10 * s, 10 * s, 10 * s}, "all 5"},
		"no id":                   {intervals(3*s, 10*s), ladder, fmt.Errorf("handler: %w", noID), nil, "the error is permanent"},
		"one attempt":             {Policy{MaxAttempts: 1}, ladder, errTest, nil, "all 1 attempts"},
		"constant":                {Policy{First: 2 * s, MaxAttempts: 3}, ladder, errTest, []time.Duration{2 * s, 2 * s}, "all 3"},
		"exponential":             {Policy{First: s, Factor: 2, MaxAttempts: 5}, ladder, errTest, []time.Duration{s, 2 * s, 4 * s, 8 * s}, "all 5"},
		"capped":                  {Policy{First: s, Factor: 3, Cap: 5 * s, MaxAttempts: 5}, ladder, errTest, []time.Duration{s, 3 * s, 5 * s, 5 * s}, "all 5"},
		"jitter":                  {Policy{First: 10 * s, Jitter: 0.4, MaxAttempts: 2}, ladder, errTest, []time.Duration{8 * s}, "all 2"},
		"resolution":              {Policy{First: s, Factor: 1.5, MaxAttempts: 3}, ladder, errTest, []time.Duration{s, 2 * s}, "all 3"},
		"next tier":               {Policy{First: 3 * s, Factor: 2, MaxAttempts: 4}, tiers, errTest, []time.Duration{3 * s, 10 * s, m}, "all 4"},
		"default attempts":        {Policy{First: s}, ladder, errTest, []time.Duration{s, s, s, s, s, s, s, s, s}, "all 10"},
		"age":                     {Policy{First: 10 * s, MaxAge: 25 * s}, ladder, errTest, []time.Duration{10 * s, 10 * s}, "later than 25s after"},
		"permanent":               {intervals(3 * s), ladder, Permanent(errTest), nil, "permanent"},
		"permanent within":        {intervals(3 * s), ladder, fmt.Errorf("x: %w", After(Permanent(errTest), s)), nil, "permanent"},
		"permanent, overruled":    {intervals(3 * s), ladder, notPermanent{Permanent(errTest)}, []time.Duration{3 * s}, "all 2"},
		"after, joined":           {intervals(3 * s), ladder, errors.Join(After(errTest, -s), After(After(errTest, 9*s), 5*s), After(errTest, 7*s)), []time.Duration{5 * s}, "all 2"},
		"after, negative outside": {intervals(3 * s), ladder, After(After(errTest, 7*s), -s), []time.Duration{7 * s}, "all 2"},
		"after":                   {intervals(3 * s), ladder, After(errTest, 7*s), []time.Duration{7 * s}, "all 2"},
		"after, at once":          {intervals(3 * s), tiers, After(errTest, 0), []time.Duration{0}, "all 2"},
		"after, negative":         {intervals(3 * s), ladder, After(errTest, -s), []time.Duration{3 * s}, "all 2"},
		"after, next tier":        {intervals(3 * s), tiers, After(errTest, 11*s), []time.Duration{m}, "all 2"},
		"after, too long":         {intervals(3 * s), tiers, After(errTest, 2*time.Hour), nil, "2h0m0s is longer than 1h0m0s"},
		"after, longest":          {intervals(3 * s), ladder, After(errTest, math.MaxInt64), nil, "longest delay"},
		"after, age":              {Policy{Intervals: []time.Duration{3 * s}, MaxAge: m}, ladder, After(errTest, time.Hour), nil, "later than 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, c.policy.validate(c.limits))
			list, reason := waits(planner{c.policy, c.limits, func() float64 { return 0.5 }}, c.err)
			assert.Equal(t, c.want, list)
			assert.Contains(t, reason, c.park)
		})
	}
}

func TestPlan_Forged(t *testing.T) {
	p := planner{Policy{First: time.Second, MaxAge: time.Hour}, ladder, func() float64 { return 0 }}
	for _, failures := range []int{10, 11, attempt.MaxFailures} {
		assert.NotEmpty(t, p.decide(attempt.State{Failures: failures, First: start}, start, errTest).park)
	}
	assert.NotEmpty(t, p.decide(attempt.State{Failures: 1}, start, errTest).park, "no first failure is long ago")
}

func TestErrors_Nil(t *testing.T) {
	require.NoError(t, Permanent(nil))
	require.NoError(t, After(nil, time.Second))
	require.ErrorIs(t, Permanent(errTest), errTest)
	require.ErrorIs(t, After(errTest, 0), errTest)
	require.EqualError(t, After(errTest, 0), "broken")
}

// policies draws policies that a backend may or may not take.
func policies(t *rapid.T) Policy {
	span := rapid.Int64Range(0, int64(time.Hour))
	p := Policy{
		MaxAttempts: rapid.IntRange(0, 1000).Draw(t, "attempts"),
		Jitter:      rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(t, "jitter"),
		MaxAge:      time.Duration(rapid.SampledFrom([]int64{0, int64(time.Minute), int64(time.Hour)}).Draw(t, "age")),
	}
	switch rapid.SampledFrom([]string{"list", "constant", "exponential"}).Draw(t, "kind") {
	case "list":
		for _, d := range rapid.SliceOfN(rapid.Int64Range(0, 3600), 1, 5).Draw(t, "intervals") {
			p.Intervals = append(p.Intervals, time.Duration(d)*time.Second)
		}
		return p
	case "exponential":
		p.Factor = rapid.Float64Range(1, 1e300).Draw(t, "factor")
	}
	p.First, p.Cap = time.Duration(1+span.Draw(t, "first")), time.Duration(span.Draw(t, "cap"))
	return p
}

func TestPlan_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fine := delayer.Limits{Max: 1 << 40, Resolution: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "resolution"))}
		l := rapid.SampledFrom([]delayer.Limits{ladder, tiers, fine}).Draw(t, "limits")
		policy := policies(t)
		if policy.validate(l) != nil {
			return
		}
		chance := func() float64 { return rapid.Float64Range(0, 0.999999).Draw(t, "chance") }
		list, reason := waits(planner{policy, l, chance}, errTest)
		assert.Less(t, len(list), policy.attempts(), "never endless")
		assert.NotEmpty(t, reason)
		var total time.Duration
		for i, wait := range list {
			fitting, err := message.RoundUp(wait, l)
			require.NoError(t, err)
			assert.Equal(t, wait, fitting, "a delay of the backend")
			whole := policy.interval(i + 1)
			assert.GreaterOrEqual(t, wait, whole-time.Duration(policy.Jitter*float64(whole))-1)
			most, err := message.RoundUp(whole, l)
			require.NoError(t, err)
			assert.LessOrEqual(t, wait, most)
			total += wait
		}
		if policy.MaxAge > 0 {
			assert.LessOrEqual(t, total, policy.MaxAge)
		}
	})
}

func TestPolicy_Refused(t *testing.T) {
	exact := tiers
	exact.ExactTiers = true
	const s = time.Second
	for name, c := range map[string]struct {
		policy Policy
		limits delayer.Limits
		want   string
	}{
		"nothing":            {Policy{}, ladder, "intervals: invalid configuration: no interval"},
		"no interval":        {Policy{MaxAttempts: 5}, ladder, "no interval"},
		"negative attempts":  {Policy{First: s, MaxAttempts: -1}, ladder, "max_attempts"},
		"too many attempts":  {Policy{First: s, MaxAttempts: math.MaxInt}, ladder, "max_attempts"},
		"negative interval":  {intervals(s, -s), ladder, "intervals[1]: invalid configuration: -1s is negative"},
		"negative first":     {Policy{First: -s}, ladder, "first"},
		"negative cap":       {Policy{First: s, Cap: -s}, ladder, "cap"},
		"negative age":       {Policy{First: s, MaxAge: -s}, ladder, "max_age"},
		"shrinking":          {Policy{First: s, Factor: 0.5}, ladder, "factor"},
		"no number":          {Policy{First: s, Factor: math.NaN()}, ladder, "factor"},
		"jitter":             {Policy{First: s, Jitter: 1.5}, ladder, "jitter"},
		"jitter, no number":  {Policy{First: s, Jitter: math.NaN()}, ladder, "jitter"},
		"both":               {Policy{Intervals: []time.Duration{s}, First: s}, ladder, "the one or the other"},
		"factor alone":       {Policy{Factor: 2}, ladder, "no first interval"},
		"above max":          {intervals(s, 25*time.Hour), ladder, "intervals[1]: invalid configuration: 25h0m0s is longer than 24h0m0s"},
		"grows above max":    {Policy{First: time.Hour, Factor: 2}, ladder, "failure 6"},
		"grows without end":  {Policy{First: time.Hour, Factor: math.MaxFloat64}, ladder, "failure 2"},
		"between resolution": {intervals(1500 * time.Millisecond), ladder, "no multiple of the backend's resolution 1s: it would take 2s"},
		"no tier":            {intervals(4 * s), tiers, "4s is none of the backend's tiers [3s 10s 1m0s 1h0m0s]: the next is 10s"},
		"above tiers":        {intervals(2 * time.Hour), tiers, "2h0m0s is longer than 1h0m0s"},
		"computed, exact":    {Policy{First: 3 * s, Factor: 2}, exact, "failure 2"},
		"jitter, exact":      {Policy{Intervals: []time.Duration{3 * s}, Jitter: 0.1}, exact, "jitter"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.policy.validate(c.limits)
			require.ErrorIs(t, err, delayer.ErrConfig)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestPolicy_YAML(t *testing.T) {
	var service struct {
		Retry Policy `yaml:"retry"`
	}
	require.NoError(t, yaml.Unmarshal([]byte("retry:\n  intervals: [3s, 10s, 30s]\n  max_age: 1h"), &service))
	want := intervals(3*time.Second, 10*time.Second, 30*time.Second)
	want.MaxAge = time.Hour
	assert.Equal(t, want, service.Retry)
}
