// Package plugin delays messages in an exchange of type x-delayed-message, which the plugin
// rabbitmq_delayed_message_exchange adds to the broker.
//
//	d, err := plugin.Open(ctx, delayer.Options{URL: url})
//
// # How a message waits
//
// A message waits in a table of the plugin, on the node that the publisher is connected to. It is
// in no queue. When it is due, the plugin routes it by the bindings that the exchange then has.
// Messages do not block each other.
//
//	Publish ─→ <prefix>.plugin.wait ─(x-delay)→ <prefix>.delivery ─→ destination
//
// # Limits
//
// Delays up to 2^32 − 1 ms (49 days), rounded up to a millisecond. A longer delay is refused,
// because the plugin would deliver the message at once.
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
// has stored it. docs/measured.md has the numbers.
//
// If the exchange where messages wait, or <prefix>.delivery, is deleted, messages that are due
// before it is declared again are lost: no queue could keep them.
//
// # What it needs
//
// The plugin, enabled, and RabbitMQ 3.10 to 4.2: the plugin's last release is for 4.2. Permissions
// to configure, write and read names that begin with the prefix, and to write to the destinations.
//
// # What the consumer sees
//
// [delayer.Header], and no headers of dead-lettering. The delivery's exchange field names the
// exchange where the message waited. See package delayer.
//
// Also the plugin's header x-delay: the milliseconds that the message waited, as a negative number.
// An x-delayed-message exchange of yours, as a destination or behind one, does not delay such a
// message again. Before RabbitMQ 4.0 the header has 32 bits, and wraps around above 24 days: then it
// may. Publish removes the header.
package plugin

import (
	"context"
	"errors"
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

// Open connects, checks that the plugin is there, and declares what is needed. ctx bounds the
// opening only.
//
// ErrConfig names the field that is wrong. ErrUnavailable and ErrAccess concern the broker. A
// missing plugin is ErrNotFound. ErrConflict means that an exchange is not what it should be, or
// that a policy would harm it. After an error nothing is left open.
func Open(ctx context.Context, opts delayer.Options) (delayer.Delayer, error) {
	s, settings, err := newStrategy(opts)
	if err != nil {
		return nil, err
	}
	c, err := engine.Connect(ctx, settings)
	if err != nil {
		return nil, err
	}
	// Without the plugin, nothing else is to be declared.
	if err := c.Declare(ctx, topology.Plan{Exchanges: s.Plan().Exchanges}); err != nil {
		c.Close()
		return nil, explain(err, c.Version)
	}
	return engine.Opened(c.Start(ctx, s))
}

// Topology returns what Open declares. It asks no broker. Errors are ErrConfig.
func Topology(opts delayer.Options) (topology.Plan, error) {
	s, settings, err := newStrategy(opts)
	if err != nil {
		return topology.Plan{}, err
	}
	return settings.Whole(s.Plan()), nil
}

// Limits returns what the plugin can do. It asks no broker. Errors are ErrConfig.
func Limits(opts delayer.Options) (delayer.Limits, error) {
	s, _, err := newStrategy(opts)
	if err != nil {
		return delayer.Limits{}, err
	}
	return s.Limits(), nil
}

// newStrategy returns also the settings of a delivery stage behind an exchange: it needs nothing that
// quorum queues need, and there is no queue where one message could block another.
func newStrategy(opts delayer.Options) (*strategy, engine.Settings, error) {
	s, err := engine.Resolve(opts, Name)
	s.QueueType = delayer.Classic
	return &strategy{wait: s.Prefix + ".plugin.wait", stage: s.Stage()}, s, err
}

// explain adds a remedy to the broker's "unknown exchange type".
func explain(err error, version string) error {
	// The broker closes the connection with 503. The text tells this from other errors with that
	// code.
	var amqpErr *amqp091.Error
	if !errors.As(err, &amqpErr) || !strings.Contains(amqpErr.Reason, "exchange type '"+delayedMessage+"'") {
		return err
	}
	return &delayer.Error{
		Op: "open", Backend: Name, Kind: delayer.ErrNotFound,
		Cause: errors.New("RabbitMQ " + version + " has no exchange type " + delayedMessage),
		Hint:  "enable the plugin rabbitmq_delayed_message_exchange, which exists up to RabbitMQ 4.2; or use backend binaryladder, fixedtiers or controller, which need none",
	}
}

// delayedMessage is the exchange type that the plugin adds.
const delayedMessage = "x-delayed-message"

// header is how the plugin is told for how many milliseconds to keep a message.
const header = "x-delay"

// longest is the longest delay of the plugin. It delivers a longer one at once.
const longest = math.MaxUint32 * time.Millisecond

// strategy is the [engine.Strategy] of the exchange <prefix>.plugin.wait.
type strategy struct {
	wait  string
	stage delivery.Stage
}

// Plan is the exchange where messages wait. It routes as a fanout: all messages go to the delivery
// exchange, which routes by key. It has no alternate exchange: that would get a copy of every
// message at once.
func (s *strategy) Plan() topology.Plan {
	return topology.Plan{
		Exchanges: []topology.Exchange{{Name: s.wait, Kind: delayedMessage, DelayedKind: amqp091.ExchangeFanout}},
		Bindings:  []topology.Binding{{Source: s.wait, Target: s.stage.Exchange(), ToExchange: true}},
	}
}

func (*strategy) Limits() delayer.Limits {
	return delayer.Limits{
		Max:         longest,
		Resolution:  time.Millisecond,
		Ordered:     true,
		ExactTopics: true,
		MaxPriority: engine.AnyPriority, // nothing waits in a queue
	}
}

func (*strategy) Growth() message.Growth {
	return message.Growth{Keys: 1, HeaderSize: 1 + len(header) + 9} // an integer of 64 bits with its type
}

// Enter publishes with the keys that lead on from the delivery exchange. The plugin keeps all
// routing keys of a message, also those in BCC.
func (s *strategy) Enter(ctx context.Context, m engine.Wait) (engine.Entry, error) {
	headers, err := await(ctx, m.Delay)
	return engine.Entry{
		Exchange: s.wait, Keys: m.Destinations, Headers: headers,
		Optional: true, // the broker takes a waiting message for an unroutable one
	}, err
}

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
