package bench

import (
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"math/bits"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// played runs a scenario against a Delayer without a broker, in the time of a synctest bubble. tune may change the
// trial before.
func played(t *testing.T, scenario Scenario, subject Subject, m *memory, tune func(*Trial)) (run Run, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &Trial{
			Subject: subject, recorder: newRecorder(), delayer: m, destination: &destination{queue: "q", returns: true},
			env: Env{Delays: distinct(append(scenario.Delays(subject), warmUpDelay))},
		}
		m.arrival = s.recorder.arrival
		if tune != nil {
			tune(s)
		}
		run, err = scenario.Run(t.Context(), s)
		m.timers.Wait()
	})
	return run, err
}

// quickly is a load that ends soon.
func quickly(n int) Load { return Load{Messages: n, Concurrency: 4, WarmUp: 2, Patience: time.Minute} }

func TestABurstIsDueWithinOneSecond(t *testing.T) {
	late := func(d time.Duration) []time.Duration { return []time.Duration{d + 250*time.Millisecond} }
	burst := Burst{Load: quickly(100), Spread: 10 * time.Second, Lead: 2 * time.Second}
	run, err := played(t, burst, Subject{}, &memory{fate: late, slow: time.Millisecond}, nil)
	require.NoError(t, err)
	require.Len(t, run.Samples, 100)
	first, last := run.Samples[0].Due(), run.Samples[0].Due()
	for _, m := range run.Samples {
		first, last = min(first, m.Due()), max(last, m.Due())
		assert.Zero(t, m.Delay%time.Second, "every resolution can do it")
		assert.Positive(t, m.Delay)
	}
	assert.Less(t, last-first, time.Second)
	assert.InDelta(t, 250, run.DrainMS, 2)
	assert.InDelta(t, 250, run.Lateness.P50, 2)
	assert.Greater(t, run.DelayMaxMS, run.DelayMinMS, "published over some time")
	assert.Zero(t, run.Early)
}

func TestABurstThatIsPublishedTooSlowlyIsNone(t *testing.T) {
	burst := Burst{Load: quickly(100), Spread: time.Second, Lead: time.Second}
	_, err := played(t, burst, Subject{}, &memory{fate: onTime, slow: 200 * time.Millisecond}, nil)
	require.ErrorContains(t, err, "publishing took too long")
}

func TestASlowSubjectGetsTimeToPublishItsBurst(t *testing.T) {
	burst := Burst{Load: quickly(100), Spread: time.Second, Lead: time.Second}
	_, err := played(t, burst, Subject{Pace: 20}, &memory{fate: onTime, slow: 200 * time.Millisecond}, nil)
	require.NoError(t, err)
}

func TestDelaysOfABurst(t *testing.T) {
	for now, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, 1: 10 * time.Second, time.Second: 9 * time.Second,
		8 * time.Second: 2 * time.Second, 8*time.Second + 1: 2 * time.Second,
		9*time.Second - 1: 2 * time.Second, 9 * time.Second: time.Second, 10 * time.Second: time.Second,
	} {
		assert.Equal(t, want, untilBurst(now, 10*time.Second), "at %v", now)
	}
}

func TestAMixHasBothAndJudgesTheShort(t *testing.T) {
	longLate := func(d time.Duration) []time.Duration {
		if d > time.Second {
			d += time.Minute
		}
		return []time.Duration{d}
	}
	mix := Mix{Load: quickly(200), Long: 5 * time.Second, Short: time.Second, Every: 10}
	mix.Rate = 100
	run, err := played(t, mix, Subject{}, &memory{fate: longLate}, nil)
	require.NoError(t, err)
	assert.Equal(t, 5*time.Second, run.Samples[0].Delay, "the first must have something to block")
	assert.Less(t, run.Lateness.Max, 100.0, "the long ones do not count")
	require.Len(t, run.LatenessByStep, 1)
	assert.InDelta(t, 180, run.LatenessByStep[0].Count, 15)
	assert.Len(t, run.Points, 200)
	assert.InDelta(t, 100, run.PublishPerS, 5)
}

