// Package plugin delays messages in an exchange of type x-delayed-message, which the plugin
// rabbitmq_delayed_message_exchange adds to the broker.
//
// # How a message waits
//
// In a table of the plugin's on the node that the publisher is connected to, not in a queue. When it is due the
// plugin routes it as the exchange's bindings then say. Each message has a timer of its own: none holds up another.
//
//	Publish ─→ <prefix>.plugin.wait ─(x-delay)→ <prefix>.delivery ─→ destination
//
// With Config.Exchange it is an existing x-delayed-message exchange of yours, with your bindings: Publish then takes
// that exchange only, messages go straight there, and nothing of ours is declared.
//
// # Limits
//
// Delays to 2^32 − 1 ms (49 days), rounded up to a millisecond; a longer one is refused, because the plugin would
// deliver it at once. An exchange of yours that has an alternate exchange is refused: the plugin gives that one a
// copy of every message at once. (Where a policy sets it, that cannot be seen over AMQP: do not.)
//
// # Guarantees
//
// One copy of a message, on one node, out of reach while that node is down. What waits survives a clean restart; what comes
// due while the broker starts is lost where its destination is not ready yet, as quorum queues are not (757 of 5,377 messages
// in four restarts under load). A crash may
// lose what was confirmed in the two seconds before it: the plugin's table is written to disk behind the confirm's
// back (32 of 4,992 in our measurement, with SIGKILL after the last confirm; none three seconds later). A
// message that falls due is taken out of the table as soon as it was handed to its queue, whether or not that has
// stored it. Disabling the plugin deletes all that waits.
//
// If the exchange where messages wait, or <prefix>.delivery, is deleted, messages that fall due before the next Publish
// declares it again are lost: there is no queue that could keep them. With an exchange of yours, what its bindings do
// not route when it is due is dropped, as in any exchange, and its Limits do not have KeepsUnroutable.
//
// # What it needs
//
// The plugin, enabled, and RabbitMQ up to 4.2: its last series, archived in 2026, relies on a store that 4.3 does not
// have. Permissions: configure, write and read on names that begin with the prefix, and write on the destinations;
// with an exchange of yours configure (to learn its type; it is not changed) and write on that.
//
// # What the consumer sees
//
// See the package comment of delayer: [delayer.Header], but nothing of dead-lettering. The delivery's exchange field
// names the exchange where the message waited. Beside that the plugin's header x-delay: the milliseconds that the
// message waited, as a negative number (32 bits: above 24 days it has wrapped around). With an exchange of yours it may
// be positive still, for the plugin's change does not reach the wire unless the message has BCC; such a message,
// dead-lettered to an x-delayed-message exchange, is delayed there again. Publish strips it.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/topology"
)

// Name is what the configuration calls this backend.
const Name = "plugin"

// About is what tables and reports say of this backend.
func About() delayer.About {
	return delayer.About{WaitsIn: "a table of the plugin's", Needs: "the plugin, RabbitMQ up to 4.2", Adds: []string{header}}
}

// Config says in which exchange messages wait.
type Config struct {
	// Exchange is an existing x-delayed-message exchange, which is then the only destination.
	// Default: none; messages wait in an exchange of our own, and go to any destination.
	Exchange string `yaml:"exchange"`
}

// Default returns the values that zero fields of a Config stand for.
func Default() Config { return Config{} }

// Open connects, makes sure of the plugin and declares what an exchange of our own needs. ctx
// bounds the opening only. Errors: ErrConfig names the field that is wrong; ErrUnavailable and
// ErrAccess concern the broker, a missing plugin is the former; ErrConflict says that an exchange
// is not what it should be. After an error nothing is left open.
//
// RemoveTopology of the Delayer leaves an exchange of yours. What waits in one of ours is lost when
// it is due.
func Open(ctx context.Context, opts delayer.Options, cfg Config) (delayer.Delayer, error) {
	settings, err := cfg.settings(opts)
	if err != nil {
		return nil, err
	}
	c, err := engine.Connect(ctx, settings)
	if err != nil {
		return nil, err
	}
	s, err := cfg.strategy(ctx, c, settings)
	if err != nil {
		c.Close()
		return nil, explain(err, c.Version)
	}
	e, err := c.Start(ctx, s)
	return engine.Opened(e, explain(err, c.Version))
}

// Topology returns what Open declares, which is nothing where the exchange is yours. It asks no
// broker. Errors are ErrConfig.
func Topology(opts delayer.Options, cfg Config) (delayer.Topology, error) {
	settings, err := cfg.settings(opts)
	if err != nil {
		return nil, err
	}
	if cfg.Exchange != "" {
		return topology.Plan{}, nil
	}
	s := &own{prefix: settings.Prefix, stage: settings.Stage()}
	return settings.Whole(s.Plan()), nil
}

// Limits returns what the plugin can do with this configuration. It asks no broker. Errors are
// ErrConfig.
func Limits(opts delayer.Options, cfg Config) (delayer.Limits, error) {
	if _, err := cfg.settings(opts); err != nil {
		return delayer.Limits{}, err
	}
	if cfg.Exchange != "" {
		return (&existing{}).Limits(), nil
	}
	return (&own{}).Limits(), nil
}

// strategy checks the exchange before anything else is declared.
func (c Config) strategy(ctx context.Context, conn *engine.Connected, s engine.Settings) (engine.Strategy, error) {
	if c.Exchange == "" {
		o := &own{prefix: s.Prefix, stage: s.Stage()}
		return o, conn.Declare(ctx, topology.Plan{Exchanges: o.Plan().Exchanges})
	}
	if err := inspect(ctx, conn, c.Exchange); err != nil {
		return nil, err
	}
	return &existing{exchange: c.Exchange, look: conn.Do}, nil
}

// settings are those of a delivery stage behind an exchange. It needs no discard queue, and no
// message blocks another: messages wait in no queue.
func (c Config) settings(opts delayer.Options) (engine.Settings, error) {
	s, err := engine.Resolve(opts, Name)
	if err != nil {
		return s, err
	}
	s.QueueType = delayer.Classic
	const maxName = 255
	switch {
	case len(c.Exchange) > maxName:
		return s, badConfig("exchange", "a name of %d bytes, AMQP allows %d", len(c.Exchange), maxName)
	case strings.HasPrefix(c.Exchange, s.Prefix+"."):
		return s, badConfig("exchange", "names that begin with %q belong to this Delayer", s.Prefix+".")
	}
	return s, nil
}

// growth is the size that a message gains with so many keys of ours in BCC.
func growth(keys int) message.Growth {
	return message.Growth{Keys: keys, HeaderSize: 1 + len(header) + 9}
}

func badConfig(field, format string, args ...any) error {
	return engine.ConfigError(Name+"."+field, fmt.Errorf(format, args...), "")
}

// explain adds a remedy to the broker's "unknown exchange type".
func explain(err error, version string) error {
	if err == nil || !unknownType(err) {
		return err
	}
	return &delayer.Error{
		Op: "open", Backend: Name, Kind: delayer.ErrUnavailable,
		Cause: errors.New("RabbitMQ " + version + " has no exchange type " + delayedMessage),
		Hint: "enable the plugin rabbitmq_delayed_message_exchange, which exists up to RabbitMQ 4.2; " +
			"or use backend binaryladder, fixedtiers or controller, which need none",
	}
}
