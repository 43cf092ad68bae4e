package report_test

import (
	"math"
	"time"

	"github.com/delayer-go/delayer/bench/report"
)

// A trait is what the fixture's figures of a subject are made from. They are test data: plausible,
// and measured by nobody.
type trait struct {
	backend, variant    string
	baseline            bool
	late, spread        float64 // median in ms, and how much later one in six is, as a factor
	cpu, rate, highest  float64
	drain, memory, disk float64
	perHop              float64
	blocks              bool
	lostQuorum, lost    int
	twice               int
	early               int
}

var traits = []trait{
	{backend: "binaryladder", variant: "source", late: 8, spread: 1.5, cpu: 172, rate: 27400, highest: 8200, drain: 640, memory: 1046, disk: 320, perHop: 61},
	{backend: "binaryladder", variant: "source calendar 1ms", late: 6.6, spread: 1.4, cpu: 131, rate: 28300, highest: 11800, drain: 480, memory: 1102, disk: 335, perHop: 22},
	{backend: "binaryladder", variant: "topic", late: 21, spread: 2.4, cpu: 308, rate: 25300, highest: 3900, drain: 1480, memory: 1190, disk: 350, perHop: 84},
	{backend: "fixedtiers", late: 4.3, spread: 1.7, cpu: 137, rate: 24400, highest: 14600, drain: 350, memory: 980, disk: 300, perHop: 1},
	{backend: "controller", late: 3.4, spread: 4.4, cpu: 311, rate: 12600, highest: 5100, drain: 930, memory: 1010, disk: 310, perHop: 70, twice: 4},
	{backend: "plugin", late: 2.8, spread: 1.6, cpu: 292, rate: 9100, highest: 6800, drain: 710, memory: 1430, disk: 900, perHop: 1, lost: 0, twice: 52},
	{backend: "bit-entry", baseline: true, late: 196, spread: 2.1, cpu: 803, rate: 1715, highest: 1200, drain: 3900, memory: 1210, disk: 350, perHop: 160, lostQuorum: 0, lost: 915, early: 12},
	{backend: "top-entry", baseline: true, late: 837, spread: 1.9, cpu: 2700, rate: 160, highest: 0, drain: 41000, memory: 1260, disk: 352, perHop: 190, lost: 940},
	{backend: "per-message-ttl", baseline: true, late: 3149, spread: 1.3, cpu: 135, rate: 21300, highest: 0, drain: 390, memory: 990, disk: 300, perHop: 1, blocks: true, lost: 610},
	{backend: "undelayed", baseline: true, late: 1.1, spread: 1.2, cpu: 56, rate: 31000},
}

// percents are those of the pictures.
var percents = []float64{0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100}

// quantile is that of a log-normal distribution whose tail the broker makes heavier.
func (t trait) quantile(percent float64) float64 {
	p := min(max(percent/100, 0.0005), 0.9995)
	z := math.Sqrt2 * math.Erfinv(2*p-1)
	if z > 1 {
		z += (z - 1) * 0.5
	}
	return math.Round(1000*t.late*math.Pow(t.spread, z)) / 1000
}

func (t trait) lateness(factor float64) report.Lateness {
	q := func(p float64) float64 { return factor * t.quantile(p) }
	return report.Lateness{Min: q(0), P50: q(50), P90: q(90), P99: q(99), Max: q(100)}
}

func (t trait) run(scenario, queueType string, n int) report.Run {
	factor := 1.0
	if queueType == "classic" {
		factor = 0.7
	}
	r := report.Run{
		Scenario: scenario, Backend: t.backend, Variant: t.variant, QueueType: queueType, Baseline: t.baseline,
		Undelayed: t.backend == "undelayed", Repetition: 1, Messages: n, Concurrency: 256, DelayMinMS: 1000, DelayMaxMS: 15000,
		Counts:      report.Counts{Published: n, Delivered: n},
		PublishPerS: t.rate, Lateness: t.lateness(factor),
	}
	for _, p := range percents {
		r.Distribution = append(r.Distribution, report.Quantile{Percent: p, MS: factor * t.quantile(p)})
	}
	return r
}

