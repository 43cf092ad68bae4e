package report

import (
	"math"
	"strconv"
	"strings"
)

// A scale maps values to 0…1.
type scale struct {
	low, high float64
	log       bool
}

// logScale spans the values, rounded outwards to 1, 2 or 5 times a power of ten. Values up to floor
// lie on its edge.
func logScale(values []float64, floor float64) scale {
	s := scale{low: math.Inf(1), high: math.Inf(-1), log: true}
	for _, v := range values {
		v = max(v, floor)
		s.low, s.high = min(s.low, v), max(s.high, v)
	}
	if len(values) == 0 {
		return scale{low: floor, high: 10 * floor, log: true}
	}
	grid := preferred(s.low, s.high, 1, 2, 5)
	s.low, s.high = grid[0], grid[len(grid)-1]
	return s
}

// preferred returns factors times powers of ten, at least two, that enclose low and high.
func preferred(low, high float64, factors ...float64) []float64 {
	const exact = 1e-9
	var out []float64
	for e := math.Floor(math.Log10(low)) - 1; ; e++ {
		for _, factor := range factors {
			v := factor * math.Pow(10, e)
			if v <= low*(1+exact) {
				out = out[:0]
			}
			out = append(out, v)
			if v >= high*(1-exact) && len(out) > 1 {
				return out
			}
		}
	}
}

// linear spans 0 to a round number at or above the largest value.
func linear(values []float64) scale {
	highest := 0.0
	for _, v := range values {
		highest = max(highest, v)
	}
	if highest <= 0 {
		return scale{high: 1}
	}
	step := roundStep(highest)
	return scale{high: step * math.Ceil(highest/step-1e-9)}
}

// at maps v; values outside lie on the edge.
func (s scale) at(v float64) float64 {
	if s.log {
		v = max(v, s.low)
		return clamp(math.Log(v/s.low) / math.Log(s.high/s.low))
	}
	return clamp((v - s.low) / (s.high - s.low))
}

func clamp(v float64) float64 { return min(1, max(0, v)) }

// ticks are round values on the scale, from low to high.
func (s scale) ticks() []float64 {
	var out []float64
	if s.log {
		factors := []float64{1}
		if s.high/s.low < 100 {
			factors = []float64{1, 2, 5}
		}
		for _, v := range preferred(s.low, s.high, factors...) {
			if v >= s.low*0.999 && v <= s.high*1.001 {
				out = append(out, v)
			}
		}
		return out
	}
	step := roundStep(s.high)
	for i := 0; float64(i)*step <= s.high*1.001; i++ {
		out = append(out, float64(i)*step)
	}
	return out
}

// roundStep is a round step that divides 0 to highest into four to eight.
func roundStep(highest float64) float64 {
	raw := highest / 4
	decade := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, factor := range []float64{5, 2, 1} {
		if factor*decade <= raw {
			return factor * decade
		}
	}
	return decade
}

// millis names a tick of a scale in milliseconds.
func millis(v float64) string {
	if v >= 1000 {
		return plain(v/1000) + " s"
	}
	return plain(v) + " ms"
}

// plain writes a round number as briefly as it can.
func plain(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', -1, 32) + " M"
	case v >= 1e3:
		return strconv.FormatFloat(v/1e3, 'f', -1, 32) + " k"
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'g', 6, 32), ".0")
}
