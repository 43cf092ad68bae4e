package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/delayertest"
	"github.com/delayer-go/delayer/internal/app/certificate"
	"github.com/delayer-go/delayer/internal/lab/certs"
)

// A logbook keeps what is logged, and tells who waits for a line.
type logbook struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines chan map[string]any
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	var line map[string]any
	_ = json.Unmarshal(p, &line)
	l.lines <- line
	return len(p), nil
}

// next waits for a line with this message.
func (l *logbook) next(t *testing.T, msg string) map[string]any {
	t.Helper()
	for {
		select {
		case line := <-l.lines:
			if line["msg"] == msg {
				return line
			}
		case <-time.After(time.Minute):
			t.Fatal("never logged:", msg)
		}
	}
}

// A server is an API that is served.
type server struct {
	address string
	log     *logbook
	stop    func() error
}

func serveAPI(t *testing.T, with func(*Config), d delayer.Delayer) *server {
	t.Helper()
	l := &logbook{lines: make(chan map[string]any, 1000)}
	a := apiOf(t, with, Parts{Delayer: d})
	a.Log = slog.New(slog.NewJSONHandler(l, nil))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- a.Serve(ctx) }()
	s := &server{log: l, stop: sync.OnceValue(func() error { cancel(); return <-ended })}
	t.Cleanup(func() { assert.NoError(t, s.stop()) })
	s.address = l.next(t, "the HTTP API is served")["http"].(string)
	return s
}

const fine = `{"key": "q", "delay": "1h", "text": "a body that is nobody's business"}`

// post returns the status of the answer, or 0 if there was none.
func post(t *testing.T, client *http.Client, address, token string) (status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/v1/messages", strings.NewReader(fine))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	answer, err := client.Do(request)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode
}

// TestServe_Files: tokens and the certificate are read again, and none of them is logged.
func TestServe_Files(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(secret string) {
		sum := sha256.Sum256([]byte(secret))
		require.NoError(t, os.WriteFile(path("tokens"), []byte("tokens: [{name: me, sha256: "+hex.EncodeToString(sum[:])+", rights: [publish], queues: [q]}]"), 0o600))
	}
	write("s3cret")
	first := certs.New(t, dir, "first")
	cert, key := first.Issue("server")
	d := delayertest.New(delayertest.Config{})
	s := serveAPI(t, func(c *Config) {
		c.Tokens, c.rereads, c.TLS = path("tokens"), 10*time.Millisecond, certificate.Files{CertFile: cert, KeyFile: key}
	}, d)
	client := func(trusted *certs.Authority) *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted.Pool}, DisableKeepAlives: true}
		return &http.Client{Transport: transport}
	}
	address := "https://" + s.address
	assert.Equal(t, 201, post(t, client(first), address, "s3cret"))
	assert.Equal(t, 401, post(t, client(first), address, "n3w"))
	write("n3w")
	second := certs.New(t, dir, "second")
	second.Issue("server")
	require.Eventually(t, func() bool { return post(t, client(second), address, "n3w") == 201 }, time.Minute, 10*time.Millisecond)
	assert.Equal(t, 401, post(t, client(second), address, "s3cret"))
	require.NoError(t, os.Remove(path("tokens")))
	s.log.next(t, "a file cannot be read again; what it said before is valid")
	assert.Equal(t, 201, post(t, client(second), address, "n3w"))
	require.NoError(t, s.stop())
	assert.NotContains(t, s.log.text.String(), "s3cret")
	assert.NotContains(t, s.log.text.String(), "nobody's business")
	assert.Len(t, d.Published(), 3)
}

// TestServe_Drains: what is under way when it is told to stop is answered, and no more is taken.
func TestServe_Drains(t *testing.T) {
	d := delayertest.New(delayertest.Config{Limits: delayer.Limits{Max: time.Hour}})
	b := blocked{d, make(chan struct{}), make(chan struct{})}
	s := serveAPI(t, nil, b)
	status := make(chan int, 1)
	go func() {
		status <- post(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+s.address, "")
	}()
	<-b.began
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			_ = conn.Close()
		}
		require.Error(t, err, "it still listens")
	}, time.Minute, time.Millisecond)
	close(b.let)
	assert.Equal(t, 201, <-status)
	require.NoError(t, <-stopped)
	assert.Len(t, d.Published(), 1)
}

// TestServe_UnreadBody: a client that never sends what it has announced does not keep its
// connection either where nobody wants that: without a token, or at a path that has no use for it.
func TestServe_UnreadBody(t *testing.T) {
	for head, want := range map[string]int{
		"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain": http.StatusRequestTimeout,
		"POST /v1/messages HTTP/1.1\r\nHost: elsewhere":                             http.StatusForbidden,
		"GET /healthz HTTP/1.1\r\nHost: localhost":                                  http.StatusOK,
		"POST /page/login HTTP/1.1\r\nHost: localhost":                              http.StatusNotFound,
		"GET /nowhere HTTP/1.1\r\nHost: localhost":                                  http.StatusNotFound,
	} {
		s := serveAPI(t, func(c *Config) { c.MaxConnections, c.bodyWithin = 1, 50*time.Millisecond }, delayertest.New(delayertest.Config{}))
		conn, err := net.Dial("tcp", s.address)
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
		_, err = fmt.Fprintf(conn, "%s\r\nContent-Length: 1000\r\n\r\n", head)
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, head)
		require.Equal(t, want, answer.StatusCode, head)
		require.NoError(t, answer.Body.Close())
		require.NoError(t, conn.Close())
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		assert.Equal(t, http.StatusCreated, post(t, client, "http://"+s.address, ""), "its place is free")
		require.NoError(t, s.stop())
	}
}
