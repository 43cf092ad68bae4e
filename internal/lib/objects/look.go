package objects

import (
	"context"
	"slices"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/topology"
)

// A State is what a broker says of a queue over AMQP.
type State struct {
	Messages  int // that are ready: those that a consumer holds are not counted
	Consumers int
}

// Look returns the state of the queues of p, by name, without those that do not exist. It takes no
// message and declares nothing. A message may move from a queue that was not looked at yet to one
// that was, so Look looks twice, the second time in the opposite order, and returns the larger
// number.
func (l Live) Look(ctx context.Context, p topology.Plan) (map[string]State, error) {
	states := map[string]State{}
	again := slices.Clone(p.Queues)
	slices.Reverse(again)
	for _, q := range append(again, p.Queues...) {
		found, err := l.control.Queue(ctx, q.Name)
		switch {
		case broker.Code(err) == amqp091.NotFound:
			delete(states, q.Name)
		case err != nil:
			return nil, broker.Explain("look at", l.backend, describe("queue", q.Name), err)
		default:
			states[q.Name] = State{max(found.Messages, states[q.Name].Messages), found.Consumers}
		}
	}
	return states, nil
}

// Missing names the exchanges and queues of p that do not exist. It declares nothing and needs no
// permission. AMQP does not show arguments and bindings.
func (l Live) Missing(ctx context.Context, p topology.Plan) ([]string, error) {
	var missing []string
	look := func(object string, err error) error {
		if broker.Code(err) == amqp091.NotFound {
			missing = append(missing, object)
			return nil
		}
		return broker.Explain("look at", l.backend, object, err)
	}
	for _, x := range p.AllExchanges() {
		err := l.control.Do(ctx, func(ch *amqp091.Channel) error {
			return lookForExchange(ch, x)
		})
		if err := look(describe("exchange", x.Name), err); err != nil {
			return missing, err
		}
	}
	for _, q := range p.Queues {
		_, err := l.control.Queue(ctx, q.Name)
		if err := look(describe("queue", q.Name), err); err != nil {
			return missing, err
		}
	}
	return missing, nil
}

// Holds asks the leader of a queue for a message, and gives it back. It is for whoever deletes what
// is empty, and needs the permission to read.
//
// A passive declaration is not enough: RabbitMQ answers 0 messages and 0 consumers for a quorum
// queue that takes longer than 250 ms, as one does that is read from disk after a start
// (rabbit_quorum_queue:stat/2 in 3.10 to 4.0).
//
// It is not for queues that are watched: each message given back counts towards a delivery limit.
func Holds(ch *amqp091.Channel, queue string) (bool, error) {
	const autoAck, multiple, requeue = false, false, true
	m, found, err := ch.Get(queue, autoAck)
	if err != nil || !found {
		return false, err
	}
	return true, m.Nack(multiple, requeue)
}

// Holding returns the names of those queues of p that hold a message; see [Holds]. Of a queue that
// does not exist, or that only one connection may read, it says nothing, nor of a
// [topology.Record]: RabbitMQ closes the connection of whoever gets from a stream. When it returns,
// each other queue has a leader that answers.
func (l Live) Holding(ctx context.Context, p topology.Plan) ([]string, error) {
	var names []string
	for _, q := range p.Queues {
		if q.Role == topology.Record {
			continue
		}
		holds, err := broker.Ask(ctx, l.control, func(ch *amqp091.Channel) (bool, error) { return Holds(ch, q.Name) })
		switch code := broker.Code(err); {
		case code == amqp091.NotFound, code == amqp091.ResourceLocked:
		case err != nil:
			return nil, broker.Explain("look at", l.backend, describe("queue", q.Name), err)
		case holds:
			names = append(names, q.Name)
		}
	}
	return names, nil
}
