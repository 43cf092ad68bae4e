package controller_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// These name a cluster: the URLs of its nodes, separated by spaces, and a command that prints how
// much processor time they have used, in ns. Without them it is one of three private nodes.
const (
	clusterVariable    = "DELAYER_TEST_CLUSTER"
	clusterCPUVariable = "DELAYER_TEST_CLUSTER_CPU"
)

// BenchmarkShards publishes through one Delayer, with as many controllers as there are shards in
// processes of their own, on a cluster of three nodes: as fast as confirmed, and as fast as 99 of
// 100 messages are at most 100 ms late. Read it with -benchtime 1x -timeout 30m. With -short it
// only stays alive.
func BenchmarkShards(b *testing.B) {
	urls, brokers := clusterOfThree(b)
	for _, shards := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			if testing.Short() && shards != 2 {
				b.Skip("-short")
			}
			r := newShardsRig(b, urls, brokers, shards)
			if testing.Short() {
				r.run(100, 500, time.Second, 2*time.Second)
				return
			}
			r.run(2000, 500, time.Second, 3*time.Second) // warm
			const burst = 20_000
			m := r.run(burst, 0, time.Second, 15*time.Second)
			b.ReportMetric(burst/m.published.Seconds(), "published/s")
			b.ReportMetric(m.brokers/burst, "broker-µs/msg")
			b.ReportMetric(m.leaders/burst, "leaders-µs/msg")
			b.ReportMetric(m.own/burst, "own-µs/msg")
			b.ReportMetric(m.late(0.5), "p50-ms")
			b.ReportMetric(m.late(0.99), "p99-ms")
			best := 0
			for rate := 1000.0; ; rate *= math.Sqrt2 {
				many := int(6 * rate)
				m := r.run(many, int(rate), time.Second, 3*time.Second)
				if m.late(0.99) > 100 { // a disturbance can only make it fail
					m = r.run(many, int(rate), time.Second, 3*time.Second)
				}
				n := float64(many)
				b.Logf("%d/s: p50 %.1f ms, p99 %.1f ms late; brokers %.0f, leaders %.0f, own %.0f µs/msg",
					int(rate), m.late(0.5), m.late(0.99), m.brokers/n, m.leaders/n, m.own/n)
				if m.late(0.99) > 100 {
					break
				}
				best = int(rate)
			}
			b.ReportMetric(float64(best), "held/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// clusterOfThree returns the URLs of its nodes, and how to ask what they have used.
func clusterOfThree(b *testing.B) (urls []string, used func() time.Duration) {
	if given := os.Getenv(clusterVariable); given != "" {
		return strings.Fields(given), func() time.Duration {
			out, err := exec.Command("sh", "-c", os.Getenv(clusterCPUVariable)).Output()
			require.NoError(b, err)
			ns, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
			require.NoError(b, err)
			return time.Duration(ns)
		}
	}
	c, err := rabbit.StartCluster(b.Context(), rabbit.Options{}, 3)
	if err != nil {
		rabbittest.Skipf(b, "needs a cluster: %v", err)
	}
	b.Cleanup(func() { require.NoError(b, c.Close()) })
	return c.URLs(), func() (all time.Duration) {
		for _, node := range c.Nodes() {
			cpu, err := node.CPU()
			require.NoError(b, err)
			all += cpu
		}
		return all
	}
}

// A shardsRig publishes, and consumes four queues, from this process.
type shardsRig struct {
	*testing.B
	d       delayer.Delayer
	queues  []string
	got     chan amqp091.Delivery
	leaders []*exec.Cmd
	brokers func() time.Duration
}

func newShardsRig(b *testing.B, urls []string, brokers func() time.Duration, shards int) *shardsRig {
	opts := delayer.Options{URL: urls[0], Prefix: rabbittest.Prefix(b)}
	cfg := controller.Config{Options: opts, Shards: shards, Run: delayer.Off}
	b.Cleanup(func() {
		const force = true
		all := backend.Config{Options: opts, Backend: controller.Name, Controller: controller.Config{Shards: shards}}
		require.NoError(b, backend.Remove(context.Background(), all, force))
	})
	began := time.Now()
	d, err := controller.Open(b.Context(), cfg)
	require.NoError(b, err)
	b.Logf("%d shards declared in %v", shards, time.Since(began))
	b.Cleanup(func() { require.NoError(b, d.Close()) })
	r := &shardsRig{B: b, d: d, brokers: brokers, got: make(chan amqp091.Delivery, 10_000)}
	for i := range 4 {
		conn, err := amqp091.Dial(urls[i%len(urls)])
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, conn.Close()) })
		ch, err := conn.Channel()
		require.NoError(b, err)
		name := rabbittest.Prefix(b)
		_, err = ch.QueueDeclare(name, true, false, false, false, nil)
		require.NoError(b, err)
		b.Cleanup(func() { _, _ = ch.QueueDelete(name, false, false, false) })
		const autoAck = true
		got, err := ch.Consume(name, "", autoAck, false, false, false, nil)
		require.NoError(b, err)
		go func() {
			for m := range got {
				r.got <- m
			}
		}()
		r.queues = append(r.queues, name)
	}
	for i := range shards {
		at := opts
		at.URL = urls[i%len(urls)]
		child := startController(b, at, shards)
		b.Cleanup(func() { _ = child.Wait() })
		b.Cleanup(func() { _ = child.Process.Kill() })
		r.leaders = append(r.leaders, child)
	}
	const untilSpread = 20 * time.Second
	if !testing.Short() {
		time.Sleep(untilSpread)
	}
	return r
}

