package controller_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// BenchmarkCancel schedules messages, cancels every tenth, postpones every thousandth, and accounts
// for each. Two controllers run in processes of their own. When a fiftieth has been delivered both
// are killed and two others started; when half has been, the one of these that leads is killed. It
// reports the rates, the broker's processor time for a change, how late messages first are, also
// those due from a second before each of the two moments until ten after it and the others apart,
// and the memory of the leader: at rest, and at most. For a million, in a quarter of an hour:
//
//	go test ./internal/lab/tests/controller -run '^$' -bench Cancel -benchtime 1000000x -timeout 1h
//
// With DELAYER_TEST_WAIT=1h in the environment, and a longer timeout, all wait for an hour longer.
// GOMEMLIMIT in the environment is for the controllers alone.
func BenchmarkCancel(b *testing.B) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	opts := options(b, delayer.Quorum)
	d := rabbittest.Open(b, backend.Config{Options: opts, Backend: controller.Name, Controller: controller.Config{PublishOnly: true}})
	conn, err := amqp091.Dial(opts.URL)
	require.NoError(b, err)
	ch, err := conn.Channel()
	require.NoError(b, err)
	a := &agenda{B: b, Delayer: d, queue: rabbittest.Prefix(b), items: make([]item, b.N)}
	_, err = ch.QueueDeclare(a.queue, true, false, false, false, amqp091.Table{"x-queue-type": "quorum"})
	require.NoError(b, err)
	got, err := ch.Consume(a.queue, "", true, false, false, false, nil)
	require.NoError(b, err)
	first := startPair(b, ch, opts)

	b.ResetTimer()
	a.schedule()
	a.change()
	b.ReportMetric(first.leads.rss(), "rest-MB")
	b.ReportMetric(first.leads.heap(), "rest-heap-MB")
	var second pair
	a.receive(got, []func(){0: func() {
		first.leads.kill()
		first.other.kill()
		a.moments = append(a.moments, moment{"start", time.Now()})
		second = startPair(b, ch, opts)
	}, 1: func() {
		b.ReportMetric(second.leads.heap(), "heap-MB")
		b.ReportMetric(second.leads.rss(), "rss-MB")
		a.moments = append(a.moments, moment{"kill", time.Now()})
		second.leads.kill()
	}})
	b.StopTimer()
	a.report()
	b.ReportMetric(highWater(second.other.Process.Pid), "controller-MB")
	second.other.kill()
	_, _ = ch.QueueDelete(a.queue, false, false, false)
	require.NoError(b, conn.Close())
}

// A pair is two controllers.
type pair struct{ leads, other process }

// startPair starts them, the second when the first consumes the log. Those who were killed have
// gone from there before: otherwise the second might lead.
func startPair(b *testing.B, ch *amqp091.Channel, opts delayer.Options) (p pair) {
	consumed := func(is bool) {
		require.Eventually(b, func() bool {
			q, err := ch.QueueDeclarePassive(opts.Prefix+".controller.log", true, false, false, false, nil)
			return err == nil && q.Consumers > 0 == is
		}, patience, 10*time.Millisecond)
	}
	consumed(false)
	p.leads = startProcess(b, opts)
	consumed(true)
	p.other = startProcess(b, opts)
	return p
}

// A process is a controller that tells how much memory it has.
type process struct {
	testing.TB
	*exec.Cmd
	in  io.Writer
	out io.Reader
}

func startProcess(b testing.TB, opts delayer.Options) process {
	child := controllerCommand(b, opts)
	in, err := child.StdinPipe()
	require.NoError(b, err)
	out, err := child.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, child.Start())
	b.Cleanup(func() { _ = child.Process.Kill() }) // fails where it has ended
	return process{b, child, in, out}
}

func (p process) kill() {
	require.NoError(p.TB, p.Process.Kill())
	require.Error(p.TB, p.Wait())
}

// heap and rss are in MB.
func (p process) heap() float64 {
	_, err := io.WriteString(p.in, "\n")
	require.NoError(p.TB, err)
	var bytes float64
	_, err = fmt.Fscanln(p.out, &bytes)
	require.NoError(p.TB, err)
	return bytes / (1 << 20)
}

func (p process) rss() float64 { return memory(p.Process.Pid, "VmRSS:") }

func controllerCommand(tb testing.TB, opts delayer.Options) *exec.Cmd {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), controllerVariable+"="+settings(tb, opts))
	child.Stderr = os.Stderr
	return child
}

func startController(tb testing.TB, opts delayer.Options) *exec.Cmd {
	tb.Helper()
	child := controllerCommand(tb, opts)
	require.NoError(tb, child.Start())
	tb.Cleanup(func() { _ = child.Process.Kill() }) // fails where it has ended
	return child
}

// highWater is the most memory that a process has had, in MB.
func highWater(pid int) float64 { return memory(pid, "VmHWM:") }

// memory is what the system says of a process, in MB; 0 where it does not tell.
func memory(pid int, what string) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(status), what)
	var kilobytes float64
	_, _ = fmt.Sscan(after, &kilobytes)
	return kilobytes / (1 << 10)
}

// An agenda is the messages of a benchmark.
type agenda struct {
	*testing.B
	delayer.Delayer
	queue   string
	items   []item
	moments []moment
}

// A moment is when something was done to the controllers.
type moment struct {
	what string
	at   time.Time
}

// touches reports whether what was due then may be late because of it.
func (m moment) touches(due time.Time) bool {
	return due.After(m.at.Add(-time.Second)) && due.Before(m.at.Add(10*time.Second))
}

type item struct {
	due    time.Time // not before
	ticket delayer.Ticket
	gone   bool // Cancel returned nil
	came   int
	late   time.Duration // when it first came
}

