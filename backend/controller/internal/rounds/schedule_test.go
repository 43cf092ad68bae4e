package rounds

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

func mustSchedule(t testing.TB, levels int, tick time.Duration) schedule {
	t.Helper()
	s, err := newSchedule(levels, tick)
	require.NoError(t, err)
	return s
}

// exact is a schedule as the seed has it: hops that last as long as their TTL, and nothing in
// memory.
func exact(levels int, tick time.Duration) schedule {
	return schedule{levels: levels, tick: tick, memory: tick}
}

// journey takes a message through its hops, which last as long as their TTL.
func journey(s schedule, delay time.Duration) (hops []time.Duration, last time.Duration) {
	for {
		level := s.next(delay)
		if level < 0 {
			return hops, delay
		}
		hops = append(hops, s.ttl(level))
		delay -= s.ttl(level)
	}
}

func TestTheSeedsExample(t *testing.T) {
	hops, last := journey(exact(3, time.Second), 13*time.Second)
	require.Equal(t, []time.Duration{4 * time.Second, 4 * time.Second, 4 * time.Second, time.Second}, hops)
	require.Zero(t, last)

	hops, last = journey(mustSchedule(t, 3, time.Second), 13*time.Second)
	require.Equal(t, []time.Duration{4 * time.Second, 4 * time.Second, 4 * time.Second}, hops)
	require.Equal(t, time.Second, last, "in memory, since a queue would overshoot")
}

// For any schedule, delay, and time that hops take longer than their TTL.
func TestHopsNeverExceedWhatRemains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := newSchedule(rapid.IntRange(1, 28).Draw(t, "levels"), time.Duration(rapid.Int64Range(1, 60_000).Draw(t, "tick_ms"))*time.Millisecond)
		if err != nil {
			t.Skip("no schedule")
		}
		most := min(settle.Longest/1000, s.ttl(s.levels-1)) * 1000
		left := time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, "delay"))
		late := time.Duration(rapid.Int64Range(0, int64(overhead)).Draw(t, "overhead"))
		for n := 0; ; n++ {
			require.Less(t, n, 1100, "it comes to an end")
			level := s.next(left)
			if level == deliver || level == inMemory {
				require.Less(t, left, max(s.tick, shortest)+overhead)
				require.Equal(t, level == deliver, left <= 0)
				require.GreaterOrEqual(t, left, time.Duration(0), "never late by a hop that lasts no longer than it is taken to")
				return
			}
			require.Less(t, level, s.levels)
			require.LessOrEqual(t, s.ttl(level)+s.spare, left, "the hop is over before the message is due")
			if level < s.levels-1 {
				require.Greater(t, s.ttl(level+1)+s.spare, left, "it is the longest that fits")
			}
			left -= s.ttl(level) + late
		}
	})
}

// arrival is when a message is delivered that was published at a time, if each of its triggers
// comes so much later than its queue's TTL, in turn. The controller looks at its clock on each.
func arrival(s schedule, published time.Time, delay time.Duration, late func() time.Duration) (now time.Time, lastLate time.Duration) {
	const expired = true
	now = published
	for m := nextStamp(now, delay, 0); ; {
		remaining := m.remaining(now, expired)
		switch level := s.next(remaining); level {
		case deliver:
			return now, lastLate
		case inMemory:
			return now.Add(remaining), 0
		default:
			m = nextStamp(now, remaining, s.ttl(level))
			lastLate = late()
			now = now.Add(s.ttl(level) + lastLate)
		}
	}
}

// TestEachTriggerSetsTheTimeRight is what the fourth founding document shows of one queue, T'b −
// T'a = Tb − Ta, of any number of rounds: however late triggers come, their lateness does not add
// up.
func TestEachTriggerSetsTheTimeRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := newSchedule(rapid.IntRange(1, 20).Draw(t, "levels"), time.Duration(rapid.Int64Range(10, 1000).Draw(t, "tick_ms"))*time.Millisecond)
		require.NoError(t, err)
		delay := time.Duration(rapid.Int64Range(0, int64(100*s.ttl(s.levels-1))).Draw(t, "delay"))
		if rapid.Bool().Draw(t, "like a queue") { // where a late trigger would be too late
			delay = s.ttl(rapid.IntRange(0, s.levels-1).Draw(t, "level")) + time.Duration(rapid.Int64Range(0, int64(2*overhead)).Draw(t, "more"))
		}
		most := rapid.SampledFrom([]time.Duration{0, overhead, time.Minute}).Draw(t, "most")
		late := func() time.Duration { return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, "late")) }
		ta := time.Now()
		tb := ta.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "apart")))
		a, lateA := arrival(s, ta, delay, late)
		b, lateB := arrival(s, tb, delay, late)
		require.GreaterOrEqual(t, a.Sub(ta), delay, "never early")
		require.LessOrEqual(t, a.Sub(ta), delay+lateA, "only by the last trigger")
		require.LessOrEqual(t, b.Sub(tb), delay+lateB)
		if most <= overhead {
			require.Equal(t, tb.Sub(ta), b.Sub(a), "no later than the schedule allows for: exact")
		}
	})
}

func TestAScheduleThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		levels       int
		tick         time.Duration
		object, want string
	}{
		{0, time.Second, "controller.levels", "0 is not between 1 and 28"},
		{29, time.Second, "controller.levels", "29"},
		{-1, time.Second, "controller.levels", "-1"},
		{4, 0, "controller.tick", "0s is not a whole number of milliseconds"},
		{4, -time.Second, "controller.tick", "-1s"},
		{4, 1500 * time.Microsecond, "controller.tick", "1.5ms"},
		{4, 61 * time.Second, "controller.tick", "1m1s is more than 1m0s"},
		{28, 3 * time.Second, "controller.levels", "ten years, the longest x-message-ttl that RabbitMQ takes: use at most 27 levels"},
		{28, time.Minute, "controller.levels", "use at most 23 levels"},
	} {
		_, err := newSchedule(c.levels, c.tick)
		require.ErrorIs(t, err, delayer.ErrConfig)
		require.ErrorContains(t, err, c.object)
		require.ErrorContains(t, err, c.want)
	}
	for levels := 1; levels <= maxLevels; levels++ {
		if s, err := newSchedule(levels, 2*time.Second); err == nil {
			require.LessOrEqual(t, s.ttl(levels-1), objects.MaxTTL)
		}
	}
}

func TestWhole(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		1: time.Millisecond, time.Millisecond: time.Millisecond, time.Millisecond + 1: 2 * time.Millisecond, settle.Longest: settle.Longest,
	} {
		require.Equal(t, want, whole(given), "%v", given)
	}
}

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

func TestWheel_Plan(t *testing.T) {
	w := Wheel{schedule: mustSchedule(t, 1, time.Second), names: names{"p"}, kind: delayer.Quorum}
	require.Equal(t, topology.Plan{
		Markers: []topology.Exchange{{Name: "p.controller", Kind: amqp091.ExchangeFanout, Alternate: "p:controller,levels=1,tick=1s,quorum"}},
		Exchanges: []topology.Exchange{
			{Name: "p.controller.intake", Kind: "fanout", Alternate: "p.unroutable"},
			{Name: "p.controller.enter", Kind: "fanout"}, // without an alternate: what it cannot route is returned
			{Name: "p.controller.wait.00", Kind: "fanout"},
		},
		Queues: []topology.Queue{
			{Name: "p.controller.intake", Role: role.Intake, Args: amqp091.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(1 << 30), "x-overflow": "reject-publish", "x-max-length": objects.NeverFull}},
			{Name: "p.controller.wait.00", Args: amqp091.Table{
				"x-queue-type": "quorum", "x-message-ttl": int64(1001), "x-dead-letter-exchange": "p.controller.intake",
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-max-length": objects.NeverFull,
				"x-queue-leader-locator": "balanced",
			}},
		},
		Bindings: []topology.Binding{
			{Source: "p.controller.intake", Target: "p.controller.intake"},
			{Source: "p.controller.enter", Target: "p.controller.intake"},
			{Source: "p.controller.wait.00", Target: "p.controller.wait.00"},
		},
	}, w.Plan())
	w.kind = delayer.Classic
	require.Equal(t, amqp091.Table{"x-queue-type": "classic", "x-overflow": "reject-publish"}, w.Plan().Queues[0].Args)
}

func TestWheel_ConfigNamesEveryFieldThatMatters(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range []Wheel{
		{schedule: schedule{levels: 4, tick: time.Second}, names: names{"p"}, kind: delayer.Quorum},
		{schedule: schedule{levels: 5, tick: time.Second}, names: names{"p"}, kind: delayer.Quorum},
		{schedule: schedule{levels: 4, tick: time.Minute}, names: names{"p"}, kind: delayer.Quorum},
		{schedule: schedule{levels: 4, tick: time.Second}, names: names{"p"}, kind: delayer.Classic},
	} {
		require.False(t, seen[w.config()], w.config())
		seen[w.config()] = true
	}
}
