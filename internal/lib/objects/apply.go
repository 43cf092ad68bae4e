// Package objects compares what a broker must hold, a [topology.Plan], with what it holds, and
// makes it so.
//
//   - Over AMQP, objects are declared, looked for, counted and deleted ([Live]).
//   - Through the management API, arguments and bindings are compared ([Read], [Compare]), and
//     policies are found that would make messages early, or lose them ([PolicyAPI]).
package objects

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

// Names for the bare booleans of amqp091-go.
const (
	durable       = true
	autoDelete    = true // of a queue
	exclusive     = true
	internal      = true
	waitForAnswer = false
	autoAck       = false
	multiple      = false
	requeue       = true
)

// Live are the objects of a broker, over AMQP.
type Live struct {
	control *broker.Control
	backend string
	looked  *atomic.Bool // for features, with success, or it was logged that they are not known
}

// Of returns the objects of the broker that a control connection leads to. Errors name the backend.
func Of(control *broker.Control, backend string) Live {
	return Live{control, backend, new(atomic.Bool)}
}

// Apply declares the objects of p. Existing objects with the same arguments stay as they are. If a
// quorum queue was missing, Apply settles them: see settle. The error names the object. With
// ErrConflict it also names the actual and the wanted configuration.
//
// Another process may be declaring the same queues. A queue exists before it has its arguments, and
// up to RabbitMQ 4.0 a message that comes then never expires, nor does any behind it. So exchanges
// are declared after the queues are settled, and bindings last: docs/design.md says what else was
// tried.
//
// Apply refuses where the broker would lose what the queues of p dead-letter: see [Live.Features].
func (l Live) Apply(ctx context.Context, p topology.Plan) error {
	if !l.looked.Load() {
		if err := Known(l.control.Conn().Log(), l.Features(ctx, p)); err != nil {
			return err
		}
		l.looked.Store(true)
	}
	if queues := quorum(p); len(queues) == 0 || l.has(ctx, queues, p.Exchanges) {
		return l.declare(ctx, p)
	}
	return l.Restore(ctx, p)
}

// Restore is Apply for objects of which some were found missing. It settles the queues even if
// all are there: another process may have found the same, and be declaring them.
func (l Live) Restore(ctx context.Context, p topology.Plan) error {
	queues := quorum(p)
	if len(queues) == 0 {
		return l.declare(ctx, p)
	}
	if err := l.declare(ctx, topology.Plan{Markers: p.Markers, Queues: p.Queues}); err != nil {
		return err
	}
	last := queues[len(queues)-1].Name
	err := l.control.Do(ctx, func(ch *amqp091.Channel) error { return settle(ch, last) })
	if err != nil {
		return broker.Explain("declare", l.backend, describe("queue", last), err)
	}
	return l.declare(ctx, topology.Plan{Exchanges: p.Exchanges, Bindings: p.Bindings})
}

// has reports whether all of them are certainly there. It waits for each answer: of an object that
// is not there the broker closes the channel, and closes the connection if more commands come on it
// (504, "expected 'channel.open'").
func (l Live) has(ctx context.Context, queues []topology.Queue, exchanges []topology.Exchange) bool {
	err := l.control.Do(ctx, func(ch *amqp091.Channel) error {
		for _, x := range exchanges {
			if err := lookForExchange(ch, x); err != nil {
				return err
			}
		}
		for _, q := range queues {
			if _, err := ch.QueueDeclarePassive(q.Name, durable, !autoDelete, !exclusive, waitForAnswer, nil); err != nil {
				return err
			}
		}
		return nil
	})
	return err == nil
}

func (l Live) declare(ctx context.Context, p topology.Plan) error {
	err := l.control.Do(ctx, func(ch *amqp091.Channel) error { return declareAll(ch, p) })
	if err == nil {
		return nil
	}
	var at *located
	object := ""
	if errors.As(err, &at) {
		object = at.object
		if conflict := markerConflict(l.backend, p, at); conflict != nil {
			return conflict
		}
	}
	return broker.Explain("declare", l.backend, object, err)
}

