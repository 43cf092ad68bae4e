// Package service is what commands have in common that run until they are told to stop: the log,
// metrics, health.
package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/metrics"
)

// Flags are those of commands that run until they are told to stop.
type Flags struct {
	Listen string `placeholder:"ADDR" help:"Serve /metrics, /healthz and /readyz at this address, such as 127.0.0.1:9090, without encryption or password."`
	Pprof  bool   `help:"Serve /debug/pprof at --listen too."`
	Log    string `default:"text" enum:"text,json" help:"The format of the log: text or json (default ${default})."`
}

// Validate makes flags that do not fit together a usage error.
func (f *Flags) Validate() error {
	if f.Pprof && f.Listen == "" {
		return errors.New("--pprof: give --listen too")
	}
	return nil
}

// A Service is what the operator sees of a command that runs: its log, and what it serves.
type Service struct {
	Log      *slog.Logger
	observer delayer.Observer
	running  context.Context // ends when the command is told to stop

	registry    *prometheus.Registry // nil: nothing is served
	gauges      []interface{ Close() }
	connections connections
	ready       atomic.Pointer[func() error] // beside the connections; nil: nothing
	server      *http.Server
	done        chan struct{} // closed when the server has ended
}

// Start takes the address before the command begins its work. Close ends what it starts.
func (f *Flags) Start(ctx context.Context, stderr io.Writer) (*Service, error) {
	s := &Service{Log: slog.New(slog.NewTextHandler(stderr, nil)), running: ctx}
	s.observer.Connection = s.connections.change
	if f.Log == "json" {
		s.Log = slog.New(slog.NewJSONHandler(stderr, nil))
	}
	if f.Listen == "" {
		return s, nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", f.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w (give an address of this machine with a free port)", err)
	}
	s.measure()
	const headersWithin = 5 * time.Second
	s.server = &http.Server{
		Handler: s.handler(f.Pprof), ReadHeaderTimeout: headersWithin,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
	}
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error("metrics are not served any more", "error", err)
		}
	}()
	s.Log.Info("metrics are served", "address", listener.Addr().String())
	return s, nil
}

func (s *Service) measure() {
	m := metrics.New()
	s.registry = prometheus.NewRegistry()
	s.registry.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s.observer = m.Observer()
	count := s.observer.Connection
	s.observer.Connection = func(e delayer.ConnectionEvent) {
		count(e)
		s.connections.change(e)
	}
}

func (s *Service) handler(profiles bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	s.Health(mux)
	if profiles {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol) // go tool pprof asks so
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// Ready makes /readyz ask whether the command does what it is for, once the broker is connected.
func (s *Service) Ready(ask func() error) { s.ready.Store(&ask) }

// Health adds /healthz, whether the process works, and /readyz, whether the broker can be used.
func (s *Service) Health(mux *http.ServeMux) {
	ok := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }
	mux.HandleFunc("GET /healthz", ok)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		err := s.connections.ready()
		if ready := s.ready.Load(); err == nil && ready != nil {
			err = (*ready)()
		}
		if s.running.Err() != nil {
			err = errors.New("stopping")
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		ok(w, r)
	})
}

// Configure gives a Delayer the log and the observer, and serves what its queues hold.
func (s *Service) Configure(cfg *backend.Config) {
	cfg.Logger, cfg.Observer = s.Log, s.observer
	s.Register(func() prometheus.Collector { return NewQueueGauges(s.running, *cfg) })
	if cfg.Management != "" {
		s.Register(func() prometheus.Collector { return NewPolicyGauges(s.running, *cfg) })
	}
}

// Register serves more metrics, until Close closes them where they can be closed. They are made
// only where metrics are served: otherwise nobody would close them.
func (s *Service) Register(open func() prometheus.Collector) {
	if s.registry == nil {
		return
	}
	c := open()
	s.registry.MustRegister(c)
	if g, is := c.(interface{ Close() }); is {
		s.gauges = append(s.gauges, g)
	}
}

// Close ends the server, and gives answers that are under way some seconds.
func (s *Service) Close() {
	if s.server == nil {
		return
	}
	const within = 5 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close()
	}
	<-s.done
	for _, g := range s.gauges {
		g.Close()
	}
}

// connections count those to the broker.
type connections struct {
	mu         sync.Mutex
	open, down int
}

func (c *connections) change(e delayer.ConnectionEvent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Was == delayer.ConnectionClosed {
		c.open++
	}
	if e.Was == delayer.ConnectionDown {
		c.down--
	}
	switch e.Now {
	case delayer.ConnectionClosed:
		c.open--
	case delayer.ConnectionDown:
		c.down++
	}
}

func (c *connections) ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open == 0:
		return errors.New("not connected to the broker")
	case c.down > 0:
		return fmt.Errorf("lost %d of %d connections to the broker", c.down, c.open)
	}
	return nil
}
