package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/process"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A tally is what publishers and consumer saw, by the first two words of a message.
type tally struct {
	mu        sync.Mutex
	confirmed map[string]bool
	came      map[string]int
	early     []string
	latest    time.Duration
}

// arrived notes a message: its publisher's name and its number, when that published it, in ms since
// 1970, and its delay in ms.
func (y *tally) arrived(body string) {
	var name string
	var number, published, delay int64
	now := time.Now()
	_, err := fmt.Sscan(body, &name, &number, &published, &delay)
	y.mu.Lock()
	defer y.mu.Unlock()
	late := now.Sub(time.UnixMilli(published + delay))
	if err != nil || late < 0 {
		y.early = append(y.early, body)
	}
	y.latest = max(y.latest, late)
	y.came[body]++
}

// missing are the messages that were confirmed and have not come.
func (y *tally) missing() (bodies []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for body := range y.confirmed {
		if y.came[body] == 0 {
			bodies = append(bodies, body)
		}
	}
	return bodies
}

// consume notes what arrives until ctx ends, whatever becomes of the broker.
func (y *tally) consume(ctx context.Context, url string) {
	for ; ctx.Err() == nil; _ = pace.Sleep(ctx, 100*time.Millisecond) {
		conn, err := amqp091.Dial(url)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		if ch, err := conn.Channel(); err == nil && ch.Qos(1000, 0, false) == nil {
			if in, err := ch.Consume("in", "", false, false, false, false, nil); err == nil {
				for d := range in {
					y.arrived(string(d.Body))
					_ = d.Ack(false)
				}
			}
		}
		stop()
		_ = conn.Close()
	}
}

// publishes runs a publisher, which prints what was confirmed, until ctx ends.
func (y *tally) publishes(ctx context.Context, t *testing.T, url string, args ...string) (ended func()) {
	t.Helper()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.WaitDelay = environment(t, url, ""), time.Second
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var said rabbittest.Logbook
	said.ShowIfFailed(t, args[0])
	cmd.Stderr = &said
	process.DieWithParent(cmd)
	require.NoError(t, cmd.Start())
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			y.mu.Lock()
			y.confirmed[lines.Text()] = true
			y.mu.Unlock()
		}
	})
	return func() {
		reading.Wait()
		_ = cmd.Wait() // it was killed
		lines := strings.Split(said.String(), "\n")
		t.Logf("%s was told %d times that something failed, such as %s", args[0], len(lines)-1, lines[0])
	}
}

// TestServe_ProxyFaults kills two proxies twenty times and the broker five times, while publishers in
// three languages publish through both. What was confirmed arrives, and never early.
func TestServe_ProxyFaults(t *testing.T) {
	const asked, turns = "DELAYER_PROXY_FAULTS", 25
	if os.Getenv(asked) == "" {
		rabbittest.Skipf(t, "it takes minutes of a machine that does little else: set %s=1", asked)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	b := rabbittest.Own(t, rabbit.Options{})
	rig := rabbittest.NewRig(t, b)
	rig.Declare("in", amqp091.Table{"x-queue-type": "quorum"})
	ch := rig.Channel()
	require.NoError(t, ch.ExchangeDeclare("orders", "topic", true, false, false, false, nil))
	require.NoError(t, ch.QueueBind("in", "#", "orders", false, nil))

	binary := filepath.Join(t.TempDir(), "delayer")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	var log rabbittest.Logbook
	log.ShowIfFailed(t, "delayer serve")
	var proxies []*process.Service
	var urls []string
	for range 2 {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, free.Close())
		config := configFile(t, fmt.Sprintf("url: %s\nbackend: controller\nserve: {amqp: {listen: %q}}\n", b.URL(), free.Addr()))
		urls = append(urls, through(t, b.URL(), free.Addr().String()))
		proxies = append(proxies, process.Keep(func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, binary, "serve", "--config", config)
			cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, asked) })
			cmd.Stderr = &log
			process.DieWithParent(cmd)
			return cmd
		}))
	}
	defer func() {
		for _, p := range proxies {
			p.Close()
		}
	}()

	y := &tally{confirmed: map[string]bool{}, came: map[string]int{}}
	consuming, stop := context.WithCancel(ctx)
	var consumer sync.WaitGroup
	consumer.Go(func() { y.consume(consuming, b.URL()) })
	defer consumer.Wait()
	defer stop()
	publishing, enough := context.WithCancel(ctx)
	defer enough()
	var publishers []func()
	for _, run := range [][]string{{"/usr/bin/python3", "testdata/publish.py"}, {"node", "testdata/publish.js"}, {"php", "testdata/publish.php"}} {
		publishers = append(publishers, y.publishes(publishing, t, b.URL(), append(run, urls...)...))
	}
	count := func() int {
		y.mu.Lock()
		defer y.mu.Unlock()
		return len(y.confirmed)
	}
	goesOn := func() {
		t.Helper()
		since := count()
		require.Eventually(t, func() bool { return count() > since+100 }, 2*time.Minute, 10*time.Millisecond)
	}
	goesOn()
	began := time.Now()
	var killed, restarted int
	for turn := range turns {
		require.NoError(t, pace.Sleep(ctx, time.Duration(300+rand.IntN(2200))*time.Millisecond))
		if turn%5 == 4 {
			require.NoError(t, b.Kill())
			require.NoError(t, b.Run(ctx))
			restarted++
			goesOn()
		} else {
			require.NoError(t, proxies[turn%2].Kill(ctx))
			killed++
		}
	}
	goesOn()
	t.Logf("%d kills of a proxy and %d of the broker in %v", killed, restarted, time.Since(began).Round(time.Second))
	enough()
	for _, ended := range publishers {
		ended()
	}
	assert.Eventually(t, func() bool { return len(y.missing()) == 0 }, 8*time.Minute, 100*time.Millisecond)

	lost := y.missing()
	y.mu.Lock()
	defer y.mu.Unlock()
	by, twice := map[string]int{}, 0
	for body := range y.confirmed {
		name, _, _ := strings.Cut(body, " ")
		by[name]++
	}
	for _, n := range y.came {
		twice += n - 1
	}
	t.Logf("confirmed %v; arrived %d, %d of them twice, at most %v late; lost %d; early %d",
		by, len(y.came), twice, y.latest.Round(time.Millisecond), len(lost), len(y.early))
	assert.Empty(t, lost)
	assert.Empty(t, y.early)
	assert.Len(t, by, 3)
}