type located struct {
	object string
	err    error
}

func (l *located) Error() string { return l.err.Error() }
func (l *located) Unwrap() error { return l.err }

func declareAll(ch *amqp091.Channel, p topology.Plan) error {
	for _, x := range p.AllExchanges() {
		if err := ch.ExchangeDeclare(x.Name, x.Kind, durable, x.AutoDelete, !internal, waitForAnswer, x.Args()); err != nil {
			return &located{describe("exchange", x.Name), err}
		}
	}
	for _, q := range p.Queues {
		if _, err := ch.QueueDeclare(q.Name, durable, !autoDelete, !exclusive, waitForAnswer, q.Args); err != nil {
			return &located{describe("queue", q.Name), err}
		}
	}
	for _, b := range p.Bindings {
		if err := Bind(ch, b); err != nil {
			return &located{describe("binding from", b.Source) + describe(" to", b.Target), err}
		}
	}
	return nil
}

// lookForExchange is 404 if it is missing.
func lookForExchange(ch *amqp091.Channel, x topology.Exchange) error {
	return ch.ExchangeDeclarePassive(x.Name, x.Kind, durable, x.AutoDelete, !internal, waitForAnswer, nil)
}

func describe(kind, name string) string { return fmt.Sprintf("%s %q", kind, name) }

// Bind makes one binding.
func Bind(ch *amqp091.Channel, b topology.Binding) error { return Bound{Binding: b}.Bind(ch) }

// Bind makes the binding.
func (b Bound) Bind(ch *amqp091.Channel) error {
	if b.ToExchange {
		return ch.ExchangeBind(b.Target, b.Key, b.Source, waitForAnswer, b.Args)
	}
	return ch.QueueBind(b.Target, b.Key, b.Source, waitForAnswer, b.Args)
}

// inequivalent finds the actual value in the broker's 406: "inequivalent arg 'alternate-exchange'
// for exchange '…' in vhost '/': received 'A' but current is 'B'". The broker cuts the text off at
// 255 bytes, so with long names the value is missing.
var inequivalent = regexp.MustCompile(`but current is '([^']*)'`)

// markerConflict explains that the objects of the prefix belong to another configuration.
func markerConflict(backend string, p topology.Plan, at *located) error {
	var amqpErr *amqp091.Error
	if !errors.As(at.err, &amqpErr) || !strings.Contains(amqpErr.Reason, "inequivalent arg") {
		return nil // not every 406: the limit of exchanges is one too
	}
	for _, m := range p.Markers {
		if at.object != describe("exchange", m.Name) {
			continue
		}
		was, differs := "another configuration", ""
		if got := inequivalent.FindStringSubmatch(amqpErr.Reason); got != nil {
			was = got[1]
			differs = difference(was, m.Alternate)
		}
		return &delayer.Error{
			Op: "open", Backend: backend, Object: at.object, Kind: delayer.ErrConflict,
			Cause: fmt.Errorf("the topology of this prefix was declared as %s, but this configuration is %s%s", was, m.Alternate, differs),
			Hint:  "use the same configuration or another prefix; or, once nothing waits there, run delayer topology remove with the old one",
		}
	}
	return nil
}

// difference says in which settings two markers differ, such as ": tick=1s is not tick=1ms". A setting
// with a name may be the reason why one without a name differs, as a tick is for the steps.
func difference(was, is string) string {
	old, now := strings.Split(was, ","), strings.Split(is, ",")
	if len(old) != len(now) {
		return ""
	}
	for _, named := range []bool{true, false} {
		for i := range old {
			if old[i] != now[i] && strings.Contains(now[i], "=") == named {
				return fmt.Sprintf(": %s is not %s", old[i], now[i])
			}
		}
	}
	return ""
}

