package bench

import (
	"math"
	"slices"
	"time"
)

// Lateness is a distribution of lateness in milliseconds: exact, by nearest rank, from raw samples.
type Lateness struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// DelayLateness is the lateness of the messages with one delay.
type DelayLateness struct {
	DelayMS  float64  `json:"delay_ms"`
	Count    int      `json:"count"` // arrived
	Lateness Lateness `json:"lateness_ms"`
}

// Counts says what became of the messages, counted by id.
type Counts struct {
	Published  int `json:"published"`  // promised: Publish returned nil
	Delivered  int `json:"delivered"`  // arrived at least once
	Lost       int `json:"lost"`       // promised, never arrived
	Duplicated int `json:"duplicated"` // arrived more than once
	Early      int `json:"early"`      // arrived before publish time + delay
	Failed     int `json:"failed"`     // Publish returned an error
}

func count(samples []Sample) Counts {
	var c Counts
	for _, s := range samples {
		c.Published += one(s.Published())
		c.Delivered += one(s.Copies > 0)
		c.Lost += one(s.Lost())
		c.Duplicated += one(s.Copies > 1)
		c.Early += one(s.Early())
		c.Failed += one(s.Err != nil)
	}
	return c
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// latenessOf is all zeros if none of the samples arrived.
func latenessOf(samples []Sample) Lateness {
	late := sortedLateness(samples)
	return Lateness{
		Min: milliseconds(percentile(late, 0)),
		P50: milliseconds(percentile(late, 50)),
		P90: milliseconds(percentile(late, 90)),
		P99: milliseconds(percentile(late, 99)),
		Max: milliseconds(percentile(late, 100)),
	}
}

// sortedLateness is that of the samples that arrived.
func sortedLateness(samples []Sample) []time.Duration {
	late := make([]time.Duration, 0, len(samples))
	for _, s := range samples {
		if s.Copies > 0 {
			late = append(late, s.Lateness())
		}
	}
	slices.Sort(late)
	return late
}

// latenessByDelay groups the samples that arrived by their delay, shortest first.
func latenessByDelay(samples []Sample) []DelayLateness {
	groups := map[time.Duration][]Sample{}
	for _, s := range samples {
		if s.Copies > 0 {
			groups[s.Delay] = append(groups[s.Delay], s)
		}
	}
	out := make([]DelayLateness, 0, len(groups))
	for delay, group := range groups {
		out = append(out, DelayLateness{milliseconds(delay), len(group), latenessOf(group)})
	}
	slices.SortFunc(out, func(a, b DelayLateness) int { return int(math.Copysign(1, a.DelayMS-b.DelayMS)) })
	return out
}

// percentile is the smallest of the sorted values that at least p per cent do not exceed; 0 of
// none.
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// publishRate is the promised messages per second, from the first intended Publish to the last
// return.
func publishRate(samples []Sample) float64 {
	var first, last time.Duration
	published := 0
	for _, s := range samples {
		if !s.Published() {
			continue
		}
		if published == 0 || s.Intended < first {
			first = s.Intended
		}
		last = max(last, s.Returned)
		published++
	}
	if last <= first {
		return 0
	}
	return float64(published) / (last - first).Seconds()
}

// milliseconds keeps three decimals: the clock's microseconds, without the noise of binary
// fractions.
func milliseconds(d time.Duration) float64 { return math.Round(float64(d)/1e3) / 1e3 }
