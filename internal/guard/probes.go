package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/topology"
)

// A wire is where the probes of one Delayer wait, and where they come back. One goroutine uses it.
type wire interface {
	// open makes sure of the queues and of the consumer. anew says that the consumer is a new one:
	// probes that were sent before do not come to it.
	open(ctx context.Context) (anew bool, err error)
	// returned is where probes come back; nil before open.
	returned() <-chan amqp091.Delivery
	// ended says that returned is closed.
	ended()
	// name is the name of a probe queue, and the routing key that leads there.
	name(n int) string
	// returnKey is the routing key that leads from the return exchange to the consumer.
	returnKey() string
	// holds asks the broker whether there is a message in a probe queue.
	holds(ctx context.Context, n int) (bool, error)
}

// probes find policies by what they do to objects whose names a catch-all policy matches, like all
// of ours: AMQP cannot list policies. One goroutine uses them.
type probes struct {
	Config
	wire
	waiting waiting
	epoch   time.Time
}

func (p *probes) now() instant { return instantAt(time.Now(), p.epoch) }

// alternate asks whether what has no route is returned. Under a policy with alternate-exchange a
// waiting queue that is gone would not be noticed.
func (p *probes) alternate(ctx context.Context) error {
	err := p.Publish(ctx, p.message(keyNowhere))
	switch {
	case err == nil:
		return p.conflict("exchange", watchName(p.Prefix),
			errors.New("what it cannot route is taken by an alternate exchange"), "alternate-exchange")
	case errors.Is(err, broker.ErrReturned):
		return nil
	}
	return err
}

// mostTaken is more than a full quorum queue takes: it tells publishers a moment later. It takes
// two or three that come one after the other, with confirms.
const mostTaken = 100

// overflow asks whether a full quorum queue refuses messages. A policy's overflow wins over the
// queue's own; the queue then dead-letters at most once, and early when it is full. On classic
// queues the argument wins.
func (p *probes) overflow(ctx context.Context) error {
	if p.QueueType != topology.Quorum {
		return nil
	}
	for range mostTaken {
		err := p.Publish(ctx, p.message(keyFull))
		if errors.Is(err, delayer.ErrRefused) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return p.conflict("queue", fullQueue(p.Prefix), errors.New("it does not refuse messages when it is full"), "overflow")
}

// wait looks at the probes that wait, and sends those that are due. It returns nil where a probe
// has shown that the policy of an early one is gone.
func (p *probes) wait(ctx context.Context) error {
	anew, err := p.open(ctx)
	if err != nil {
		return err
	}
	if anew {
		p.waiting.forgetAll()
	}
	gone, unsure := p.gone(ctx)
	early := p.drain() // last: what came back meanwhile counts
	if early == nil && gone {
		p.waiting.proven()
	}
	unsure = errors.Join(unsure, p.send(ctx))
	switch {
	case early != nil:
		return early
	case gone:
		return nil
	case unsure != nil:
		return unsure
	}
	return errUndecided
}

// gone asks the broker whether a probe is still in its queue that an early one's policy would have
// taken out.
func (p *probes) gone(ctx context.Context) (bool, error) {
	n, ok := p.waiting.witness(p.now())
	if !ok {
		return false, nil
	}
	held, err := p.holds(ctx, n)
	if err == nil && !held {
		p.waiting.absent(n)
	}
	return held, err
}

// send publishes the probes that are due.
func (p *probes) send(ctx context.Context) (failed error) {
	for n := range probeQueues {
		if !p.waiting.due(n, p.now()) {
			continue
		}
		probe := p.message(p.returnKey(), p.name(n))
		id, _ := probe.Message.Headers[delayer.Header].(string)
		p.waiting.sending(n, id, p.now())
		if err := p.Publish(ctx, probe); err != nil {
			p.waiting.forget(n)
			failed = err
			continue
		}
		p.waiting.confirmed(n, p.now())
	}
	return failed
}

// drain takes the probes that have come back until now. Its error is that of an early one.
func (p *probes) drain() (early error) {
	for {
		select {
		case d, ok := <-p.returned():
			if err := p.receive(d, ok); err != nil {
				early = err
			}
		default:
			return early
		}
	}
}

// receive takes a probe that has come back; ok is false when none will come any more. Its error is
// that of an early one.
func (p *probes) receive(d amqp091.Delivery, ok bool) error {
	if !ok {
		p.ended()
		return nil
	}
	id, _ := d.Headers[delayer.Header].(string)
	n, lived, early := p.waiting.returned(id, p.now())
	if !early {
		return nil
	}
	reason, _ := d.Headers["x-first-death-reason"].(string)
	cause := fmt.Errorf("a message left it after at most %v instead of %v (%s)", lived.Round(time.Second/10), probeTTL, reason)
	return p.conflict("queue", p.name(n), cause, keyOf(reason))
}

// keyOf is the key of a policy that takes messages out of a queue for a reason of the broker's.
func keyOf(reason string) string {
	if reason == "maxlen" {
		return "max-length or max-length-bytes"
	}
	return "message-ttl (or was the broker's clock set forward)"
}

// conflict names what a policy does, and to which object.
func (p *probes) conflict(kind, name string, cause error, key string) error {
	return &delayer.Error{
		Op: "open", Backend: p.Backend, Object: fmt.Sprintf("%s %q", kind, name), Kind: delayer.ErrConflict,
		Cause: fmt.Errorf("%w: is there a policy with %s?", cause, key), Hint: topology.PolicyRemedy(p.Prefix),
	}
}

// message is a probe with a routing key, and one in BCC.
func (p *probes) message(key string, more ...any) broker.Publishing {
	envelope := message.NewEnvelope(time.Now().Add(probeTTL), probeTTL, "")
	return broker.Publishing{
		Exchange: watchName(p.Prefix), Key: key, Message: message.Seal(amqp091.Publishing{}, envelope, nil, more...),
	}
}

// accessRefused says that the user may not do what probes need: the broker names an object of
// theirs. A message of someone else's may have closed the channel as well.
func accessRefused(err error, prefix string) bool {
	var amqpErr *amqp091.Error
	return errors.As(err, &amqpErr) && amqpErr.Code == amqp091.AccessRefused &&
		strings.Contains(amqpErr.Reason, watchName(prefix))
}
