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
	"github.com/delayer-go/delayer/internal/lab/account"
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
	a := &agenda{
		B: b, Delayer: d, Account: account.New[int](time.Now()), queue: rabbittest.Prefix(b), tickets: make([]delayer.Ticket, b.N),
	}
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
	a.receive(got, func() {
		first.leads.kill()
		first.other.kill()
		a.moments = append(a.moments, moment{"start", a.Now()})
		second = startPair(b, ch, opts)
	}, func() {
		b.ReportMetric(second.leads.heap(), "heap-MB")
		b.ReportMetric(second.leads.rss(), "rss-MB")
		a.moments = append(a.moments, moment{"kill", a.Now()})
		second.leads.kill()
	})
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
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), controllerVariable+"="+settings(b, opts))
	child.Stderr = os.Stderr
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
	*account.Account[int]
	queue   string
	tickets []delayer.Ticket // of those that are changed
	moments []moment
}

// A moment is when something was done to the controllers.
type moment struct {
	what string
	at   time.Duration
}

// touches reports whether what was due then may be late because of it.
func (m moment) touches(due time.Duration) bool {
	return due > m.at-time.Second && due < m.at+10*time.Second
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
	first := a.Now() + longer + lead + time.Duration(a.N)*leadEach
	a.each("schedule", func(int) bool { return true }, func(i int) error {
		now := a.Now()
		delay := max(0, first+time.Duration(i)*spreadEach-now)
		a.Ask(account.Course[int]{ID: i, Asked: now, Delay: delay})
		msg := amqp091.Publishing{Body: binary.BigEndian.AppendUint64(nil, uint64(i))}
		ticket, err := a.Schedule(a.Context(), delayer.Message{Key: a.queue, Delay: delay, Publishing: msg})
		a.Answer(i, a.Now(), err)
		if changes(i) {
			a.tickets[i] = ticket
		}
		return err
	})
}

// change cancels and postpones.
func (a *agenda) change() {
	b := rabbittest.Broker(a)
	before, _ := b.CPU()
	due := map[int]time.Duration{}
	for _, m := range a.Messages() {
		if changes(m.ID) {
			due[m.ID] = m.Due()
		}
	}
	changed := a.each("change", changes, func(i int) (err error) {
		if i%cancelEach == 0 {
			err = a.Delayer.Cancel(a.Context(), a.tickets[i])
			a.Account.Cancel(i, err)
			return err
		}
		later := due[i] + laterBy
		_, err = a.Delayer.Postpone(a.Context(), a.tickets[i], later-a.Now())
		a.Account.Postpone(i, later, err)
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
			for i := int(next.Add(1)) - 1; i < a.N; i = int(next.Add(1)) - 1 {
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
// not come. It calls soon when a fiftieth has come, and half halfway.
func (a *agenda) receive(got <-chan amqp091.Delivery, soon, half func()) {
	const after = 5 * time.Second
	all := a.Counts().Undone
	go func() {
		for m := range got {
			a.Arrive(int(binary.BigEndian.Uint64(m.Body)), a.Now()) //nolint:gosec // schedule has written it
		}
	}()
	for _, then := range []struct {
		missing int
		do      func()
	}{{all - all/50, soon}, {all / 2, half}} {
		for a.Counts().Undone > then.missing {
			time.Sleep(time.Millisecond)
		}
		then.do()
	}
	var last time.Duration
	for _, m := range a.Messages() {
		last = max(last, m.Due())
	}
	time.Sleep(last + after - a.Now())
	require.NoError(a, a.Await(a.Context(), patience))
}

// report counts what must not be, and what may be.
func (a *agenda) report() {
	var late []time.Duration
	worst := make([]account.Course[int], len(a.moments)+1) // the last is of all others
	messages := a.Messages()
	for _, m := range messages {
		if m.Outcome != account.Confirmed || m.Copies == 0 {
			continue
		}
		late = append(late, m.Lateness())
		of := slices.IndexFunc(a.moments, func(at moment) bool { return at.touches(m.Due()) })
		if of < 0 {
			of = len(a.moments)
		}
		if worst[of].Copies == 0 || m.Lateness() > worst[of].Lateness() {
			worst[of] = m
		}
	}
	slices.Sort(late)
	for name, part := range map[string]float64{"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1} {
		if len(late) > 0 {
			a.ReportMetric(float64(late[int(part*float64(len(late)-1))].Microseconds())/1000, name+"-ms-late")
		}
	}
	for i, m := range a.moments {
		a.ReportMetric(worst[i].Lateness().Seconds(), "s-late-after-"+m.what)
	}
	if other := worst[len(a.moments)]; other.Copies > 0 {
		a.ReportMetric(other.Lateness().Seconds(), "s-late-otherwise")
		a.ReportMetric((other.Due() - messages[0].Due()).Seconds(), "s-into-it") // when that one was due
	}
	v := a.Verdict()
	a.ReportMetric(float64(v.Cancelled-len(v.Revived)), "cancelled")
	a.ReportMetric(float64(len(v.Revived)), "cancelled-delivered")
	a.ReportMetric(float64(len(v.Missing)), "missing")
	a.ReportMetric(float64(len(v.Twice)), "twice")
	a.ReportMetric(0, "ns/op")
	if len(v.Early)+len(v.Revived)+len(v.Missing) > 0 {
		a.Errorf("%d are early, %d were cancelled and delivered, %d are missing", len(v.Early), len(v.Revived), len(v.Missing))
	}
}
