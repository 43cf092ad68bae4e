package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// BenchmarkPageWaiting has b.N messages wait in slots, and three people look at the page every five
// seconds, for two minutes. It reports how long the first answer took, and when the figures were
// there (first-ms, known-ms), how long half of the others and the slowest one took (p50-ms,
// max-ms), and what the broker did meanwhile and in the two minutes before (broker-ms/s, idle-ms/s:
// 10 are a percent of a core). In these first minutes the page has more read than later: what was
// saved while nobody looked.
//
//	go test ./cmd/delayer -run '^$' -bench PageWaiting -benchtime 1000000x -timeout 30m
func BenchmarkPageWaiting(b *testing.B) {
	node := rabbittest.Own(b, rabbit.Options{Plugins: []string{"rabbitmq_management"}})
	r := rabbittest.NewRig(b, node)
	filled(b, delayer.Options{URL: node.URL(), Prefix: r.Prefix}, r.Queue("to", nil), b.N)
	p := startPage(b, node, r.Prefix, "controller")
	measured := 2 * time.Minute
	if testing.Short() {
		measured = time.Second
	}
	cpu := func() time.Duration {
		spent, err := node.CPU()
		require.NoError(b, err)
		return spent
	}
	perSecond := func(spent time.Duration) float64 { return float64(spent.Microseconds()) / 1e3 / measured.Seconds() }

	time.Sleep(measured / 4) // what was published is being written
	before := cpu()
	time.Sleep(measured)
	b.ReportMetric(perSecond(cpu()-before), "idle-ms/s")

	began := time.Now()
	text := p.look("/")
	b.ReportMetric(milliseconds(time.Since(began)), "first-ms")
	for strings.Contains(text, "are being read") {
		time.Sleep(10 * time.Millisecond)
		text = p.look("/")
	}
	b.ReportMetric(milliseconds(time.Since(began)), "known-ms")
	require.Contains(b, text, "waiting")

	var took []time.Duration
	before = cpu()
	for end := time.Now().Add(measured); time.Now().Before(end); time.Sleep(min(5*time.Second, measured)) {
		for _, path := range []string{"/", "/page/waiting", "/page/undelivered"} {
			began := time.Now()
			p.look(path)
			took = append(took, time.Since(began))
		}
	}
	b.ReportMetric(perSecond(cpu()-before), "broker-ms/s")
	slices.Sort(took)
	b.ReportMetric(milliseconds(took[len(took)/2]), "p50-ms")
	b.ReportMetric(milliseconds(took[len(took)-1]), "max-ms")
	b.ReportMetric(p.memory(), "serve-MB")
	b.ReportMetric(0, "ns/op")
}

// filled has so many messages for a queue wait in slots, due from an hour on.
func filled(b *testing.B, opts delayer.Options, to string, n int) {
	b.Helper()
	d := rabbittest.Open(b, backend.Config{Options: opts, Backend: "controller"})
	const many = 1000
	for from := 0; from < n; from += many {
		batch := make([]delayer.Message, min(many, n-from))
		for i := range batch {
			batch[i] = delayer.Message{Key: to, Delay: time.Hour + time.Duration(from+i)*36*time.Millisecond, Publishing: amqp091.Publishing{Body: make([]byte, 100)}}
		}
		for _, err := range d.PublishBatch(b.Context(), batch) {
			require.NoError(b, err)
		}
	}
	require.NoError(b, d.Close())
}