const (
	cancelEach, postponeEach = 10, 1000
	laterBy                  = 20 * time.Second
)

func changes(i int) bool { return i%cancelEach == 0 || i%postponeEach == 1 }

// schedule leaves time to schedule and change all before the first is due.
func (a *agenda) schedule() {
	const lead, leadEach, spreadEach = 8 * time.Second, 400 * time.Microsecond, 500 * time.Microsecond
	var longer time.Duration
	if text := os.Getenv("DELAYER_TEST_WAIT"); text != "" && a.N > 1 { // every benchmark runs once first
		var err error
		longer, err = time.ParseDuration(text)
		require.NoError(a, err, "DELAYER_TEST_WAIT")
	}
	n := time.Duration(len(a.items))
	began := time.Now()
	a.each("schedule", func(int) bool { return true }, func(i int) error {
		due := began.Add(longer + lead + n*leadEach + time.Duration(i)*spreadEach)
		msg := amqp091.Publishing{Body: binary.BigEndian.AppendUint64(nil, uint64(i))}
		it := &a.items[i]
		it.due = due
		ticket, err := a.Schedule(a.Context(), delayer.Message{Key: a.queue, Delay: max(0, time.Until(due)), Publishing: msg})
		if changes(i) {
			it.ticket = ticket
		}
		return err
	})
}

// change cancels and postpones.
func (a *agenda) change() {
	b := rabbittest.Broker(a)
	before, _ := b.CPU()
	changed := a.each("change", changes, func(i int) (err error) {
		it := &a.items[i]
		if i%cancelEach == 0 {
			err = a.Cancel(a.Context(), it.ticket)
			it.gone = err == nil
			return err
		}
		due := it.due.Add(laterBy)
		if _, err = a.Postpone(a.Context(), it.ticket, time.Until(due)); err == nil {
			it.due = due
		}
		return err
	})
	after, _ := b.CPU()
	a.ReportMetric(float64((after-before).Microseconds())/float64(max(changed, 1)), "broker-µs/change")
}

// each calls do for some messages at a time, and reports the rate.
func (a *agenda) each(what string, of func(int) bool, do func(int) error) (done int64) {
	const workers = 64
	var next, count atomic.Int64
	began := time.Now()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(a.items); i = int(next.Add(1)) - 1 {
				if !of(i) {
					continue
				}
				if err := do(i); err != nil {
					a.Errorf("%s %d: %v", what, i, err)
				}
				count.Add(1)
			}
		})
	}
	all.Wait()
	a.ReportMetric(float64(count.Load())/time.Since(began).Seconds(), what+"/s")
	return count.Load()
}

// receive takes all that comes, until what is missing has had its time, and a while for what must
// not come. It calls the first when a fiftieth has come, and the second halfway.
func (a *agenda) receive(got <-chan amqp091.Delivery, then []func()) {
	const after = 5 * time.Second
	missing := 0
	var last time.Time
	for i := range a.items {
		if it := &a.items[i]; !it.gone {
			missing++
		}
		if due := a.items[i].due; due.After(last) {
			last = due
		}
	}
	soon, half := sync.OnceFunc(then[0]), sync.OnceFunc(then[1])
	defer half()
	defer soon()
	var late []time.Duration
	for timer, all := time.NewTimer(0), missing; ; {
		quiet := after
		if missing > 0 {
			quiet = patience
		}
		timer.Reset(quiet + time.Until(last))
		select {
		case m := <-got:
			it := &a.items[binary.BigEndian.Uint64(m.Body)]
			if it.came++; it.came == 1 && !it.gone {
				it.late = time.Since(it.due)
				late = append(late, it.late)
				missing--
			}
			if missing <= all-all/50 {
				soon()
			}
			if missing <= all/2 {
				half()
			}
		case <-timer.C:
			if len(late) > 0 {
				a.lateness(late)
			}
			return
		}
	}
}

func (a *agenda) lateness(late []time.Duration) {
	slices.Sort(late)
	if late[0] < 0 {
		a.Errorf("a message is early by %v", -late[0])
	}
	for name, part := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1} {
		at := late[int(part*float64(len(late)-1))]
		a.ReportMetric(float64(at.Microseconds())/1000, name+"-ms-late")
	}
	a.ReportMetric(0, "ns/op")
}

// report counts what must not be, and what may be.
func (a *agenda) report() {
	var gone, cancelledCame, missing, twice int
	for i := range a.items {
		switch it := &a.items[i]; {
		case it.gone && it.came > 0:
			cancelledCame++
		case it.gone:
			gone++
		case it.came == 0:
			missing++
		case it.came > 1:
			twice++
		}
	}
	worst := make([]item, len(a.moments)+1) // the last is of all others
	for i := range a.items {
		it := &a.items[i]
		of := slices.IndexFunc(a.moments, func(m moment) bool { return m.touches(it.due) })
		if of < 0 {
			of = len(a.moments)
		}
		if it.late > worst[of].late {
			worst[of] = *it
		}
	}
	for i, m := range a.moments {
		a.ReportMetric(worst[i].late.Seconds(), "s-late-after-"+m.what)
	}
	if other := worst[len(a.moments)]; other.came > 0 {
		a.ReportMetric(other.late.Seconds(), "s-late-otherwise")
		a.ReportMetric(other.due.Sub(a.items[0].due).Seconds(), "s-into-it") // when that one was due
	}
	a.ReportMetric(float64(gone), "cancelled")
	a.ReportMetric(float64(cancelledCame), "cancelled-delivered")
	a.ReportMetric(float64(missing), "missing")
	a.ReportMetric(float64(twice), "twice")
	if cancelledCame+missing > 0 {
		a.Errorf("%d were cancelled and delivered, %d are missing", cancelledCame, missing)
	}
}
