// Package servecmd runs what stands beside a broker, and asks a command that listens whether it is
// well: delayer serve and health.
package servecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/app/api"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/page"
	"github.com/delayer-go/delayer/internal/app/proxy"
	"github.com/delayer-go/delayer/internal/app/service"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
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
	// AMQP is the proxy, if it has an address to listen at.
	AMQP proxy.Config `yaml:"amqp"`
}

// nothing reports whether there is neither an exchange, nor a recurring message, nor an API or proxy
// to serve.
func (c config) nothing() bool {
	return len(c.Exchanges) == 0 && len(c.Recurring) == 0 && c.HTTP.Listen == "" && c.AMQP.Listen == ""
}

var errNothing = engine.ConfigError("serve.exchanges", errors.New("there is nothing to serve"),
	"write backend: controller, or serve: {exchanges: [{name: orders, to: orders.delivery}]}, or serve: {http: {listen: 127.0.0.1:8081}}; docs/languages.md has more")

// Help says which backend is used.
func (c *Serve) Help() string {
	return "The section serve of the configuration says what is served, and backend how messages wait: binaryladder, unless it says another. " +
		"Without a configuration the backend is controller, unless DELAYER_BACKEND says another, and only its wheel is turned."
}

// Run serves until SIGTERM or Ctrl-C. The exit status is then 0.
func (c *Serve) Run(ctx context.Context, s cli.Streams) error {
	cfg, text, err := c.Read()
	if err != nil {
		return err
	}
	serves, err := parseConfig(text)
	if err != nil {
		return err
	}
	if cfg.Backend == "" && c.Config == "" {
		cfg.Backend = controller.Name
	}
	if cfg.Backend != controller.Name && serves.nothing() {
		return errNothing
	}
	running, err := c.Start(ctx, s.Err)
	if err != nil {
		return err
	}
	defer running.Close()
	running.Configure(&cfg)
	if serves.nothing() {
		running.Log.Info("a controller starts")
		if err := controller.Serve(ctx, cfg.Options, cfg.Controller); err != nil {
			return err
		}
		running.Log.Info("the controller has stopped; the messages that it held are back in the broker")
		return nil
	}
	if err := serve(ctx, cfg, serves, running); err != nil {
		return err
	}
	running.Log.Info("stopped")
	return nil
}

// serve passes on what is published to exchanges and by HTTP. With backend controller it also turns
// the wheel.
func serve(ctx context.Context, cfg backend.Config, serves config, running *service.Service) error {
	cfg.Controller.PublishOnly = false // services that publish leave that to this process
	log := running.Log
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return err
	}
	plan, err := backend.Topology(cfg)
	if err != nil {
		return err
	}
	files, err := serves.HTTP.Open()
	if err != nil {
		return err
	}
	var managed *management.Client // nil: there is no management API
	var vhost string
	if settings.Management != "" {
		if managed, vhost, err = settings.API(); err != nil {
			return err
		}
	}
	rates := page.NewRates()
	if serves.HTTP.Page {
		rates.Watch(&cfg)
	}
	running.Ready(func() error { return errors.New("exchanges are not served yet") })
	log.Info("connecting, and declaring what is missing")
	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // what is not confirmed is still in the queue of its entry
	scheduler, err := newScheduler(d, settings.Prefix, log, serves.Recurring)
	if err != nil {
		return err
	}
	times, passed := service.NewEntryTimes()
	passes := entry.Config{Settings: settings, Delayer: d, Prefetch: serves.Prefetch, Entries: serves.Exchanges, Passed: passed}
	for _, x := range plan.AllExchanges() {
		passes.Reserved = append(passes.Reserved, x.Name)
	}
	if serves.AMQP.Listen != "" {
		passes.Entries = append(slices.Clone(serves.Exchanges), entry.Proxied(settings.Prefix))
	}
	runner, err := entry.Open(ctx, passes)
	if err != nil {
		return err
	}
	defer runner.Close()
	ctx, stop := context.WithCancel(ctx)
	var passing sync.WaitGroup
	defer passing.Wait()
	defer stop()
	var between *proxy.Proxy
	if serves.AMQP.Listen != "" {
		if between, err = openProxy(ctx, serves.AMQP, settings, runner, running); err != nil {
			return err
		}
	}
	for _, spec := range passes.Entries {
		times.WithLabelValues(spec.Name, "dropped") // Prometheus sees no increase of what appears with 1
		log.Info("an exchange is served", "exchange", spec.Name, "to", spec.To, "allow", spec.Allow)
	}
	running.Register(func() prometheus.Collector { return times })
	running.Register(func() prometheus.Collector {
		return service.NewEntryGauges(ctx, log, func(ctx context.Context, tell func(exchange, state string, messages int)) error {
			depths, err := runner.Depths(ctx)
			for _, d := range depths {
				tell(d.Exchange, "waiting", d.Waiting)
				tell(d.Exchange, "parked", d.Parked)
			}
			return err
		})
	})
	running.Ready(runner.Ready)
	switch {
	case managed != nil:
		passing.Go(func() { watch(ctx, log, managed, vhost, settings.Prefix) })
	case len(serves.Exchanges) > 0: // AMQP does not show bindings
		log.Info("it is not known whether bindings go around delayer serve: give management")
	}
	if scheduler != nil {
		passing.Go(func() { scheduler.Run(ctx) })
	}
	passing.Go(func() { runner.Run(ctx) })
	if between != nil {
		passing.Go(func() { between.Serve(ctx) })
	}
	if serves.HTTP.Listen == "" {
		passing.Wait()
		return nil
	}
	answers, answered := service.NewHTTPTimes()
	running.Register(func() prometheus.Collector { return answers })
	parts := api.Parts{Delayer: d, Prefix: settings.Prefix, Health: running.Health, Answered: answered, Log: log}
	if serves.HTTP.Page {
		shown := page.Open(cfg, settings, runner.Depths)
		defer shown.Close()
		shown.Rates, shown.Tickets, shown.Tokens = rates, page.NewTickets(d), files.Tokens
		shown.Encrypted, shown.Log = serves.HTTP.TLS.CertFile != "", log
		parts.Page = page.New(shown)
	}
	return api.New(serves.HTTP, files, parts).Serve(ctx)
}

