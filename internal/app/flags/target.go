package flags

import (
	"cmp"
	"log/slog"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

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
	cfg, err := f.File.Load()
	if err != nil {
		return cfg, err
	}
	if cfg, err = f.Choose(cfg); err != nil {
		return cfg, err
	}
	if cfg, err = f.override(cfg); err != nil {
		return cfg, err
	}
	_, err = engine.Resolve(cfg.Options, cfg.Backend)
	return cfg, err
}
