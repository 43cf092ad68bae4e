package bench

import "math"

// A search looks for the highest rate that passes: by doubling, or halving where the first fails,
// and then by bisection. It ends when the rates that pass and fail are close, or out of probes.
type search struct {
	first    float64 // messages per second
	least    float64 // below which to give up
	most     float64 // above which not to look
	accuracy float64 // when to stop: the ratio of what fails to what passes
	probes   int     // at most so many
}

// run returns the highest rate that passed, or 0. It ends early when probe returns an error.
func (s search) run(probe func(rate float64) (passed bool, err error)) (best float64, err error) {
	failed := math.Inf(1)
	for range s.probes {
		rate, more := s.next(best, failed)
		if !more {
			break
		}
		passed, err := probe(rate)
		switch {
		case err != nil:
			return best, err
		case passed:
			best = rate
		default:
			failed = rate
		}
	}
	return best, nil
}

// next is what to try after best passed (0: nothing did) and failed did not.
func (s search) next(best, failed float64) (rate float64, more bool) {
	switch {
	case best == 0 && math.IsInf(failed, 1):
		return s.first, true
	case best == 0:
		return failed / 2, failed/2 >= s.least
	case math.IsInf(failed, 1):
		return min(2*best, s.most), best < s.most
	}
	return math.Sqrt(best * failed), failed/best > s.accuracy
}
