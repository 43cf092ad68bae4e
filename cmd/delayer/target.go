package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/engine"
)

// configFlags select a configuration.
type configFlags struct {
	Config  string `placeholder:"FILE" help:"The configuration of the Delayers, YAML or JSON. DELAYER_… variables override it."`
	Prefix  string `placeholder:"NAME" help:"The prefix, instead of the configuration's."`
	Backend string `placeholder:"NAME" help:"The backend, instead of the configuration's: ${backends}."`
}

// load reads the configuration; the flags override it. The errors are those of Open.
func (f *configFlags) load() (backend.Config, error) {
	cfg, err := loadConfig(f.Config)
	if err != nil {
		return cfg, err
	}
	def := backend.Default()
	cfg.Backend = cmp.Or(f.Backend, cfg.Backend, def.Backend)
	cfg.Prefix = cmp.Or(f.Prefix, cfg.Prefix, def.Prefix)
	cfg.Logger = slog.New(slog.DiscardHandler) // the error says it all
	_, err = backend.Topology(cfg)
	return cfg, err
}

// targetFlags select a configuration on a broker.
type targetFlags struct {
	configFlags
	URL        string        `placeholder:"AMQP" help:"The broker, instead of the configuration's. Other users of this machine can see it: put a password into DELAYER_URL."`
	Management string        `placeholder:"HTTP" help:"The management API, instead of the configuration's. Put a password into DELAYER_MANAGEMENT."`
	Timeout    time.Duration `default:"30s" help:"How long the broker may take (${default})."`
}

// Validate refuses invalid values as usage errors.
func (f *targetFlags) Validate() error {
	if f.Timeout <= 0 {
		return errors.New("--timeout must be positive")
	}
	return nil
}

// load is that of configFlags for a command that needs a broker.
func (f *targetFlags) load() (backend.Config, error) {
	cfg, err := f.configFlags.load()
	if err != nil {
		return cfg, err
	}
	cfg.URL = cmp.Or(f.URL, cfg.URL)
	cfg.Management = cmp.Or(f.Management, cfg.Management)
	if cfg.URL == "" {
		return cfg, errNoURL
	}
	_, err = engine.Resolve(cfg.Options, cfg.Backend)
	return cfg, err
}

// within bounds what the broker is asked.
func (f *targetFlags) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, f.Timeout)
}
