package plugin

import (
	"context"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

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

func (*own) Growth() message.Growth { return growth(1) }

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
