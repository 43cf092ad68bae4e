package bench

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

// played runs a scenario against a Delayer without a broker, in the time of a synctest bubble.
func played(t *testing.T, sc scenario, subject Subject, m *memory) (run result, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &trial{
			subject: subject, recorder: newRecorder(), delayer: m, destination: &destination{queue: "q"},
			env: Env{Delays: append(sc.delays(), warmUpDelay)}, meter: meter{broker: &fake{}},
		}
		m.arrival = s.recorder.arrival
		run, err = sc.run(t.Context(), s)
		m.timers.Wait()
	})
	return run, err
}

func quickly(n int, due ...time.Duration) common {
	return common{messages: n, concurrency: 4, warmUp: 2, patience: time.Minute, due: due}
}

// The long one is late, and only the short ones count.
func TestTheShortOnesAreJudged(t *testing.T) {
	longLate := func(d time.Duration) []time.Duration {
		if d > time.Second {
			d += time.Minute
		}
		return []time.Duration{d}
	}
	blocked := hol{quickly(200, time.Second, 5*time.Second)}
	blocked.rate, blocked.patience = 100, 2*time.Minute
	run, err := played(t, blocked, Subject{}, &memory{fate: longLate})
	require.NoError(t, err)
	assert.Equal(t, 5*time.Second, run.samples[0].Delay, "the first must have something to block")
	assert.Less(t, run.Lateness.Max, 100.0, "the long one does not count")
	assert.Zero(t, run.Lost)
	assert.Zero(t, run.BrokerCPU, "the cost of waiting is not the cost of a message")
}

// In an open loop a subject that cannot keep the rate is late for it. In a closed one it is asked
// for less, and looks as good as any: its lateness is not published.
func TestOnlyAnOpenLoopShowsThatASubjectIsSlow(t *testing.T) {
	const n, takes, rate = 100, 100 * time.Millisecond, 100
	slow := func() *memory { return &memory{fate: onTime, slow: takes} }
	open := accuracy{quickly(n, time.Second)}
	closed := cost{open}
	open.rate = rate
	run, err := played(t, open, Subject{}, slow())
	require.NoError(t, err)
	workers := time.Duration(quickly(n).concurrency)
	assert.InDelta(t, milliseconds(n*takes/workers-n*time.Second/rate), run.Lateness.Max, 100)
	run, err = played(t, closed, Subject{}, slow())
	require.NoError(t, err)
	assert.Less(t, run.Lateness.Max, 1.0)
	assert.InDelta(t, float64(workers)/takes.Seconds(), run.PublishPerS, 2)
	assert.Equal(t, "cost", closed.about().Name)
	assert.Contains(t, closed.about().Setup, "as fast as confirmed")
}

// What one scenario does to a broker is not seen in the next.
func TestEachScenarioBeginsAfresh(t *testing.T) {
	b := Benchmark{Subjects: []Subject{{Backend: "a"}, {Backend: "b"}}, Scenarios: []string{"accuracy", "cost"}, Repeat: 2}
	var afresh []bool
	for _, s := range (runner{b, b.chosen()}).steps() {
		afresh = append(afresh, s.afresh)
	}
	assert.Equal(t, []bool{false, false, true, false, true, false, true, false}, afresh, "the first has a broker that was just started")
}

func TestABacklogIsNotAwaitedAndNotCounted(t *testing.T) {
	never := func(d time.Duration) []time.Duration {
		if d == backlogDelay {
			return nil
		}
		return []time.Duration{d}
	}
	deep := depth{common: quickly(50, time.Second, 2*time.Second), probes: 20, probeRate: 100, settle: time.Second}
	run, err := played(t, deep, Subject{}, &memory{fate: never})
	require.NoError(t, err)
	assert.Equal(t, 50, run.Waiting)
	assert.Equal(t, report.Counts{Published: 20, Delivered: 20}, run.Counts)
	assert.InDelta(t, 1000, run.MemoryPerMessage, 0)
	assert.InDelta(t, 500, run.DiskPerMessage, 0)
	assert.Zero(t, run.ProcessCPU, "most of it is of the messages that wait, which are not those that are counted")
	assert.Empty(t, run.Problem())
}

