package xdelay

import (
	"math"
	"math/big"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOf(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		value any
		want  time.Duration
	}{
		"nil": {nil, 0}, "zero": {int32(0), 0}, "negative": {int32(-1000), 0}, "lowest": {int64(math.MinInt64), 0},
		"int": {1000, second}, "int8": {int8(100), second / 10}, "int16": {int16(1000), second},
		"int32": {int32(1000), second}, "int64": {int64(1000), second}, "byte": {uint8(100), second / 10},
		"uint16": {uint16(1000), second}, "uint32": {uint32(math.MaxUint32), Max}, "longest": {int64(math.MaxUint32), Max},
		"wider than 32 bits": {3_000_000_000, 3_000_000 * second},
		"text":               {"1000", second}, "with a sign": {"+1000", second}, "negative text": {"-1000", 0},
		"leading zeros": {"0001000", second}, "very negative text": {"-99999999999999999999999", 0},
		"bytes": {[]byte("1000"), second},
		"float": {1000.0, second}, "float32": {float32(1000), second}, "fraction": {1000.2, second + time.Millisecond},
		"small": {0.2, time.Millisecond}, "negative float": {-0.5, 0},
		"longest float": {float64(math.MaxUint32), Max}, "longest with a fraction": {math.MaxUint32 + 0.5, Max},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Of(amqp091.Table{Header: c.value})
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
	for _, headers := range []amqp091.Table{nil, {}, {"X-Delay": 1000}} {
		got, err := Of(headers)
		require.NoError(t, err)
		assert.Zero(t, got)
	}
}

func TestOf_Errors(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		named string
	}{
		"above":      {int64(math.MaxUint32) + 1, "4294967296"},
		"highest":    {int64(math.MaxInt64), "9223372036854775807"},
		"text above": {"4294967296", "4294967296"},
		"huge text":  {"99999999999999999999999", "99999999999999999999999"},
		"a float":    {1e20, "1e+20"},
		"words":      {"5s", `"5s"`}, "empty": {"", `""`}, "a space": {" 5", `" 5"`}, "a fraction": {"5.0", `"5.0"`},
		"only a sign": {"-", `"-"`}, "bytes": {[]byte("x"), `"x"`}, "a line break": {"5\n", `"5\n"`},
		"NaN": {math.NaN(), "NaN"}, "infinity": {math.Inf(1), "+Inf"}, "negative infinity": {math.Inf(-1), "-Inf"},
		"bool": {true, "bool"}, "a Go type": {time.Second, "a number"}, "time": {time.Unix(0, 0), "a timestamp"}, "table": {amqp091.Table{}, "a table"},
		"array": {[]any{1}, "an array"}, "decimal": {amqp091.Decimal{Value: 1}, "a decimal"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Of(amqp091.Table{Header: c.value})
			require.Error(t, err)
			assert.Contains(t, err.Error(), c.named)
			assert.Contains(t, err.Error(), Header)
		})
	}
}

func TestMisspelt(t *testing.T) {
	for name, want := range map[string]bool{
		"X-Delay": true, "x_delay": true, "X-DELAY": true, "x-delay": false, "x-delayed": false, "delay": false,
	} {
		assert.Equal(t, want, Misspelt(amqp091.Table{name: 1}) == name, name)
	}
}

// FuzzOf_Text: what Go's arbitrary integers read, and nothing else.
func FuzzOf_Text(f *testing.F) {
	for _, text := range []string{"", "0", "-5", "+5", "4294967295", "4294967296", "5s", "0x10", "1_000", "٣", "5\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Of(amqp091.Table{Header: text})
		n, ok := new(big.Int).SetString(text, 10)
		switch {
		case !ok || n.Cmp(big.NewInt(math.MaxUint32)) > 0:
			require.Error(t, err)
		case n.Sign() <= 0:
			require.NoError(t, err)
			require.Zero(t, got)
		default:
			require.NoError(t, err)
			require.Equal(t, n.Int64(), got.Milliseconds())
		}
	})
}

// FuzzOf_Float: never shorter than asked for, and at most a millisecond longer.
func FuzzOf_Float(f *testing.F) {
	for _, v := range []float64{0, -1, 0.1, 1500.7, 4294967295, 4294967295.9, 4294967296, math.Inf(1), math.NaN()} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		got, err := Of(amqp091.Table{Header: v})
		if math.IsNaN(v) || math.IsInf(v, 0) || v >= math.MaxUint32+1 {
			require.Error(t, err)
			return
		}
		require.NoError(t, err)
		if v <= math.MaxUint32 {
			require.GreaterOrEqual(t, float64(got.Milliseconds()), v)
		}
		require.Less(t, float64(got.Milliseconds()), max(v, 0)+1)
	})
}
