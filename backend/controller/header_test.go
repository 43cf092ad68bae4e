package controller

import (
	"bytes"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer/internal/message"
)

func TestStampRoundTrip(t *testing.T) {
	for _, s := range []stamp{
		{clock: "c", due: 5, hop: time.Second, left: -time.Millisecond, to: []any{"~d:=x"}, bcc: []any{"a", ""}},
		{clock: "c", due: 0, to: []any{"~d:=x", "~d:=y.."}},
	} {
		got, err := readStamp(s.header())
		require.NoError(t, err)
		require.Equal(t, s, got)
	}
}

func TestReadStampSaysWhatIsWrong(t *testing.T) {
	good := func() amqp091.Table { return stamp{clock: "c", to: []any{"~d:=x"}}.table() }
	for want, change := range map[string]func(amqp091.Table){
		"lacks its times":                  func(t amqp091.Table) { delete(t, fieldDue) },
		"times":                            func(t amqp091.Table) { t[fieldLeft] = "5" },
		"impossible":                       func(t amqp091.Table) { t[fieldHop] = int64(-1) },
		"has no destination":               func(t amqp091.Table) { delete(t, fieldTo) },
		"has the destination \"user.key\"": func(t amqp091.Table) { t[fieldTo] = []any{"user.key"} },
		"no strings":                       func(t amqp091.Table) { t[fieldBCC] = []any{int64(1)} },
		"of at most 255 bytes":             func(t amqp091.Table) { t[fieldBCC] = []any{string(make([]byte, 256))} },
	} {
		table := good()
		change(table)
		_, err := readStamp(amqp091.Table{message.Stamp: table})
		require.ErrorContains(t, err, want)
	}
	_, err := readStamp(nil)
	require.ErrorContains(t, err, "no header x-delayer-stamp")
	_, err = readStamp(amqp091.Table{message.Stamp: "x"})
	require.ErrorContains(t, err, "is a string")
}

// FuzzReadStamp takes headers as they come from the wire: whatever is read without an error can be
// written again, and is then the same.
func FuzzReadStamp(f *testing.F) {
	f.Add("c", int64(1), int64(2), int64(3), []byte("~d:=x\nkey"), true)
	f.Add("", int64(-1), int64(-1), int64(-1), []byte{}, false)
	f.Fuzz(func(t *testing.T, clock string, due, hop, left int64, lines []byte, whole bool) {
		var list []any
		for _, line := range bytes.Split(lines, []byte("\n")) {
			list = append(list, string(line))
		}
		table := amqp091.Table{fieldClock: clock, fieldDue: due, fieldHop: hop, fieldLeft: left, fieldTo: list}
		if whole {
			table[fieldBCC] = list
		}
		s, err := readStamp(amqp091.Table{message.Stamp: table})
		if err != nil {
			return
		}
		again, err := readStamp(s.header())
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}

// What another process takes to remain is never less than what does, whatever the clocks say, and
// the process that wrote the stamp knows exactly.
func TestNobodyTakesLessToRemainThanDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		sent := time.Now()
		remaining, hop := draw("remaining", longest), draw("hop", time.Hour)
		mine := stamp{to: []any{"~d:=x"}}.restamp(sent, remaining, hop)
		theirs := mine
		theirs.clock, theirs.due = "another", draw("another clock", longest)

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
