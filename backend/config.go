// Package backend opens a [delayer.Delayer] from a configuration: which strategy stands behind the
// interface is one line of a file.
package backend

import (
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/internal/topology"
)

// Config selects and shapes a backend. It is a plain struct that YAML, JSON ([Load], [Parse]) and
// environment variables ([FromEnv]) fill; a field that is zero takes the default.
type Config struct {
	// URL is the broker's address, amqp:// or amqps://, with user name and password. Required. It may be several, of the
	// nodes of one cluster, separated by commas: each is tried in turn, and after a lost connection those that follow
	// the lost one first. Vhost and user name must be the same in all.
	URL string `yaml:"url"`

	// Management is the address of the broker's management API, http://user:password@host:15672 or https://, of a user
	// with the tag monitoring. Where it is given, Open refuses policies that would make messages early or lose them, and
	// looks for them every few seconds after; AMQP alone shows only some, and those late. Default: none.
	Management string `yaml:"management"`

	// TLSFiles are used with amqps:// addresses.
	TLSFiles TLS `yaml:"tls"`

	// Backend is the strategy. Default: binaryladder.
	Backend string `yaml:"backend"`

	// Prefix begins the name of every exchange and queue of ours; see also FixedTiers.Prefix. Default: delayer.
	Prefix string `yaml:"prefix"`

	// QueueType is quorum (the default: replicated, dead-letters at least once) or classic (faster, loses messages
	// in a crash).
	QueueType string `yaml:"queue_type"`

	// Declare says whether Open declares the exchanges and queues. Default (nil): true. With false an administrator has
	// imported them (`delayer topology print --format definitions`), and Open only looks whether they are there;
	// destinations are still bound. Routing keys may then have up to eight words.
	Declare *bool `yaml:"declare"`

	// Connections is how many connections publish, 1 to 64. Default: 1, which on a broker with few cores
	// is as fast as more.
	Connections int `yaml:"connections"`

	// BinaryLadder is used where Backend is binaryladder.
	BinaryLadder BinaryLadder `yaml:"binaryladder"`

	// FixedTiers is used where Backend is fixedtiers.
	FixedTiers FixedTiers `yaml:"fixedtiers"`

	// Plugin is used where Backend is plugin.
	Plugin Plugin `yaml:"plugin"`

	// Controller is used where Backend is controller.
	Controller Controller `yaml:"controller"`

	// TLS is used with amqps://, instead of TLSFiles. nil takes the system's CAs and what the URL's parameters say (cacertfile,
	// certfile, keyfile, server_name_indication).
	TLS *tls.Config `yaml:"-"`

	// Logger gets what happens to connections and destinations. nil is slog.Default().
	Logger *slog.Logger `yaml:"-"`
}

// BinaryLadder shapes the ladder; see package backend/binaryladder.
type BinaryLadder struct {
	// Levels is 1 to 28. Default: as many of BitsPerLevel and Tick as fit below 28 bits, 28 with one bit.
	Levels int `yaml:"levels"`
	// Tick is the resolution, in whole milliseconds. Default: 1s.
	Tick time.Duration `yaml:"tick"`
	// Routing is source (the default) or topic.
	Routing string `yaml:"routing"`
	// BitsPerLevel is 1 (the default) to 6; more than 1 needs routing source.
	BitsPerLevel int `yaml:"bits_per_level"`
}

// FixedTiers shapes the tiers; see package backend/fixedtiers.
type FixedTiers struct {
	// Tiers are the delays there are: at most 100, each a whole number of milliseconds. Default: 1m, 5m, 15m.
	Tiers []time.Duration `yaml:"tiers"`
	// Rounding is up (the default: a delay that is no tier waits until the next) or exact (it is refused).
	Rounding string `yaml:"rounding"`
	// MaxLength is how many messages a tier holds. Default: 1000000.
	MaxLength int `yaml:"max_length"`
	// Overflow is what happens when a tier is full: refuse (the default), or early, with queue_type classic only: the
	// oldest message is delivered before its time.
	Overflow string `yaml:"overflow"`
	// Prefix begins the names of the tiers, as in delay.1m.queue. Default: delay; where Config.Prefix is not its
	// default, that prefix and ".delay", so that tiers of different prefixes never meet.
	Prefix string `yaml:"prefix"`
}

// Plugin says where the plugin's messages wait; see package backend/plugin.
type Plugin struct {
	// Exchange is an existing exchange of type x-delayed-message, which is then the only destination. Default: none;
	// messages wait in an exchange of our own, and go to any destination.
	Exchange string `yaml:"exchange"`
}

// Controller shapes the controller's queues; see package backend/controller.
type Controller struct {
	// Levels is 1 to 28; more levels mean fewer hops for a long delay. Default: 20.
	Levels int `yaml:"levels"`
	// Tick is how long messages wait in the shortest queue, whole milliseconds up to 1m. Delays are exact to the
	// millisecond whatever it is. Default: 1s.
	Tick time.Duration `yaml:"tick"`
	// Run says whether a controller runs beside the Delayer. Default (nil): true. With false another process must run
	// one ([ServeController], or `delayer controller`), or messages wait until one does.
	Run *bool `yaml:"run"`
}

// Default is the configuration without a URL: each field that is zero in a Config is taken from here.
// Two defaults depend on other fields: BinaryLadder.Levels and FixedTiers.Prefix.
func Default() Config {
	return Config{
		Backend:     binaryladder.Name,
		Prefix:      defaultPrefix,
		QueueType:   string(topology.Quorum),
		Declare:     new(true),
		Connections: 1,
		BinaryLadder: BinaryLadder{
			Levels: 28, Tick: time.Second, Routing: string(binaryladder.Source), BitsPerLevel: 1,
		},
		FixedTiers: FixedTiers{
			Tiers:    []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute},
			Rounding: string(fixedtiers.Up), MaxLength: 1_000_000, Overflow: string(fixedtiers.Refuse),
			Prefix: defaultTierPrefix,
		},
		Controller: Controller{Levels: 20, Tick: time.Second, Run: new(true)},
	}
}

const (
	defaultPrefix     = "delayer"
	defaultTierPrefix = "delay" // what administrators of RabbitMQ call such queues
)

// withDefaults fills the fields that are zero. With several bits a level the default is as many levels
// as cover the same range.
func (c Config) withDefaults() Config {
	if c.BinaryLadder.Levels == 0 && c.BinaryLadder.BitsPerLevel > 1 {
		c.BinaryLadder.Levels = max(1, Default().BinaryLadder.Levels/c.BinaryLadder.BitsPerLevel)
	}
	if c.FixedTiers.Prefix == "" && c.Prefix != "" && c.Prefix != defaultPrefix {
		c.FixedTiers.Prefix = c.Prefix + "." + defaultTierPrefix
	}
	def := Default()
	from, to := fields(&def), fields(&c)
	for i := range to {
		if to[i].value.IsZero() {
			to[i].value.Set(from[i].value)
		}
	}
	return c
}
