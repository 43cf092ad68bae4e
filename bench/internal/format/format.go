// Package format writes figures for people.
package format

import (
	"math"
	"strconv"
	"strings"
)

// Thousands writes 12345 as "12,345".
func Thousands(n int) string {
	digits := strconv.Itoa(n)
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

// Figure writes a measured value: one decimal below 10, where it can matter, none above.
func Figure(v float64) string {
	if math.Abs(v) < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return Thousands(int(math.Round(v)))
}
