// Package servecmd runs what stands beside a broker, and asks a command that listens whether it is
// well: delayer serve and health.
package servecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/app/api"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/page"
	"github.com/delayer-go/delayer/internal/app/service"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/strict"
)

// Serve is `delayer serve`.
type Serve struct {
	service.Flags
	flags.Broker
}

// config is the section serve of a configuration.
type config struct {
	// Exchanges are those that publishers publish to.
	Exchanges []entry.Spec `yaml:"exchanges"`
	// Prefetch is how many messages of an exchange are under way at a time. Default: 500.
	Prefetch int `yaml:"prefetch"`
	// Recurring are messages that are sent at the times of cron expressions.
	Recurring []recurringMessage `yaml:"recurring"`
	// HTTP is the HTTP API, if it has an address to listen at.
	HTTP api.Config `yaml:"http"`
}

// nothing reports whether there is neither an exchange, nor a recurring message, nor an API to
// serve.
func (c config) nothing() bool {
	return len(c.Exchanges) == 0 && len(c.Recurring) == 0 && c.HTTP.Listen == ""
}

const (
	usualPrefetch = 500
	mostPrefetch  = 1<<16 - 1
)

func defaultConfig() config { return config{Prefetch: usualPrefetch, HTTP: api.DefaultConfig()} }

var errNothing = engine.ConfigError("serve.exchanges", errors.New("there is nothing to serve"),
	"write backend: controller, or serve: {exchanges: [{name: orders, to: orders.delivery}]}, or serve: {http: {listen: 127.0.0.1:8080}}; docs/serve.md has more")

// Run serves until SIGTERM or Ctrl-C. The exit status is then 0.
func (c *Serve) Run(ctx context.Context, s cli.Streams) error {
	cfg, serves, err := c.read()
	if err != nil {
		return err
	}
	if cfg.Backend == "" && serves.nothing() {
		cfg.Backend = controller.Name
	}
	if cfg.Backend != controller.Name && serves.nothing() {
		return errNothing
	}
	reread := make(chan os.Signal, 1)
	signal.Notify(reread, syscall.SIGHUP) // which ends nothing, also where nothing is read again
	defer signal.Stop(reread)
	running, err := c.Start(ctx, s.Err)
	if err != nil {
		return err
	}
	defer running.Close()
	running.Configure(&cfg)
	if serves.nothing() {
		running.Log.Info("a controller starts")
		if err := backend.ServeController(ctx, cfg); err != nil {
			return err
		}
		running.Log.Info("the controller has stopped; the messages that it held are back in the broker")
		return nil
	}
	return c.serve(ctx, cfg, serves, running, reread)
}

// serve passes on what is published to exchanges and by HTTP. With backend controller it also turns
// the wheel.
func (c *Serve) serve(ctx context.Context, cfg backend.Config, serves config, running *service.Service, reread <-chan os.Signal) error {
	cfg.Controller.Run = delayer.On // services that publish leave that to this process
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return err
	}
	objects, err := backend.Topology(cfg)
	if err != nil {
		return err
	}
	files, err := serves.HTTP.Open()
	if err != nil {
		return err
	}
	times, passed := service.NewEntryTimes()
	rates := page.NewRates()
	if serves.HTTP.Page {
		rates.Watch(&cfg)
	}
	e := &entries{read: c.read, cfg: entry.Config{Settings: settings, Passed: passed}, log: running.Log}
	e.begin = func(exchange string) { times.WithLabelValues(exchange, "dropped") } // Prometheus sees no increase of what appears with 1
	for _, x := range objects.AllExchanges() {
		e.cfg.Reserved = append(e.cfg.Reserved, x.Name)
	}
	running.Ready(e.ready)
	running.Log.Info("connecting, and declaring what is missing")
	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // what is not confirmed is still in the queue of its entry
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	e.cfg.Delayer = d
	first, err := e.open(ctx, serves)
	if err != nil {
		return err
	}
	running.Register(func() prometheus.Collector { return times })
	running.Register(func() prometheus.Collector { return service.NewEntryGauges(ctx, running.Log, e.depths) })
	var passing sync.WaitGroup
	if settings.Management != "" {
		client, vhost, err := settings.API()
		if err != nil {
			return err
		}
		passing.Go(func() { e.watch(ctx, client, vhost) })
	}
	passing.Go(func() { e.run(ctx, first, reread) })
	if serves.HTTP.Listen != "" {
		times, answered := service.NewHTTPTimes()
		running.Register(func() prometheus.Collector { return times })
		parts := api.Parts{Delayer: d, Prefix: settings.Prefix, Health: running.Health, Answered: answered, Log: running.Log}
		if serves.HTTP.Page {
			shown, err := page.Open(cfg, e.depths)
			if err != nil {
				return err
			}
			defer shown.Close()
			shown.Rates, shown.Tickets, shown.Tokens = rates, page.NewTickets(cfg, d), files.Tokens()
			shown.Encrypted, shown.Log = serves.HTTP.TLS.CertFile != "", running.Log
			parts.Page = page.New(shown)
		}
		err = api.New(serves.HTTP, files, parts).Serve(ctx)
		stop() // if it could not serve, nothing goes on
	}
	passing.Wait()
	return err
}

// read reads the configuration; without a file there is no section serve.
func (c *Serve) read() (cfg backend.Config, serves config, err error) {
	cfg, text, err := c.Read()
	if err == nil {
		serves, err = parseConfig(text)
	}
	return cfg, serves, err
}

func parseConfig(text []byte) (config, error) {
	cfg := defaultConfig()
	if _, err := strict.Section(text, "serve", &cfg); err != nil {
		return cfg, err
	}
	if cfg.Prefetch <= 0 || cfg.Prefetch > mostPrefetch {
		return cfg, engine.ConfigError("serve.prefetch", fmt.Errorf("%d is not between 1 and %d", cfg.Prefetch, mostPrefetch), "leave it out for 500")
	}
	if err := entry.Check(cfg.Exchanges); err != nil {
		return cfg, engine.ConfigError("serve.exchanges", err, "")
	}
	return cfg, cfg.HTTP.Check()
}

// Health is `delayer health`, for images and machines without a program that asks by HTTP.
type Health struct {
	Address        string `arg:"" optional:"" default:"http://127.0.0.1:8080/healthz" help:"Where the command listens: a host and port, whose /healthz is asked, or a URL as of /readyz (default ${default})."`
	flags.Deadline `set:"timeout=3s"`
}

// Run fails unless the answer is 200.
func (c *Health) Run(ctx context.Context, s cli.Streams) error {
	ctx, cancel := c.Within(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%w (does the command run with --listen?)", err)
	}
	defer answer.Body.Close() //nolint:errcheck // read only
	const enough = 4 << 10
	text, err := io.ReadAll(io.LimitReader(answer.Body, enough))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s: %s", c.url(), answer.Status, text)
	}
	_, err = s.Out.Write(text)
	return err
}

// url completes the address as --listen has it: localhost:8080, or :8080 for this machine.
func (c *Health) url() string {
	switch {
	case strings.Contains(c.Address, "://"):
		return c.Address
	case strings.Contains(c.Address, "/"):
		return "http://" + c.Address
	}
	return "http://" + c.Address + "/healthz"
}
