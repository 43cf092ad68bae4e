// Package plugin delays messages in an exchange of type x-delayed-message, which the plugin
// rabbitmq_delayed_message_exchange adds to the broker.
//
//	d, err := plugin.Open(ctx, plugin.Config{Options: delayer.Options{URL: url}})
//
// # How a message waits
//
// A message waits in a table of the plugin, on the node that the publisher is connected to. It is
// in no queue. When it is due, the plugin routes it by the bindings that the exchange then has.
// Messages do not block each other.
//
//	Publish ─→ <prefix>.plugin.wait ─(x-delay)→ <prefix>.delivery ─→ destination
//
// [Config].Exchange may name an existing x-delayed-message exchange, with your bindings. Publish
// then takes that exchange only, messages go straight there, and nothing else is declared.
//
// # Limits
//
// Delays up to 2^32 − 1 ms (49 days), rounded up to a millisecond. A longer delay is refused,
// because the plugin would deliver the message at once.
//
// An exchange of yours that has an alternate exchange is refused: the plugin gives that one a copy
// of every message at once. AMQP does not show an alternate exchange that a policy sets.
//
// # Guarantees
//
// There is one copy of a message, on one node. It cannot be reached while that node is down.
// Disabling the plugin deletes all that waits.
//
// A clean restart keeps what waits. But messages that are due while the broker starts are lost if
// their destination is not ready, and quorum queues are not ready at first. A crash may lose what
// was confirmed in the two seconds before it, because the plugin writes its table to disk after the
// confirm. A due message is removed from the table when it is handed to its queue, before the queue
// has stored it. docs/results/faults.md has the numbers.
//
// If the exchange where messages wait, or <prefix>.delivery, is deleted, messages that are due
// before it is declared again are lost: no queue could keep them. With an exchange of yours,
// messages that its bindings do not route when they are due are dropped, and Limits.KeepsUnroutable
// is false.
//
// # What it needs
//
// The plugin, enabled, and RabbitMQ 3.10 to 4.2: the plugin's last release is for 4.2. Permissions
// to configure, write and read names that begin with the prefix, and to write to the destinations.
// With an exchange of yours: to configure it, which is how its type is learned (it is not changed),
// and to write to it.
//
// # What the consumer sees
//
// [delayer.Header], and no headers of dead-lettering. The delivery's exchange field names the
// exchange where the message waited. See package delayer.
//
// Also the plugin's header x-delay: the milliseconds that the message waited, as a negative number.
// Before RabbitMQ 4.0 it has 32 bits, and wraps around above 24 days. With an exchange of yours it
// is still positive before RabbitMQ 3.13, where the plugin's change is sent only for messages with
// BCC. Such a message is delayed again if it is dead-lettered to an x-delayed-message exchange.
// Publish removes the header.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

// Name is the name of this backend in a configuration.
const Name = "plugin"

// About describes this backend for tables and reports.
func About() delayer.About {
	return delayer.About{Adds: []string{header}, InExchange: true}
}

// Config says in which exchange messages wait. A zero field means its default.
type Config struct {
	// Options are common to all backends. A backend.Config, and so a file, has them at its top
	// level: there this field must be zero.
	Options delayer.Options `yaml:"-"`

	// Exchange names an existing x-delayed-message exchange, which is then the only destination.
	// Default: none. Messages then wait in an exchange of the Delayer's own, and go to any
	// destination.
	Exchange string `yaml:"exchange"`
}

// Default returns the defaults of a Config.
func Default() Config { return Config{} }