// TestTheWarmUpKeepsPromises: no figure has its messages, and what a subject breaks there is
// broken.
func TestTheWarmUpKeepsPromises(t *testing.T) {
	asked := 0
	twice := func(d time.Duration) []time.Duration {
		if asked++; asked == 1 {
			return []time.Duration{d, d}
		}
		return []time.Duration{d + time.Second} // who waits for it sees the second copy of the other
	}
	for _, c := range []struct {
		of      Subject
		becomes func(time.Duration) []time.Duration
		want    string
	}{
		{Subject{}, func(time.Duration) []time.Duration { return nil }, "of 2 messages 2 were lost"},
		{Subject{Baseline: true}, func(time.Duration) []time.Duration { return nil }, "of 2 messages 2 were lost"},
		{Subject{}, func(d time.Duration) []time.Duration { return []time.Duration{d / 2} }, "2 were early, and 0 came twice"},
		{Subject{}, twice, "0 were early, and 1 came twice"},
		{Subject{Baseline: true}, func(d time.Duration) []time.Duration { return []time.Duration{d / 2} }, ""},
		{Subject{}, onTime, ""},
	} {
		fate := func(d time.Duration) []time.Duration {
			if d == warmUpDelay {
				return c.becomes(d)
			}
			return onTime(d)
		}
		later := accuracy{quickly(3, 2*time.Second)}
		_, err := played(t, later, c.of, &memory{fate: fate})
		if c.want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, c.want)
		}
	}
}

func TestABacklogThatArrivesIsEarly(t *testing.T) {
	hasty := func(d time.Duration) []time.Duration { return []time.Duration{min(d, time.Second)} }
	deep := depth{common: quickly(5, time.Second), probes: 3, settle: time.Second}
	run, err := played(t, deep, Subject{}, &memory{fate: hasty})
	require.NoError(t, err)
	assert.Equal(t, 5, run.Early)
	assert.Greater(t, run.EarlyByMS, 3.5e6)
	assert.Contains(t, run.Problem(), "5 early")
}

// A fake broker grows by 50,000 bytes of memory and 25,000 of disk from one look to the next.
type fake struct {
	cpu          func() time.Duration // nil: not known
	memory, disk int64
}

func (f *fake) CPU() (time.Duration, error) {
	if f.cpu == nil {
		return 0, errors.New("not known")
	}
	return f.cpu(), nil
}
func (f *fake) RSS() (int64, error)  { f.memory += 50_000; return 1<<20 + f.memory, nil }
func (f *fake) Disk() (int64, error) { f.disk += 25_000; return 1<<20 + f.disk, nil }

// Many primers have come before anything is measured: 1,850 of them were once counted as the cost
// of 5,000 messages.
func TestManyPrimersAreWaitedFor(t *testing.T) {
	const longest = 20 * time.Second
	began := func(delays int) time.Duration {
		mixed := accuracy{quickly(1000, Every(longest-time.Duration(delays-1)*time.Millisecond, longest)...)}
		run, err := played(t, mixed, Subject{Lazy: true}, &memory{fate: onTime})
		require.NoError(t, err)
		require.Len(t, run.samples, 1000, "primers are not among them")
		return run.samples[0].Due() - run.samples[0].Delay
	}
	assert.Less(t, began(1000/fewPrimersOf-1), longest, "and one for the warm-up's delay")
	assert.Greater(t, began(1000/fewPrimersOf), longest)
}

var tested = Env{Prefix: "p", Destination: "q", Tick: time.Second}

// TestLadder: what the seed publishes, and where.
func TestLadder(t *testing.T) {
	zeros := func(n int) string { return strings.Repeat("0.", n) }
	for _, c := range []struct {
		atTop         bool
		ticks         int64
		exchange, key string
	}{
		{true, 10, "p.level-27", zeros(24) + "1.0.1.0.q"},
		{true, 0, "p.level-27", zeros(28) + "q"},
		{false, 10, "p.level-3", zeros(24) + "1.0.1.0.q"},
		{false, 1, "p.level-0", zeros(27) + "1.q"},
		{false, 0, "p.deliver", zeros(28) + "q"},
		{false, 1<<levels - 1, "p.level-27", strings.Repeat("1.", 28) + "q"},
	} {
		exchange, key := ladderDesign(tested, "classic", c.atTop).route(c.ticks, &amqp091.Publishing{})
		assert.Equal(t, c.exchange, exchange, "%v", c)
		assert.Equal(t, c.key, key)
	}
}

// TestMixedTiers: a delay waits in the first queue that is for delays so long, with its own
// expiration.
func TestMixedTiers(t *testing.T) {
	plan := ttlDesign(tested, "classic", 1000, 5000, 10_000, 20_000)
	require.Len(t, plan.topology.Queues, 4)
	assert.NotContains(t, plan.topology.Queues[3].Args, "x-message-ttl", "the message's own ends its delay")
	for ms, want := range map[int64]string{
		0: "p.in-1000", 1000: "p.in-1000", 1001: "p.in-5000", 5000: "p.in-5000", 7000: "p.in-10000", 20_000: "p.in-20000", 30_000: "p.in-20000",
	} {
		var msg amqp091.Publishing
		entry, key := plan.route(ms, &msg)
		assert.Equal(t, want, entry, "%d ms", ms)
		assert.Equal(t, "q", key)
		assert.Equal(t, strconv.FormatInt(ms, 10), msg.Expiration)
	}
}