// full is a report with every scenario and everything that can go wrong.
func full() *report.Report {
	r := &report.Report{
		SchemaVersion: report.SchemaVersion, Started: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Seconds: 4210,
		Command: "delayer-bench --full --out docs/results/3.10",
		Machine: report.Machine{OS: "linux", Arch: "amd64", CPUs: 2, Go: "go1.26.0"},
		Broker:  report.Broker{Product: "RabbitMQ", Version: "3.10.8", How: "private node", Measured: true, IdleCPU: 1.9},
		Skipped: []report.Skip{{Backend: "plugin", QueueType: "quorum", Reason: "RabbitMQ 3.10.8 has no exchange type x-delayed-message"}},
	}
	r.GeneratorPerS, r.GeneratorCPU = 412_000, 2.4
	for _, s := range []report.Scenario{
		{Name: "accuracy", Question: "how late, at a steady rate?", Setup: "20,000 messages due after 1s–15s, 1,000/s, 256 publishers"},
		{Name: "cost", Question: "how fast, and at what cost?", Setup: "20,000 messages due after 1s–15s, as fast as confirmed, 256 publishers"},
		{Name: "hol", Question: "does a long delay hold up the short ones behind it?", Setup: "one message of 30s, then 1,000 of 1s, 100/s, 256 publishers (lateness of the short ones)"},
		{Name: "hol-mix", Question: "do long delays between short ones hold these up?", Setup: "1,000 messages, one in ten of 10s, the others of 1s, 100/s"},
		{Name: "burst", Question: "20,000 due in the same second: how long until the last?", Setup: "20,000 messages due at one time"},
		{Name: "rate", Question: "up to what rate are 99 % at most 100ms late?", Setup: "rates from 500/s on, doubled and then bisected, each for 4s"},
		{Name: "backlog", Question: "what does a waiting message cost?", Setup: "100,000 messages of 1h"},
		{Name: "hops", Question: "what does a hop cost?", Setup: "delays of 1, 4, 8 and 16 set bits"},
		{Name: "crash", Question: "what does a crash lose?", Setup: "kill −9 with 5,000 confirmed messages waiting"},
		{Name: "recovery", Question: "how long until it serves after a restart?", Setup: "100,000 waiting"},
	} {
		r.Scenarios = append(r.Scenarios, s)
		for _, queueType := range []string{"quorum", "classic"} {
			for _, t := range traits {
				if t.backend != "plugin" || queueType == "classic" {
					r.Runs = append(r.Runs, t.scenario(s.Name, queueType)...)
				}
			}
		}
	}
	failed := traits[2].run("burst", "classic", 20000)
	failed.Repetition, failed.Lost, failed.Delivered, failed.Error = 2, 3, 19997, "the consumer's connection was lost"
	slow := traits[0].run("accuracy", "classic", 20000)
	slow.Repetition, slow.Rate, slow.PublishPerS = 2, 40000, 27100
	r.Runs = append(r.Runs, failed, slow)
	return r
}