// What a run has used is in µs.
type shardsRun struct {
	published             time.Duration
	brokers, leaders, own float64
	lateness              []float64 // ms, sorted
}

func (m shardsRun) late(q float64) float64 { return m.lateness[int(q*float64(len(m.lateness)-1))] }

// run publishes so many messages, at a rate if there is one, and waits for all of them.
func (r *shardsRig) run(many, rate int, from, to time.Duration) (m shardsRun) {
	r.Helper()
	random := rand.New(rand.NewPCG(2026, 11))
	delays := make([]time.Duration, many)
	for i := range delays {
		delays[i] = from + time.Duration(random.Int64N(int64(to-from)))
	}
	brokers, leaders, own := r.brokers(), r.leadersUsed(), used(os.Getpid())
	due := make([]time.Time, many)
	start := time.Now()
	var publishing sync.WaitGroup
	const workers = 1024
	for w := range workers {
		publishing.Go(func() {
			for i := w; i < many; i += workers {
				at := time.Now()
				if rate > 0 {
					at = start.Add(time.Duration(i) * time.Second / time.Duration(rate))
					time.Sleep(time.Until(at))
				}
				due[i] = at.Add(delays[i])
				body := binary.BigEndian.AppendUint64(nil, uint64(i))
				left := max(0, time.Until(due[i]))
				if err := r.d.Publish(r.Context(), "", r.queues[i%len(r.queues)], left, amqp091.Publishing{Body: body}); err != nil {
					r.Error(err)
				}
			}
		})
	}
	published := make(chan struct{})
	go func() { publishing.Wait(); m.published = time.Since(start); close(published) }()
	came := make([]time.Time, many)
	for range many {
		d := <-r.got
		came[binary.BigEndian.Uint64(d.Body)] = time.Now()
	}
	<-published
	for i := range came {
		m.lateness = append(m.lateness, came[i].Sub(due[i]).Seconds()*1e3)
	}
	slices.Sort(m.lateness)
	if early, _ := slices.BinarySearch(m.lateness, 0); early > 0 {
		r.Logf("%d of %d came early, the first by %.1f ms", early, many, -m.lateness[0])
	}
	m.brokers, m.leaders = micros(r.brokers()-brokers), micros(r.leadersUsed()-leaders)
	m.own = micros(used(os.Getpid()) - own)
	return m
}

func micros(d time.Duration) float64 { return float64(d.Microseconds()) }

// leadersUsed is the processor time of the controllers' processes.
func (r *shardsRig) leadersUsed() (all time.Duration) {
	for _, l := range r.leaders {
		all += used(l.Process.Pid)
	}
	return all
}

// used is the processor time of a process; 0 where the system does not tell.
func used(pid int) (cpu time.Duration) {
	const tick = 10 * time.Millisecond
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	if fields := strings.Fields(after); len(fields) > 12 {
		for _, ticks := range fields[11:13] { // user and system
			n, _ := strconv.Atoi(ticks)
			cpu += time.Duration(n) * tick
		}
	}
	return cpu
}
