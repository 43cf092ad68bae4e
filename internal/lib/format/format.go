// Package format writes figures and lists for people.
package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Some lists the first few names, and says how many more there are.
func Some(names []string, most int, separator string) string {
	if more := len(names) - most; more > 0 {
		names = append(names[:most:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, separator)
}

// Thousands writes 12345 as "12,345".
func Thousands(n int) string {
	if n > -1000 && n < 1000 {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", Thousands(n/1000), max(n, -n)%1000)
}

// Figure writes a measured value: one decimal below 10, where it can matter, none above.
func Figure(v float64) string {
	if math.Abs(v) < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return Thousands(int(math.Round(v)))
}

// lineWidth fits a terminal of 80 columns.
const lineWidth = 79

// Wrap breaks a text between words into lines of at most 79 characters. The first line begins with
// first, the others with indent.
func Wrap(first, indent, text string) string {
	var b strings.Builder
	b.WriteString(first)
	at := utf8.RuneCountInString(first)
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i > 0 && at+1+length > lineWidth:
			b.WriteString("\n" + indent)
			at = utf8.RuneCountInString(indent)
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += length
	}
	return b.String() + "\n"
}
