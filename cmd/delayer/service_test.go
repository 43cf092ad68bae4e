package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// A runningService is a command that serves its metrics.
type runningService struct {
	address string
	http    <-chan string // the address of its HTTP API, once that is served
	amqp    <-chan string // and of its proxy
	logged  func() string
	stop    func() (status int)
}

// serve runs a command with --listen and --log json until stop.
func serve(t testing.TB, args ...string) runningService {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	logged, log := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append(args, "--listen", "127.0.0.1:0", "--log", "json"), strings.NewReader(""), io.Discard, log)
		_ = log.Close()
	}()
	addresses, apis, proxies := make(chan string, 1), make(chan string, 1), make(chan string, 1)
	var mu sync.Mutex
	var all strings.Builder
	go func() {
		for lines := bufio.NewScanner(logged); lines.Scan(); {
			mu.Lock()
			all.WriteString(lines.Text() + "\n")
			mu.Unlock()
			var line struct{ Msg, Address, HTTP, AMQP string }
			if !assert.NoError(t, json.Unmarshal(lines.Bytes(), &line), lines.Text()) {
				continue
			}
			if line.Address != "" {
				addresses <- line.Address
			}
			if line.HTTP != "" {
				apis <- line.HTTP
			}
			if line.AMQP != "" {
				proxies <- line.AMQP
			}
		}
	}()
	s := runningService{http: apis, amqp: proxies, stop: sync.OnceValue(func() int { cancel(); return <-ended }), logged: func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}}
	select {
	case s.address = <-addresses:
	case status := <-ended:
		t.Fatal("it ended with", status)
	}
	t.Cleanup(func() { s.stop() })
	return s
}

// get returns the status and the body of an answer.
func (s runningService) get(t require.TestingT, path string) (status int, body string) {
	answer, err := http.Get("http://" + s.address + path)
	require.NoError(t, err)
	defer answer.Body.Close() //nolint:errcheck // it is read
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

// eventually waits for a line of /metrics. Its value must be one that stays.
func (s runningService) eventually(t *testing.T, line string) {
	t.Helper()
	s.eventuallyLike(t, regexp.QuoteMeta(line))
}

// eventuallyLike is eventually for a regular expression.
func (s runningService) eventuallyLike(t *testing.T, line string) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		_, body := s.get(t, "/metrics")
		require.Regexp(t, "(?m)^"+line+"$", body)
	}, time.Minute, 10*time.Millisecond)
}

func TestService_Controller(t *testing.T) {
	t.Parallel()
	url, prefix := rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	config := configFile(t, "url: "+url+"\nprefix: "+prefix+"\nbackend: controller\ncontroller: {wheel: rounds, tick: 100ms}\n")
	in := consume(t, channel(t, url), prefix+"-queue")
	s := serve(t, "serve", "--config", config, "--pprof")
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		status, body := s.get(t, "/readyz")
		require.Equal(t, http.StatusOK, status, body)
	}, time.Minute, 10*time.Millisecond)
	for path, want := range map[string]string{"/healthz": "ok", "/debug/pprof/cmdline": ""} {
		status, body := s.get(t, path)
		require.Equal(t, http.StatusOK, status, path)
		require.Contains(t, body, want)
	}
	s.eventually(t, `delayer_connections{backend="controller",state="up"} 4`)
	s.eventually(t, `delayer_messages{prefix="`+prefix+`",state="waiting"} 0`)

	status, _, stderr := command(t.Context(), t, "send", "--config", config, "--key", prefix+"-queue", "--delay", "50ms", "--body", "later")
	require.Equal(t, exitOK, status, stderr)
	require.Equal(t, "later", string((<-in).Body))
	s.eventually(t, `delayer_controller_held_messages 0`)
	require.Equal(t, exitOK, s.stop())
	_, err := net.Dial("tcp", s.address)
	require.Error(t, err, "nobody listens any more")
}

// TestService_AddressInUse: it is found before the broker is asked.
func TestService_AddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close() //nolint:errcheck // the test's end
	config := configFile(t, "url: amqp://guest:guest@127.0.0.1:1/\nbackend: controller\n")
	status, _, stderr := command(t.Context(), t, "serve", "--config", config, "--listen", taken.Addr().String())
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "delayer serve: --listen: listen tcp "+taken.Addr().String()+": bind: address already in use (give an address")
}
