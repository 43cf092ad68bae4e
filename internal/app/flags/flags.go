// Package flags reads which broker, configuration, backend and prefix a command is for.
package flags

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// File selects a configuration.
type File struct {
	Config string `placeholder:"FILE" help:"The configuration of the Delayers, YAML or JSON. DELAYER_… variables override it."`
}

// Load reads the file and the environment; without a file, the environment.
func (f *File) Load() (backend.Config, error) {
	cfg, _, err := f.Read()
	return cfg, err
}

// Read does what Load does, and also returns the text of the file: it may have sections that are
// none of the Delayers'. Without a file the text is empty.
func (f *File) Read() (cfg backend.Config, text []byte, err error) {
	if f.Config != "" {
		if text, err = os.ReadFile(f.Config); err != nil {
			return cfg, nil, engine.ConfigError(f.Config, err, "give an existing file")
		}
	}
	if cfg, err = backend.Parse(bytes.NewReader(text)); err != nil {
		return cfg, nil, err
	}
	cfg, err = backend.FromEnv(cfg, os.Environ())
	return cfg, text, err
}

// Broker says which broker, and what its Delayers are.
type Broker struct {
	File
	URL string `placeholder:"AMQP" help:"The broker, instead of the configuration's. Other users of this machine can see it: put a password into DELAYER_URL."`
}

// Load reads the configuration; the flag overrides it.
func (f *Broker) Load() (backend.Config, error) {
	cfg, _, err := f.Read()
	return cfg, err
}

// Read is [File.Read]; the flag overrides the configuration.
func (f *Broker) Read() (cfg backend.Config, text []byte, err error) {
	cfg, text, err = f.File.Read()
	if cfg.URL = cmp.Or(f.URL, cfg.URL); err == nil && cfg.URL == "" {
		err = errors.New("no broker: give --config with a url, or set DELAYER_URL")
	}
	return cfg, text, err
}

// OpenBriefly opens a Delayer for a command that ends soon. No controller runs in it: that would
// take messages only to give them back.
func OpenBriefly(ctx context.Context, cfg backend.Config) (delayer.Delayer, error) {
	cfg.Logger = slog.New(slog.DiscardHandler) // the error is enough
	cfg.Controller.PublishOnly = true
	return backend.Open(ctx, cfg)
}

// Deadline bounds a command. Whoever embeds it may say with wait what it bounds.
type Deadline struct {
	Timeout time.Duration `default:"${timeout=30s}" help:"${wait=Give up after this time} (default ${default})."`
}

// Validate refuses invalid values as usage errors.
func (f *Deadline) Validate() error {
	if f.Timeout <= 0 {
		return errors.New("--timeout must be positive")
	}
	return nil
}

// Within returns a context that ends after the timeout.
func (f *Deadline) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, f.Timeout)
}

// Managed is for a command that asks a broker and its management API.
type Managed struct {
	Broker
	Management string `placeholder:"HTTP" help:"The management API, instead of the configuration's. Put a password into DELAYER_MANAGEMENT."`
	Deadline
}

// Load reads the configuration; the flags override it.
func (f *Managed) Load() (backend.Config, error) {
	cfg, err := f.Broker.Load()
	cfg.Management = cmp.Or(f.Management, cfg.Management)
	return cfg, err
}

// Choice selects the Delayers of a configuration by what they declare.
type Choice struct {
	Prefix  string `placeholder:"NAME" help:"The prefix, instead of the configuration's."`
	Backend string `placeholder:"NAME" help:"The backend, instead of the configuration's: ${backends}."`
}

// Choose overrides the configuration. The errors are those of Open.
func (f *Choice) Choose(cfg backend.Config) (backend.Config, error) {
	def := backend.Default()
	cfg.Backend = cmp.Or(f.Backend, cfg.Backend, def.Backend)
	cfg.Prefix = cmp.Or(f.Prefix, cfg.Prefix, def.Prefix)
	cfg.Logger = slog.New(slog.DiscardHandler) // the error says it all
	_, err := backend.Topology(cfg)
	return cfg, err
}

// Target selects the Delayers of a configuration on a broker.
type Target struct {
	Managed `set:"wait=How long the broker may take"`
	Choice
}

// Load reads the configuration; the flags override it.
func (f *Target) Load() (backend.Config, error) {
	cfg, err := f.Managed.Load()
	if err == nil {
		cfg, err = f.Choose(cfg)
	}
	if err == nil {
		_, err = engine.Resolve(cfg.Options, cfg.Backend)
	}
	return cfg, err
}