func TestHopsHaveSoManyBits(t *testing.T) {
	for hops := 1; hops <= 16; hops++ {
		ms := hopsDelay(hops).Milliseconds()
		assert.Equal(t, hops, bits.OnesCount64(uint64(ms)), "%d ms", ms)
		assert.GreaterOrEqual(t, hopsDelay(hops), time.Second)
	}
	assert.Equal(t, 1151*time.Millisecond, hopsDelay(8), "as short as possible: hops are compared, not delays")
	assert.True(t, Hops{}.Takes(Subject{Ladder: true, Tick: time.Millisecond}))
	assert.False(t, Hops{}.Takes(Subject{Ladder: true, Tick: time.Second}), "its tick would round the bits away")
}

func TestEachNumberOfHopsHasItsCost(t *testing.T) {
	run, err := played(t, Hops{Load: quickly(10), Hops: []int{1, 4}}, Subject{Ladder: true}, &memory{fate: onTime}, nil)
	require.NoError(t, err)
	require.Len(t, run.ByHops, 2)
	assert.Equal(t, 4, run.ByHops[1].Hops)
	assert.InDelta(t, 1031, run.ByHops[1].DelayMS, 0)
	assert.Equal(t, 20, run.Delivered)
	assert.Equal(t, 20, run.Messages)
}

// idler is a broker of ours that uses a tenth of a core while nothing happens.
type idler struct {
	heavy
	began time.Time
}

func (i *idler) CPU() (time.Duration, error) { return time.Since(i.began) / 10, nil }

func TestALongDelayDoesNotTurnIdlingIntoCost(t *testing.T) {
	hops := Hops{Load: quickly(10), Hops: []int{16}}
	run, err := played(t, hops, Subject{Ladder: true}, &memory{fate: onTime}, func(s *Trial) {
		s.meter.broker = &idler{began: time.Now()}
	})
	require.NoError(t, err)
	assert.InDelta(t, 0, run.ByHops[0].BrokerCPU, 1, "of 65 s, a tenth of a core is 655,350 µs for each of ten")
}

func TestABacklogIsNotAwaitedAndNotCounted(t *testing.T) {
	never := func(d time.Duration) []time.Duration {
		if d == backlogDelay {
			return nil
		}
		return []time.Duration{d}
	}
	scenario := Backlog{Load: quickly(50), Probes: 20, ProbeRate: 100, Settle: time.Second, From: time.Second, To: 2 * time.Second}
	broker := &heavy{memory: 1 << 20}
	run, err := played(t, scenario, Subject{}, &memory{fate: never}, func(s *Trial) {
		s.meter.broker = broker
	})
	require.NoError(t, err)
	assert.Equal(t, 50, run.Waiting)
	assert.Equal(t, Counts{Published: 20, Delivered: 20}, run.Counts)
	assert.InDelta(t, 1000, run.MemoryPerMessage, 0)
	assert.InDelta(t, 500, run.DiskPerMessage, 0)
	assert.Empty(t, run.Problem())
}

func TestABacklogThatArrivesIsEarly(t *testing.T) {
	hasty := func(d time.Duration) []time.Duration { return []time.Duration{min(d, time.Second)} }
	scenario := Backlog{Load: quickly(5), Probes: 3, From: time.Second, To: time.Second, Settle: time.Second}
	run, err := played(t, scenario, Subject{}, &memory{fate: hasty}, nil)
	require.NoError(t, err)
	assert.Equal(t, 5, run.Early)
	assert.Greater(t, run.EarlyByMS, 3.5e6)
	assert.Contains(t, run.Problem(), "5 early")
}

// heavy is a broker that grows by 50,000 bytes of memory and 25,000 of disk from one look to the next.
type heavy struct{ memory, disk int64 }

func (*heavy) Product() string             { return "" }
func (*heavy) Version() string             { return "" }
func (*heavy) How() string                 { return "" }
func (*heavy) Owned() bool                 { return false }
func (*heavy) CPU() (time.Duration, error) { return 0, errNotOurs }
func (h *heavy) RSS() (int64, error)       { h.memory += 50_000; return h.memory, nil }
func (h *heavy) Disk() (int64, error)      { h.disk += 25_000; return h.disk, nil }

