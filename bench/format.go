package bench

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// thousands writes 12345 as "12,345".
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

// figure writes a measured value: one decimal below 10, where it can matter, none above.
func figure(v float64) string {
	if math.Abs(v) < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return thousands(int64(math.Round(v)))
}

// Figure writes a measured value as the tables do: one decimal below 10, none and thousands apart above.
func Figure(v float64) string { return figure(v) }

// known writes a figure that is 0 where it was not measured.
func known(v float64) string {
	if v == 0 {
		return "–"
	}
	return figure(v)
}

// span writes a range of delays: "1s–15s".
func span(from, to time.Duration) string {
	if from == to {
		return from.String()
	}
	return from.String() + "–" + to.String()
}

// pace writes a rate of publishing.
func pace(rate float64) string {
	if rate <= 0 {
		return "as fast as confirmed"
	}
	return figure(rate) + "/s"
}