// scenario is what the subject's run of that scenario would look like; none where it does not take
// it.
func (t trait) scenario(name, queueType string) []report.Run {
	if t.backend == "undelayed" && name != "accuracy" && name != "cost" {
		return nil
	}
	r := t.run(name, queueType, 20000)
	switch name {
	case "cost":
		r.BrokerCPU, r.ProcessCPU, r.Written, r.Network = t.cpu, t.cpu/3, 400+t.cpu, 900+2*t.cpu
	case "accuracy":
		r.Rate, r.PublishPerS = 1000, 1000
		r.BrokerCPU, r.ProcessCPU, r.BrokerRSS, r.Early, r.EarlyByMS = t.cpu, t.cpu/3, 214_000_000, t.early, 0.4
		for delay := 1.0; delay <= 15; delay++ {
			r.LatenessByStep = append(r.LatenessByStep, report.DelayLateness{DelayMS: delay * 1000, Count: 1333,
				Lateness: t.lateness(0.8 + 0.05*math.Mod(delay*7, 5))})
		}
	case "hol", "hol-mix":
		return []report.Run{t.blocking(r, name)}
	case "burst":
		r.DrainMS, r.BrokerCPU = t.drain, t.cpu*0.9
	case "rate":
		r.MaxRate, r.Probes = t.highest, t.probes()
	case "backlog":
		return t.backlog(r)
	case "hops":
		for _, hops := range []int{1, 4, 8, 16} {
			r.ByHops = append(r.ByHops, report.HopCost{Hops: hops, DelayMS: math.Pow(2, float64(hops)) - 1,
				BrokerCPU: t.cpu*0.6 + t.perHop*float64(hops), Lateness: t.lateness(0.5 + 0.1*float64(hops))})
		}
	case "crash":
		r.Outage, r.LossDeclared = true, queueType == "classic"
		r.Published, r.Delivered, r.Lost, r.Duplicated, r.DownMS, r.ServesMS = 5000, 5000, t.lostQuorum, t.twice, 3900, 4300+t.memory
		if queueType == "classic" {
			r.Lost = t.lost
			if !t.baseline && t.backend != "plugin" {
				r.Lost = 640 + int(t.cpu)
			}
		}
		r.Delivered -= r.Lost
	case "recovery":
		r.Outage, r.Waiting, r.DownMS, r.ServesMS = true, 100_000, 5100, 5400+2*t.memory
	}
	return []report.Run{r}
}

// blocking has one message in ten with a delay of 10 s; behind one of these others wait where the
// subject blocks.
func (t trait) blocking(r report.Run, name string) report.Run {
	r.Messages, r.Published, r.Delivered, r.DelayMinMS, r.DelayMaxMS, r.Rate, r.PublishPerS = 1000, 1000, 1000, 1000, 10_000, 100, 100
	head := 0.0
	for i := range 200 {
		sent, delay := float64(i)*50, 1000.0
		if name == "hol" && i == 0 || name == "hol-mix" && i%40 == 0 {
			delay = 10_000
		}
		arrived := sent + delay + t.quantile(math.Mod(float64(i)*37, 100))*0.2
		if t.blocks {
			head = max(head, arrived)
			arrived = head
		}
		r.Points = append(r.Points, report.Point{DueMS: sent + delay, ArrivedMS: arrived})
	}
	if t.blocks {
		r.Lateness = report.Lateness{Min: 2, P50: 5210, P90: 8400, P99: 8950, Max: 9002}
	}
	return r
}

func (t trait) probes() []report.Probe {
	var out []report.Probe
	for rate := 500.0; rate <= 32000; rate *= 2 {
		load := rate / max(t.highest, 350)
		late := t.lateness(0.3 + math.Pow(load, 3))
		late.P99 = min(late.P99, 9000)
		passed := rate <= t.highest
		if passed {
			late.P99 = min(late.P99, 92)
		} else {
			late.P99 = max(late.P99, 130)
		}
		out = append(out, report.Probe{Rate: rate, Passed: passed, Reason: map[bool]string{false: "late"}[passed], PublishPerS: rate, Lateness: late})
		if load > 3 {
			break
		}
	}
	return out
}

func (t trait) backlog(r report.Run) []report.Run {
	var out []report.Run
	for _, size := range []struct{ n, body int }{{100_000, 64}, {500_000, 4}} {
		one := r
		one.Messages, one.Published, one.Delivered, one.Waiting, one.BodyBytes = size.n, size.n, size.n, size.n, size.body
		one.MemoryPerMessage, one.DiskPerMessage = t.memory-float64(size.n)/5000, t.disk+float64(size.body)
		out = append(out, one)
	}
	return out
}