func TestGrowthThatIsNotKnownIsNone(t *testing.T) {
	assert.Zero(t, growth(0, 100, 10), "unknown before")
	assert.Zero(t, growth(100, 0, 10), "unknown after")
	assert.Zero(t, growth(100, 90, 10), "something else became smaller")
	assert.Zero(t, growth(100, 200, 0))
	assert.InDelta(t, 10, growth(100, 200, 10), 0)
}

func TestAnOutageMayDoubleAndLoseWhatIsNotPromised(t *testing.T) {
	run := Run{Counts: Counts{Delivered: 9, Lost: 1, Duplicated: 2}}
	run.Outage = true
	assert.Equal(t, "1 lost", run.Problem())
	run.LossDeclared = true
	assert.Empty(t, run.Problem())
	run.Early = 1
	assert.Contains(t, run.Problem(), "1 early", "never early")
}

func TestAScenarioThatTheBrokerDoesNotAllowIsNamed(t *testing.T) {
	var report Report
	left := Benchmark{Target: &heavy{}, Scenarios: []Scenario{HOL{}, Crash{}, Recovery{}, Backlog{}}}.possible(&report)
	require.Len(t, left, 2)
	assert.Equal(t, "hol", left[0].Name())
	assert.Equal(t, "backlog", left[1].Name(), "without a restart its memory is less exact, no more")
	require.Len(t, report.Skipped, 2)
	assert.Equal(t, "skipped: scenario crash: the broker is not ours to take down", report.Skipped[0].String())
}

func TestWhatIsLeftOutIsSaid(t *testing.T) {
	b := Benchmark{
		Scenarios: []Scenario{HOL{}},
		Subjects:  []Subject{{Backend: "a", QueueType: "quorum"}, {Backend: "b", QueueType: "classic"}},
		Leaves:    func(_ Scenario, s Subject) bool { return s.Backend == "b" },
	}
	assert.Len(t, b.steps(), 1)
	assert.Contains(t, b.newReport().Scenarios[0].Setup, "; left out: b (classic)")
}

func TestPointsAreEvenlyChosen(t *testing.T) {
	var samples []Sample
	for i := range 1000 {
		s := at(time.Second, time.Millisecond)
		s.Intended += time.Duration(i) * time.Millisecond
		s.Sent, s.Arrived = s.Intended, s.Arrived+time.Duration(i)*time.Millisecond
		samples = append(samples, s)
	}
	points := pointsOf(samples)
	require.Len(t, points, mostPoints)
	assert.Equal(t, Point{1000, 1001}, points[0])
	assert.Equal(t, Point{1999, 2000}, points[mostPoints-1])
	samples[0].Copies = 0
	assert.Len(t, pointsOf(samples[:3]), 2, "what did not arrive has no point")
	assert.Nil(t, pointsOf(samples[:1]))
}

func TestTheDistributionIsThatOfTheSamples(t *testing.T) {
	var samples []Sample
	for i := range 1000 {
		samples = append(samples, at(time.Second, time.Duration(i+1)*time.Millisecond))
	}
	d := distributionOf(samples)
	require.Len(t, d, len(percents))
	for _, want := range []Quantile{{0, 1}, {50, 500}, {99, 990}, {99.5, 995}, {100, 1000}} {
		assert.Contains(t, d, want)
	}
	assert.Nil(t, distributionOf(nil))
}

func TestManyDelaysHaveNoTable(t *testing.T) {
	var samples []Sample
	for i := range mostSteps + 1 {
		samples = append(samples, at(time.Duration(i+1)*time.Millisecond, 0))
	}
	assert.Nil(t, summarise(samples, nil).LatenessByStep)
	assert.Len(t, summarise(samples[1:], nil).LatenessByStep, mostSteps)
}

