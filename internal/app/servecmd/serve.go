// Package servecmd runs what stands beside a broker, and asks a command that listens whether it is well:
// delayer serve and health.
package servecmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/flags"
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
}

const (
	usualPrefetch = 500
	mostPrefetch  = 1<<16 - 1
)

// Run serves until SIGTERM or Ctrl-C. The exit status is then 0.
func (c *Serve) Run(ctx context.Context, s cli.Streams) error {
	cfg, err := c.Load()
	if err != nil {
		return err
	}
	serves, err := readConfig(c.Config)
	if err != nil {
		return err
	}
	if cfg.Backend == "" && len(serves.Exchanges) == 0 {
		cfg.Backend = controller.Name
	}
	if cfg.Backend != controller.Name && len(serves.Exchanges) == 0 {
		return engine.ConfigError("serve.exchanges", errors.New("there is nothing to serve"),
			"write backend: controller, or serve: {exchanges: [{name: orders, to: orders.delivery}]}; docs/serve.md has more")
	}
	running, err := c.Start(ctx, s.Err)
	if err != nil {
		return err
	}
	defer running.Close()
	running.Configure(&cfg)
	if len(serves.Exchanges) == 0 {
		running.Log.Info("a controller starts")
		if err := backend.ServeController(ctx, cfg); err != nil {
			return err
		}
		running.Log.Info("the controller has stopped; the messages that it held are back in the broker")
		return nil
	}
	return serve(ctx, cfg, serves, running)
}

// serve passes on what is published to exchanges. With backend controller it also turns the wheel.
func serve(ctx context.Context, cfg backend.Config, serves config, running *service.Service) error {
	cfg.Controller.Run = delayer.On // services that publish leave that to this process
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return err
	}
	running.Log.Info("connecting, and declaring what is missing")
	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // what is not confirmed is still in the queue of its entry
	r, err := entry.Open(ctx, entry.Config{Settings: settings, Delayer: d, Prefetch: serves.Prefetch})
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.AddAll(ctx, serves.Exchanges); err != nil {
		return err
	}
	running.Register(service.NewBridgeCounter(r.Counts()))
	for _, e := range serves.Exchanges {
		running.Log.Info("an exchange is served", "exchange", e.Name, "to", e.To, "allow", e.Allow)
	}
	r.Run(ctx)
	return nil
}

// readConfig reads the section serve of a file; without a file there is none.
func readConfig(path string) (config, error) {
	cfg := config{Prefetch: usualPrefetch}
	if path == "" {
		return cfg, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return cfg, engine.ConfigError(path, err, "give an existing file")
	}
	return parseConfig(text)
}

func parseConfig(text []byte) (config, error) {
	cfg := config{Prefetch: usualPrefetch}
	if _, err := strict.Section(text, "serve", &cfg); err != nil {
		return cfg, err
	}
	if cfg.Prefetch <= 0 || cfg.Prefetch > mostPrefetch {
		return cfg, engine.ConfigError("serve.prefetch", fmt.Errorf("%d is not between 1 and %d", cfg.Prefetch, mostPrefetch), "leave it out for 500")
	}
	if err := entry.Check(cfg.Exchanges); err != nil {
		return cfg, engine.ConfigError("serve.exchanges", err, "")
	}
	return cfg, nil
}
