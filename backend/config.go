// Package backend opens a [delayer.Delayer] from a configuration. The backend is one line of a
// file.
//
// It links all backends and a YAML reader. A program that needs only one backend can open it by its
// own package, such as backend/binaryladder.
package backend

import (
	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/backend/plugin"
)

// Config selects and shapes a backend. YAML, JSON ([Load], [Parse]) and environment variables
// ([FromEnv]) fill it; a field that is zero takes its default.
type Config struct {
	// Options are common to all backends.
	delayer.Options `yaml:",inline"`

	// Backend is the strategy: one of [Names]. Default: binaryladder.
	Backend string `yaml:"backend"`

	// BinaryLadder is used where Backend is binaryladder.
	BinaryLadder binaryladder.Config `yaml:"binaryladder"`
	// FixedTiers is used where Backend is fixedtiers.
	FixedTiers fixedtiers.Config `yaml:"fixedtiers"`
	// Plugin is used where Backend is plugin.
	Plugin plugin.Config `yaml:"plugin"`
	// Controller is used where Backend is controller.
	Controller controller.Config `yaml:"controller"`
}

// Default returns the values that zero fields of a Config stand for. Two defaults depend on other
// fields: BinaryLadder.Steps and FixedTiers.Prefix.
func Default() Config {
	return Config{
		Options: delayer.DefaultOptions(), Backend: binaryladder.Name,
		BinaryLadder: binaryladder.Default(), FixedTiers: fixedtiers.Default(), Plugin: plugin.Default(),
		Controller: controller.Default(),
	}
}
