package main

import (
	"cmp"
	"log/slog"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/engine"
)

// chosenFlags select the Delayers of a configuration by what they declare.
type chosenFlags struct {
	Prefix  string `placeholder:"NAME" help:"The prefix, instead of the configuration's."`
	Backend string `placeholder:"NAME" help:"The backend, instead of the configuration's: ${backends}."`
}

// choose overrides the configuration. The errors are those of Open.
func (f *chosenFlags) choose(cfg backend.Config) (backend.Config, error) {
	def := backend.Default()
	cfg.Backend = cmp.Or(f.Backend, cfg.Backend, def.Backend)
	cfg.Prefix = cmp.Or(f.Prefix, cfg.Prefix, def.Prefix)
	cfg.Logger = slog.New(slog.DiscardHandler) // the error says it all
	_, err := backend.Topology(cfg)
	return cfg, err
}

// targetFlags select the Delayers of a configuration on a broker.
type targetFlags struct {
	managedFlags `set:"wait=How long the broker may take"`
	chosenFlags
}

// load reads the configuration; the flags override it.
func (f *targetFlags) load() (backend.Config, error) {
	cfg, err := f.configFlag.load()
	if err != nil {
		return cfg, err
	}
	if cfg, err = f.choose(cfg); err != nil {
		return cfg, err
	}
	if cfg, err = f.override(cfg); err != nil {
		return cfg, err
	}
	_, err = engine.Resolve(cfg.Options, cfg.Backend)
	return cfg, err
}
