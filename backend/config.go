// Package backend opens a [delayer.Delayer] from a configuration. The backend is one line of a
// file.
//
// It links all backends and a YAML reader. A program that needs only one backend can open it by its
// own package, such as backend/binaryladder.
package backend

import (
	"errors"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/backend/native"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/strict"
)

// Config selects and shapes a backend. YAML, JSON ([Load], [Parse]) and environment variables
// ([FromEnv]) fill it; a field that is zero takes its default.
type Config struct {
	// Options are common to all backends.
	delayer.Options `yaml:",inline"`

	// Backend is the strategy: one of [Names], or [Auto]. Default: binaryladder.
	Backend string `yaml:"backend"`

	// BinaryLadder is used where Backend is binaryladder.
	BinaryLadder binaryladder.Config `yaml:"binaryladder"`
	// FixedTiers is used where Backend is fixedtiers.
	FixedTiers fixedtiers.Config `yaml:"fixedtiers"`
	// Controller is used where Backend is controller.
	Controller controller.Config `yaml:"controller"`
	// Native is used where Backend is native.
	Native native.Config `yaml:"native"`
}

// Default returns the values that zero fields of a Config stand for. Two defaults depend on other
// fields: BinaryLadder.Steps and FixedTiers.Prefix.
func Default() Config {
	return Config{
		Options: delayer.DefaultOptions(), Backend: binaryladder.Name,
		BinaryLadder: binaryladder.Default(), FixedTiers: fixedtiers.Default(),
		Controller: controller.Default(), Native: native.Default(),
	}
}

// Load reads a YAML or JSON file and then the environment, which wins (see [FromEnv]). Keys in
// neither have their defaults. Errors are ErrConfig.
func Load(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, engine.ConfigError(path, err, "give an existing file")
	}
	defer f.Close() //nolint:errcheck // read only
	cfg, err := Parse(f)
	if err != nil {
		return Config{}, err
	}
	return FromEnv(cfg, os.Environ())
}

// Parse reads a configuration in YAML or JSON. Unknown keys and values of the wrong type are
// errors, which name the key and what is allowed. A zero or empty value is an error unless it is
// the default, because zero means the default in a Config. Fields that the text does not name stay
// zero. Errors are ErrConfig.
func Parse(r io.Reader) (Config, error) {
	var cfg Config
	var doc yaml.Node
	dec := yaml.NewDecoder(r)
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return cfg, nil // an empty file says nothing
	case err != nil:
		return cfg, engine.ConfigError("configuration", strict.Plain(err), "want YAML or JSON")
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return cfg, engine.ConfigError("configuration", errors.New("holds more than one document"), "keep one")
	}
	named, err := strict.Decode("", doc.Content[0], &cfg, otherSections...)
	if err != nil {
		return cfg, err
	}
	return cfg, cfg.refuseZeros(named)
}

// otherSections are read by others: serve by the command.
var otherSections = []string{"serve"}

// refuseZeros refuses keys that a file sets to zero or empty although their default is another
// value.
func (c Config) refuseZeros(named []string) error {
	def := Default()
	byDefault := fields(&def)
	for i, f := range fields(&c) {
		if slices.Contains(named, f.name) && f.empty() && !byDefault[i].empty() {
			return engine.ConfigError(f.name, errors.New("zero or nothing is not a value for it"), "leave the key out for its default")
		}
	}
	return nil
}