// BenchmarkPageRetry has b.N messages of 0.5 kB that were not delivered, and sends all of them
// again from the page. It reports how long the list took and how long sending (list-ms, send-s),
// how many a second, what the broker spent for each (broker-µs), and the memory of `delayer serve`.
//
//	go test ./cmd/delayer -run '^$' -bench PageRetry -benchtime 100000x -timeout 30m
func BenchmarkPageRetry(b *testing.B) {
	node := rabbittest.Own(b, rabbit.Options{Plugins: []string{"rabbitmq_management"}})
	r := rabbittest.NewRig(b, node)
	p := startPage(b, node, r.Prefix, "binaryladder")
	unroutable, to := r.Prefix+".unroutable", r.Queue("to", amqp091.Table{"x-queue-type": "quorum"})
	for from := 0; from < b.N; {
		batch := make([]amqp091.Publishing, min(1000, b.N-from))
		for i := range batch {
			envelope := message.Envelope{ID: strconv.Itoa(from + i), Due: time.Now()}
			batch[i] = amqp091.Publishing{DeliveryMode: amqp091.Persistent, Headers: amqp091.Table{delayer.Header: envelope.String()}, Body: make([]byte, 500)}
		}
		r.Publish(unroutable+".keep", to, batch...)
		from += len(batch)
	}
	list := "/page/queue?queue=" + url.QueryEscape(unroutable)
	require.Eventually(b, func() bool { return strings.Contains(p.look("/page/undelivered"), unroutable) }, time.Minute, 100*time.Millisecond)

	b.ResetTimer()
	began := time.Now()
	require.Contains(b, p.look(list), "the oldest first")
	b.ReportMetric(milliseconds(time.Since(began)), "list-ms")
	before, err := node.CPU()
	require.NoError(b, err)
	began = time.Now()
	p.post("/page/act", url.Values{"queue": {unroutable}, "action": {"retry"}, "which": {"all"}, "count": {strconv.Itoa(b.N)}, "sure": {"yes"}})
	require.Eventually(b, func() bool { return !strings.Contains(p.look("/page/job"), `data-next="1000"`) }, 20*time.Minute, 50*time.Millisecond)
	took := time.Since(began)
	after, err := node.CPU()
	require.NoError(b, err)
	require.Equal(b, b.N, r.Count(to), p.look("/page/job"))
	b.ReportMetric(took.Seconds(), "send-s")
	b.ReportMetric(float64(b.N)/took.Seconds(), "msg/s")
	b.ReportMetric(float64((after-before).Microseconds())/float64(b.N), "broker-µs")
	b.ReportMetric(p.memory(), "serve-MB")
	b.ReportMetric(0, "ns/op")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// A servedPage is that of a `delayer serve` in a process of its own, and somebody who is logged in
// there.
type servedPage struct {
	*person
	pid int
}

func startPage(b *testing.B, node *rabbit.Broker, prefix, backend string) servedPage {
	b.Helper()
	tokens := filepath.Join(b.TempDir(), "tokens")
	require.NoError(b, os.WriteFile(tokens, []byte("tokens: [{name: bob, sha256: "+sumOfBob+", rights: [view, act]}]"), 0o600))
	config := configFile(b, fmt.Sprintf("url: %s\nmanagement: %s\nprefix: %s\nbackend: %s\nserve:\n  http: {listen: 127.0.0.1:0, page: true, tokens: %s}\n",
		node.URL(), node.Management(), prefix, backend, tokens))
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, os.Args[0], "serve", "--config", config, "--log", "json")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	log, err := cmd.StderrPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { cancel(); _ = cmd.Wait() }) // it was killed
	address := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(log); lines.Scan(); {
			var line struct{ HTTP string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.HTTP != "" {
				address <- line.HTTP
			}
		}
	}()
	return servedPage{newPerson(b, "http://"+rabbittest.Next(b, address), "bob"), cmd.Process.Pid}
}

// look is a page as one sees it.
func (p servedPage) look(path string) string {
	status, text := p.get(path)
	require.Equal(p, http.StatusOK, status, text)
	return text
}

// memory is the most that the process has had, in MB.
func (p servedPage) memory() float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	require.NoError(p, err)
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes float64
	_, err = fmt.Sscan(after, &kilobytes)
	require.NoError(p, err)
	return kilobytes / (1 << 10)
}
