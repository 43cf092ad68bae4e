package stamp

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer/internal/lib/message"
)

func TestStamp_RoundTrip(t *testing.T) {
	for _, s := range []Stamp{
		{Clock: "c", OwnDue: 5, Hop: time.Second, Left: -time.Millisecond, To: []any{"~d:=x"}, BCC: []any{"a", ""}},
		{Clock: "c", OwnDue: 0, To: []any{"~d:=x", "~d:=y.."}},
		{Clock: "c", To: []any{"~d:=x"}, Priority: 255},
		{Clock: "c", To: []any{"~d:=3: x"}, BCC: []any{" d1:a", "b1:", "\xff\n"}},
	} {
		got, err := Read(s.Header())
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
}

func TestRead_SaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"c 5 0 1 0 ":                   "has no destination",
		"c 5 0 1 0":                    "has no destination",
		"c 5 0 1 0 d4:user":            `has the key "user"`,
		"c 5 0 x 0 d5:~d:=x":           "lacks its times",
		"c 5 0 1":                      "lacks its times",
		"c 5 0 1 d5:~d:=x":             "lacks its times",
		"c 5 0 1 0d5:~d:=x":            "lacks its times",
		"c  5 0 1 0 d5:~d:=x":          "lacks its times",
		"":                             "lacks its times",
		" 5 0 1 0 d5:~d:=x":            "impossible times",
		"c -1 0 1 0 d5:~d:=x":          "impossible times",
		"c 5 -1 1 0 d5:~d:=x":          "impossible times",
		"c 5 0 1 256 d5:~d:=x":         "impossible times",
		"c 5 0 1 -1 d5:~d:=x":          "impossible times",
		"c 5 0 1 0 d6:~d:=x":           "keys that cannot be read",
		"c 5 0 1 0 d-1:~d:=x":          "keys that cannot be read",
		"c 5 0 1 0 d5:~d:=x ":          "keys that cannot be read",
		"c 5 0 1 0 d5:~d:=x b256:x":    "keys that cannot be read",
		"c 5 0 1 0 x5:~d:=x":           "which is no destination",
		"c 5 0 9223372036854775807 0":  "impossible times",
		"c 5 0 -9223372036854775808 0": "impossible times",
	} {
		_, err := Read(amqp091.Table{message.Stamp: text})
		require.ErrorContains(t, err, want, text)
	}
	_, err := Read(amqp091.Table{message.Stamp: "c 5 0 1 0 d5:~d:=x"})
	require.NoError(t, err)
	_, err = Read(nil)
	require.ErrorContains(t, err, "no header x-delayer-stamp")
	_, err = Read(amqp091.Table{message.Stamp: amqp091.Table{}})
	require.ErrorContains(t, err, "is a amqp091.Table")
}

// FuzzRead takes headers as they come from the wire: whatever is read without an error can be
// written again, and is then the same.
func FuzzRead(f *testing.F) {
	f.Add("c 5 0 1 0 d5:~d:=x")
	f.Add("c 5 6 -7 8 d5:~d:=xd8:~d:=yyyyb0:b2:\xff ")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Read(amqp091.Table{message.Stamp: text})
		if err != nil {
			return
		}
		again, err := Read(s.Header())
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}

// What another process takes to remain is never less than what does, whatever the clocks say, and
// the process that wrote the stamp knows exactly.
func TestStamp_RemainingIsNeverTooShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		sent := time.Now()
		remaining, hop := draw("remaining", Longest), draw("hop", time.Hour)
		mine := Stamp{To: []any{"~d:=x"}}.Next(sent, remaining, hop)
		theirs := mine
		theirs.Clock, theirs.OwnDue = "another", draw("another clock", Longest)

		longer := draw("longer", time.Hour)
		came := sent.Add(hop + longer)
		truth := remaining - hop - longer
		require.Equal(t, truth, mine.Remaining(came, true), "no drift")
		require.Equal(t, truth+longer, theirs.Remaining(came, true), "late, never early")
		require.Equal(t, remaining, theirs.Remaining(came, false), "it may not have waited")
	})
}

func TestExpired(t *testing.T) {
	one := func(reason string) amqp091.Table {
		return amqp091.Table{"x-death": []any{amqp091.Table{"reason": reason, "time": time.Unix(1, 0)}}}
	}
	require.True(t, Expired(one("expired")))
	require.False(t, Expired(one("maxlen")), "a policy has made the queue overflow: it has not waited")
	for _, headers := range []amqp091.Table{nil, {"x-death": "x"}, {"x-death": []any{}}, {"x-death": []any{"x"}}} {
		require.False(t, Expired(headers))
	}
}

func TestWhole(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		1: time.Millisecond, time.Millisecond: time.Millisecond, time.Millisecond + 1: 2 * time.Millisecond, Longest: Longest,
	} {
		require.Equal(t, want, Whole(given), "%v", given)
	}
}
