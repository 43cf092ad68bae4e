package bench

import (
	"slices"
	"time"
)

// percents are those of a run's Distribution: enough for a picture on a logarithmic scale.
var percents = []float64{0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.99, 100}

const (
	// mostPoints is how many messages a picture shows.
	mostPoints = 400
	// mostSteps is how many different delays a table may have; with more of them it says nothing.
	mostSteps = 60
)

// summarise turns raw samples into a run's figures. Lateness is over those that counted accepts;
// nil is all.
func summarise(samples []Sample, counted func(Sample) bool) Run {
	chosen := samples
	if counted != nil {
		chosen = slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return !counted(s) })
	}
	run := Run{
		Counts:         count(samples),
		PublishPerS:    publishRate(chosen),
		Lateness:       latenessOf(chosen),
		LatenessByStep: latenessByDelay(chosen),
		Samples:        samples,
	}
	run.Distribution = distributionOf(chosen)
	if len(run.LatenessByStep) > mostSteps {
		run.LatenessByStep = nil
	}
	run.faults(samples)
	return run
}

// faults notes by how much messages were early, and the first error.
func (r *Run) faults(samples []Sample) {
	for _, s := range samples {
		r.EarlyByMS = max(r.EarlyByMS, milliseconds(s.EarlyBy()))
		if s.Err != nil && r.Error == "" {
			r.Error = s.Err.Error()
		}
	}
}

// distributionOf is nil if none of the samples arrived.
func distributionOf(samples []Sample) []Quantile {
	late := sortedLateness(samples)
	if len(late) == 0 {
		return nil
	}
	out := make([]Quantile, len(percents))
	for i, p := range percents {
		out[i] = Quantile{p, milliseconds(percentile(late, p))}
	}
	return out
}

// pointsOf are at most mostPoints of the samples that arrived, evenly chosen, the first and the
// last among them.
func pointsOf(samples []Sample) []Point {
	var arrived []Sample
	for _, s := range samples {
		if s.Copies > 0 {
			arrived = append(arrived, s)
		}
	}
	if len(arrived) == 0 {
		return nil
	}
	began := slices.MinFunc(arrived, func(a, b Sample) int { return int(a.Sent - b.Sent) }).Sent
	n := min(len(arrived), mostPoints)
	out := make([]Point, n)
	for i := range out {
		s := arrived[i*(len(arrived)-1)/max(1, n-1)]
		out[i] = Point{DueMS: sinceMS(began, s.Due()), ArrivedMS: sinceMS(began, s.Arrived)}
	}
	return out
}

func sinceMS(from, to time.Duration) float64 { return milliseconds(to - from) }