// Remove deletes the queues and exchanges of p, with their messages. Missing objects are no error.
//
// First each queue must have a leader that answers. RabbitMQ up to 3.10.19 and 3.11.11 cannot
// delete a quorum queue that is still read from disk: its dead-letter worker crashes, is started
// again and crashes again, and with the second time in five seconds (rabbit_fifo_dlx_sup) every
// queue of the node that dead-letters at least once is out of order until the node is started anew.
func (l Live) Remove(ctx context.Context, p topology.Plan) error {
	if _, err := l.Holding(ctx, p); err != nil && broker.Code(err) != amqp091.AccessRefused {
		return err
	}
	for _, q := range p.Queues {
		err := l.control.Do(ctx, func(ch *amqp091.Channel) error {
			_, err := ch.QueueDelete(q.Name, false, false, waitForAnswer)
			return err
		})
		if err != nil {
			return broker.Explain("remove", l.backend, describe("queue", q.Name), err)
		}
	}
	for _, x := range slices.Backward(p.AllExchanges()) { // the markers last
		err := l.control.Do(ctx, func(ch *amqp091.Channel) error {
			return ch.ExchangeDelete(x.Name, false, waitForAnswer)
		})
		if err != nil {
			return broker.Explain("remove", l.backend, describe("exchange", x.Name), err)
		}
	}
	return nil
}

// settle is called after quorum queues were declared. It declares one more, and deletes that again.
//
// RabbitMQ (seen with 3.10 to 4.3) writes down which quorum queues a node has when the next one is
// declared, or up to a second later (names.dets of Ra). A node that is killed before starts the last
// one without its messages, although they were confirmed, and up to 4.2 without a leader.
//
// The other queue's name begins with that of queue, so that the permissions are mostly enough. That
// the broker refuses it is no error: the queues are then safe a second later.
func settle(ch *amqp091.Channel, queue string) error {
	const ifUnused, ifEmpty = false, false
	name := settleName(queue, rand.Text())
	_, err := ch.QueueDeclare(name, durable, !autoDelete, !exclusive, waitForAnswer, amqp091.Table{
		"x-queue-type": string(delayer.Quorum), "x-expires": time.Minute.Milliseconds(),
	})
	if err == nil {
		_, err = ch.QueueDelete(name, ifUnused, ifEmpty, waitForAnswer)
	}
	var answer *amqp091.Error
	if errors.As(err, &answer) && answer.Server && answer.Code != amqp091.ConnectionForced {
		return nil
	}
	return err
}

func settleName(queue, random string) string {
	const longest = 255 // bytes
	suffix := ".settle." + random
	return strings.ToValidUTF8(queue[:min(len(queue), longest-len(suffix))], "") + suffix
}

func quorum(p topology.Plan) []topology.Queue {
	return slices.DeleteFunc(slices.Clone(p.Queues), func(q topology.Queue) bool {
		return q.Args["x-queue-type"] != string(delayer.Quorum)
	})
}

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
	m, found, err := ch.Get(queue, autoAck)
	if err != nil || !found {
		return false, err
	}
	return true, m.Nack(multiple, requeue)
}

// Holding returns the names of those queues of p that hold a message; see [Holds]. Of a queue that
// does not exist, or that only one connection may read, it says nothing. When it returns, each
// other queue has a leader that answers.
func (l Live) Holding(ctx context.Context, p topology.Plan) ([]string, error) {
	var names []string
	for _, q := range p.Queues {
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

// Last returns the body of the message in a queue that keeps the last one, and gives it back; nil
// if there is none. Meanwhile others find none: then Last asks again, for a moment. It needs the
// permission to read, and the queue a delivery limit that is never reached (see Holds).
func (l Live) Last(ctx context.Context, queue string) ([]byte, error) {
	const tries, pause = 5, 40 * time.Millisecond
	for try := 1; ; try++ {
		body, err := broker.Ask(ctx, l.control, func(ch *amqp091.Channel) ([]byte, error) {
			m, found, err := ch.Get(queue, autoAck)
			if err != nil || !found {
				return nil, err
			}
			return append([]byte{}, m.Body...), m.Nack(multiple, requeue)
		})
		if err != nil || body != nil || try == tries {
			return body, broker.Explain("read", l.backend, describe("queue", queue), err)
		}
		if err := pace.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}