// Open connects, checks that the plugin is there, and declares what is needed. ctx bounds the
// opening only.
//
// ErrConfig names the field that is wrong. ErrUnavailable and ErrAccess concern the broker; a
// missing plugin is the former. ErrConflict means that an exchange is not what it should be, or
// that a policy would harm it. After an error nothing is left open.
func Open(ctx context.Context, cfg Config) (delayer.Delayer, error) {
	settings, err := cfg.settings()
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

// Topology returns what Open declares, which is nothing if the exchange is yours. It asks no
// broker. Errors are ErrConfig.
func Topology(cfg Config) (topology.Plan, error) {
	settings, err := cfg.settings()
	if err != nil {
		return topology.Plan{}, err
	}
	if cfg.Exchange != "" {
		return topology.Plan{}, nil
	}
	s := &own{prefix: settings.Prefix, stage: settings.Stage()}
	return settings.Whole(s.Plan()), nil
}

// Limits returns what the plugin can do with this configuration. It asks no broker. Errors are
// ErrConfig.
func Limits(cfg Config) (delayer.Limits, error) {
	if _, err := cfg.settings(); err != nil {
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
	return &existing{exchange: c.Exchange, look: conn.Control().Do}, nil
}

// settings are those of a delivery stage behind an exchange: it needs nothing that quorum queues
// need, and there is no queue where one message could block another.
func (c Config) settings() (engine.Settings, error) {
	s, err := engine.Resolve(c.Options, Name)
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

// guarantees returns the Limits of this backend, the same for both kinds of exchange.
func guarantees() delayer.Limits {
	return delayer.Limits{
		Max:               longest,
		Resolution:        time.Millisecond,
		Ordered:           true,
		ReportsUnroutable: true,
		ExactTopics:       true,
		MaxPriority:       engine.AnyPriority, // nothing waits in a queue
	}
}

// header is how the plugin is told for how many milliseconds to keep a message.
const header = "x-delay"

// headerSize is what it adds to a message: its name, and an integer of 64 bits with its type.
const headerSize = 1 + len(header) + 9

// longest is the longest delay of the plugin. It delivers a longer one at once.
const longest = math.MaxUint32 * time.Millisecond

// await returns the header for a delay between 0 and longest: in milliseconds, rounded up, and one
// more. The plugin cuts the time of day off to milliseconds before it adds the delay, so that a
// message may be due up to one millisecond early.
//
// The longest delay has no room for that millisecond: such a message is published a millisecond
// later instead.
func await(ctx context.Context, delay time.Duration) (amqp091.Table, error) {
	ms := int64((delay+time.Millisecond-1)/time.Millisecond) + 1
	if ms > math.MaxUint32 {
		ms = math.MaxUint32
		if pace.Sleep(ctx, time.Millisecond) != nil {
			return nil, broker.Explain("publish", Name, "", context.Cause(ctx))
		}
	}
	return amqp091.Table{header: ms}, nil
}

func badConfig(field, format string, args ...any) error {
	return engine.ConfigError(Name+"."+field, fmt.Errorf(format, args...), "")
}

// explain adds a remedy to the broker's "unknown exchange type".
func explain(err error, version string) error {
	// The broker closes the connection with 503. The text tells this from other errors with that
	// code.
	if err == nil || !said(err, "exchange type '"+delayedMessage+"'") {
		return err
	}
	return &delayer.Error{
		Op: "open", Backend: Name, Kind: delayer.ErrNotFound,
		Cause: errors.New("RabbitMQ " + version + " has no exchange type " + delayedMessage),
		Hint: "enable the plugin rabbitmq_delayed_message_exchange, which exists up to RabbitMQ 4.2; " +
			"or use backend binaryladder, fixedtiers or controller, which need none",
	}
}

// delayedMessage is the exchange type that the plugin adds.
const delayedMessage = "x-delayed-message"

// own is the [engine.Strategy] of an exchange of our own, <prefix>.plugin.wait.
type own struct {
	prefix string
	stage  delivery.Stage
}

// Plan is the exchange where messages wait. It routes as a fanout: all messages go to the delivery
// exchange, which routes by key. It has no alternate exchange: that would get a copy of every
// message at once.
func (s *own) Plan() topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: s.wait(), Kind: delayedMessage, DelayedKind: topology.Fanout}},
		Bindings:  []topology.Binding{{Source: s.wait(), Target: s.stage.Exchange(), ToExchange: true}},
	}
}

func (*own) Limits() delayer.Limits {
	limits := guarantees()
	limits.KeepsUnroutable = true
	return limits
}

func (*own) Growth() message.Growth { return message.Growth{Keys: 1, HeaderSize: headerSize} }

// Enter publishes with the keys that lead on from the delivery exchange. The plugin keeps all
// routing keys of a message, also those in BCC.
func (s *own) Enter(ctx context.Context, m engine.Wait) (engine.Entry, error) {
	headers, err := await(ctx, m.Delay)
	return engine.Entry{
		Exchange: s.wait(), Keys: m.Destinations, Headers: headers,
		Optional: true, // the broker takes a waiting message for an unroutable one
	}, err
}

func (s *own) wait() string { return s.prefix + ".plugin.wait" }
