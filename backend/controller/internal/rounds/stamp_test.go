package rounds

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/message"
)

func TestStamp_RoundTrip(t *testing.T) {
	of := func(s stamp, to, bcc []any) waiting { return waiting{settle.Message{To: to, BCC: bcc}, s} }
	for _, m := range []waiting{
		of(stamp{clock: "c", ownDue: 5, hop: time.Second, left: -time.Millisecond}, []any{"~d:=x"}, []any{"a", ""}),
		of(stamp{clock: "c", ownDue: 0}, []any{"~d:=x", "~d:=y.."}, nil),
		of(stamp{clock: "c", priority: 255}, []any{"~d:=x"}, nil),
		of(stamp{clock: "c"}, []any{"~d:=3: x"}, []any{" d1:a", "b1:", "\xff\n"}),
	} {
		got, err := readStamp(m.stamp.header(m.To, m.BCC))
		require.NoError(t, err)
		require.Equal(t, m, got)
	}
}

func TestReadStamp_SaysWhatIsWrong(t *testing.T) {
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
		_, err := readStamp(amqp091.Table{message.Stamp: text})
		require.ErrorContains(t, err, want, text)
	}
	_, err := readStamp(amqp091.Table{message.Stamp: "c 5 0 1 0 d5:~d:=x"})
	require.NoError(t, err)
	_, err = readStamp(nil)
	require.ErrorContains(t, err, "header x-delayer-stamp lacks its times")
	_, err = readStamp(amqp091.Table{message.Stamp: amqp091.Table{}})
	require.ErrorContains(t, err, "lacks its times")
}

// FuzzReadStamp takes headers as they come from the wire: whatever is read without an error can be
// written again, and is then the same.
func FuzzReadStamp(f *testing.F) {
	f.Add("c 5 0 1 0 d5:~d:=x")
	f.Add("c 5 6 -7 8 d5:~d:=xd8:~d:=yyyyb0:b2:\xff ")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := readStamp(amqp091.Table{message.Stamp: text})
		if err != nil {
			return
		}
		again, err := readStamp(s.stamp.header(s.To, s.BCC))
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
		remaining, hop := draw("remaining", settle.Longest), draw("hop", time.Hour)
		mine := nextStamp(sent, remaining, hop)
		theirs := mine
		theirs.clock, theirs.ownDue = "another", draw("another clock", settle.Longest)

		longer := draw("longer", time.Hour)
		came := sent.Add(hop + longer)
		truth := remaining - hop - longer
		require.Equal(t, truth, mine.remaining(came, true), "no drift")
		require.Equal(t, truth+longer, theirs.remaining(came, true), "late, never early")
		require.Equal(t, remaining, theirs.remaining(came, false), "it may not have waited")
	})
}

func TestExpired(t *testing.T) {
	one := func(reason string) amqp091.Table {
		return amqp091.Table{"x-death": []any{amqp091.Table{"reason": reason, "time": time.Unix(1, 0)}}}
	}
	require.True(t, expired(one("expired")))
	require.False(t, expired(one("maxlen")), "a policy has made the queue overflow: it has not waited")
	for _, headers := range []amqp091.Table{nil, {"x-death": "x"}, {"x-death": []any{}}, {"x-death": []any{"x"}}} {
		require.False(t, expired(headers))
	}
}
