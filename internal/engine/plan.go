package engine

import (
	"math"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/guard"
	"github.com/delayer-go/delayer/internal/topology"
)

// A Description is what can be said of a backend without a broker.
type Description struct {
	Plan   topology.Plan  // what Open declares, and what it leaves to its first use
	Limits delayer.Limits // as on a broker whose queues mind no priorities
}

// AnyPriority is the [delayer.Limits].MaxPriority of a Description.
const AnyPriority = math.MaxUint8

// Plan is what a Delayer of these options declares at Open, where own is its strategy's part: that, and the
// delivery stage. It asks no broker.
func (o Options) Plan(own topology.Plan) (topology.Plan, error) {
	if err := checkPrefix(o); err != nil {
		return topology.Plan{}, err
	}
	return whole(o, own), nil
}

// Stage is the delivery stage of these options.
func (o Options) Stage() delivery.Stage {
	return delivery.NewStage(o.Prefix, o.QueueType == topology.Quorum)
}

// whole puts the marker first: a conflict shall be found before anything is declared.
func whole(o Options, own topology.Plan) topology.Plan {
	return topology.Plan{Markers: own.Markers}.Add(o.Stage().Plan()).
		Add(topology.Plan{Exchanges: own.Exchanges, Queues: own.Queues, Bindings: own.Bindings}).
		Add(guard.Plan(o.Prefix, o.QueueType))
}