func TestEveryDelayIsListed(t *testing.T) {
	assert.Equal(t, []time.Duration{1, 3, 5, 6}, every(1, 6, 2))
	assert.Equal(t, []time.Duration{4}, every(4, 4, 1))
	many := every(0, time.Hour, time.Millisecond)
	assert.Equal(t, time.Hour, many[len(many)-1], "of too many, the longest stays")
	assert.Less(t, len(many), 2000)
}

func TestRawSamplesAreComplete(t *testing.T) {
	twice := at(time.Second, 1500*time.Microsecond)
	twice.ID, twice.Copies = 7, 2
	lost := Sample{ID: 8, Delay: time.Second, Intended: time.Second, Sent: time.Second}
	report := Report{Runs: []Run{{
		Scenario: "accuracy", Backend: "binaryladder", Variant: "source", QueueType: "quorum", Repetition: 2,
		Samples: []Sample{twice, lost},
	}}}
	var out bytes.Buffer
	require.NoError(t, report.WriteSamples(&out))
	unzipped, err := gzip.NewReader(&out)
	require.NoError(t, err)
	rows, err := csv.NewReader(unzipped).ReadAll()
	require.NoError(t, err)
	assert.Equal(t, [][]string{
		rawHead,
		{"accuracy", "binaryladder source", "quorum", "2", "7", "1000000", "1000000", "2000000", "2001500", "2"},
		{"accuracy", "binaryladder source", "quorum", "2", "8", "1000000", "1000000", "2000000", "", "0"},
	}, rows)
}

func TestPrimersAreNotMeasured(t *testing.T) {
	var asked []time.Duration
	subject := Subject{Prime: func(longest, _ time.Duration) []time.Duration {
		asked = append(asked, longest)
		return []time.Duration{longest, longest}
	}}
	accuracy := Accuracy{Load: quickly(5), DelayMin: time.Second, DelayMax: 2 * time.Second}
	run, err := played(t, accuracy, subject, &memory{fate: onTime}, nil)
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{2 * time.Second}, asked)
	assert.Len(t, run.Samples, 5)
}

func TestDelaysOfAList(t *testing.T) {
	list := []time.Duration{90 * time.Second, time.Second, 5 * time.Second}
	accuracy := Accuracy{Load: quickly(50), Of: list}
	run, err := played(t, accuracy, Subject{}, &memory{fate: onTime}, nil)
	require.NoError(t, err)
	assert.InDelta(t, 1000, run.DelayMinMS, 0)
	assert.InDelta(t, 90_000, run.DelayMaxMS, 0)
	asked := map[time.Duration]bool{}
	for _, s := range run.Samples {
		asked[s.Delay] = true
	}
	for _, delay := range list {
		assert.True(t, asked[delay], delay)
	}
	assert.Len(t, asked, len(list))
	assert.Contains(t, accuracy.Setup(), "3 delays of 1s–1m30s")
	assert.Equal(t, time.Millisecond, Accuracy{Of: []time.Duration{time.Second / 2}}.needs().tick)
}

func TestTheGeneratorRecordsWhatItGenerates(t *testing.T) {
	samples, err := publishLoopback(t.Context(), 1000)
	require.NoError(t, err)
	assert.Equal(t, Counts{Published: 1000, Delivered: 1000}, count(samples))
}

// BenchmarkGenerator is the rate at which the benchmark itself can publish and record, without a broker: it must be
// several times that of any subject, or the subject would not be what is measured.
func BenchmarkGenerator(b *testing.B) {
	b.ReportAllocs()
	samples, err := publishLoopback(b.Context(), b.N)
	require.NoError(b, err)
	require.Len(b, samples, b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msg/s")
}

func BenchmarkRecorder(b *testing.B) {
	r := newRecorder()
	planned, _ := r.add(make([]time.Duration, b.N), measured)
	ids := make([]string, b.N)
	for i := range ids {
		ids[i] = strconv.Itoa(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i, e := range planned {
		e.Sent = r.now()
		r.due(e.Due())
		r.returned(e, nil)
		r.arrival(ids[i])
	}
}
