package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
)

// configFlag selects a configuration.
type configFlag struct {
	Config string `placeholder:"FILE" help:"The configuration of the Delayers, YAML or JSON. DELAYER_… variables override it."`
}

// load reads the file and the environment; without a file, the environment.
func (f *configFlag) load() (backend.Config, error) {
	if f.Config == "" {
		return backend.FromEnv(backend.Config{}, os.Environ())
	}
	return backend.Load(f.Config)
}

// brokerFlags say which broker, and what its Delayers are.
type brokerFlags struct {
	configFlag
	URL string `placeholder:"AMQP" help:"The broker, instead of the configuration's. Other users of this machine can see it: put a password into DELAYER_URL."`
}

// load reads the configuration; the flag overrides it.
func (f *brokerFlags) load() (backend.Config, error) {
	cfg, err := f.configFlag.load()
	if err != nil {
		return cfg, err
	}
	return f.override(cfg)
}

func (f *brokerFlags) override(cfg backend.Config) (backend.Config, error) {
	if cfg.URL = cmp.Or(f.URL, cfg.URL); cfg.URL == "" {
		return cfg, errors.New("no broker: give --config with a url, or set DELAYER_URL")
	}
	return cfg, nil
}

// openBriefly opens a Delayer for a command that ends soon. No controller runs in it: that would take
// messages only to give them back.
func openBriefly(ctx context.Context, cfg backend.Config) (delayer.Delayer, error) {
	cfg.Logger = slog.New(slog.DiscardHandler) // the error is enough
	cfg.Controller.Run = delayer.Off
	return backend.Open(ctx, cfg)
}

// timeoutFlag bounds a command. Whoever embeds it may say with wait what it bounds.
type timeoutFlag struct {
	Timeout time.Duration `default:"${timeout=30s}" help:"${wait=Give up after this time} (${default})."`
}

// Validate refuses invalid values as usage errors.
func (f *timeoutFlag) Validate() error {
	if f.Timeout <= 0 {
		return errors.New("--timeout must be positive")
	}
	return nil
}

// within returns a context that ends after the timeout.
func (f *timeoutFlag) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, f.Timeout)
}

// managedFlags are those of a command that asks a broker and its management API.
type managedFlags struct {
	brokerFlags
	Management string `placeholder:"HTTP" help:"The management API, instead of the configuration's. Put a password into DELAYER_MANAGEMENT."`
	timeoutFlag
}

// load reads the configuration; the flags override it.
func (f *managedFlags) load() (backend.Config, error) {
	cfg, err := f.configFlag.load()
	if err != nil {
		return cfg, err
	}
	return f.override(cfg)
}

func (f *managedFlags) override(cfg backend.Config) (backend.Config, error) {
	cfg.Management = cmp.Or(f.Management, cfg.Management)
	return f.brokerFlags.override(cfg)
}
