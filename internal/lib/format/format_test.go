package format_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer/internal/lib/format"
)

func TestSome(t *testing.T) {
	names := []string{"a", "b", "c"}
	assert.Equal(t, "a, b, c", format.Some(names, 3, ", "))
	assert.Equal(t, "a; b; and 1 more", format.Some(names, 2, "; "))
	assert.Equal(t, "c", names[2])
}

func TestFigures(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0.0", 0.04: "0.0", 8.25: "8.2", 9.94: "9.9", 9.96: "10", 999.6: "1,000", 1234567: "1,234,567",
		-4: "-4.0", -12: "-12",
	} {
		assert.Equal(t, want, format.Figure(value))
	}
	assert.Equal(t, "-1,000", format.Thousands(-1000))
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("x", 75)
	assert.Equal(t, long+" two\n  three\n", format.Wrap("", "  ", long+" two three"))
	assert.Equal(t, "yes  "+long+"\n  word\n", format.Wrap("yes  ", "  ", long+" word"))
}