// openProxy listens for AMQP clients.
func openProxy(ctx context.Context, cfg proxy.Config, settings engine.Settings, runner *entry.Runner, running *service.Service) (*proxy.Proxy, error) {
	vhost, err := broker.Vhost(settings.URL)
	if err != nil {
		return nil, err
	}
	clients, counts, counted := service.NewProxyMetrics(proxy.Declared, proxy.Diverted, proxy.Passed)
	p, err := proxy.Open(ctx, cfg, proxy.Parts{
		Dial: func(ctx context.Context, certificate bool) (net.Conn, error) {
			return broker.DialSocket(ctx, settings.BrokerOptions("proxy"), certificate)
		},
		Fronts: runner.Fronts(), Vhost: vhost, Counted: counted, Log: running.Log,
		Connected: func(change int) { clients.Add(float64(change)) },
	})
	if err == nil {
		running.Register(func() prometheus.Collector { return clients })
		running.Register(func() prometheus.Collector { return counts })
	}
	return p, err
}

// lookEvery is how often the bindings of what is served are looked at.
const lookEvery = time.Minute

// watch warns of bindings that go around what is served, until ctx ends.
func watch(ctx context.Context, log *slog.Logger, api *management.Client, vhost, prefix string) {
	for {
		asking, cancel := context.WithTimeout(ctx, lookEvery)
		around, err := objects.Around(asking, api, vhost, prefix)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Warn("it is not known whether bindings go around delayer serve", "error", err)
		case len(around) > 0:
			log.Warn("bindings go around delayer serve", "bindings", objects.Summary(around))
		}
		_ = pace.Sleep(ctx, lookEvery)
	}
}

func parseConfig(text []byte) (config, error) {
	const usual, most = 500, 1<<16 - 1
	cfg := config{Prefetch: usual, HTTP: api.DefaultConfig(), AMQP: proxy.DefaultConfig()}
	if err := strict.Section(text, "serve", &cfg); err != nil {
		return cfg, err
	}
	if cfg.Prefetch <= 0 || cfg.Prefetch > most {
		return cfg, engine.ConfigError("serve.prefetch", fmt.Errorf("%d is not between 1 and %d", cfg.Prefetch, most), "leave it out for 500")
	}
	if err := entry.Check(cfg.Exchanges); err != nil {
		return cfg, engine.ConfigError("serve.exchanges", err, "")
	}
	if err := cfg.AMQP.Check(); err != nil {
		return cfg, err
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
	url := c.Address
	if !strings.Contains(url, "://") {
		url = "http://" + url + "/healthz"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
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
		return fmt.Errorf("%s answers %s: %s", url, answer.Status, text)
	}
	_, err = s.Out.Write(text)
	return err
}
