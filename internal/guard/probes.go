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
	"github.com/delayer-go/delayer/internal/instant"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/topology"
)

// A wire holds the probes of one Delayer and receives them back. One goroutine uses it.
type wire interface {
	// open makes sure that the queues and the consumer exist. anew reports a new consumer: probes
	// that were sent before do not reach it.
	open(ctx context.Context) (anew bool, err error)
	// returned receives the probes that come back; nil before open.
	returned() <-chan amqp091.Delivery
	// ended notes that returned was closed.
	ended()
	// name is the name of a probe queue, and the routing key that leads there.
	name(n int) string
	// returnKey is the routing key that leads from the return exchange to the consumer.
	returnKey() string
	// holds asks the broker whether a probe queue holds a message.
	holds(ctx context.Context, n int) (bool, error)
}

// probes find policies by their effect, because AMQP cannot list policies. A catch-all policy
// matches the probe queues as it matches all our objects. One goroutine uses them.
type probes struct {
	Config
	wire
	waiting waiting
	epoch   time.Time
}

func (p *probes) now() instant.Instant { return instant.At(time.Now(), p.epoch) }

// alternate checks that a message without a route is returned. Under a policy with
// alternate-exchange, a missing waiting queue would not be noticed.
func (p *probes) alternate(ctx context.Context) error {
	err := p.Publish(ctx, p.message(keyNowhere))
	switch {
	case err == nil:
		return p.conflict("exchange", watchName(p.Prefix),
			errors.New("an alternate exchange takes its unroutable messages"), "alternate-exchange")
	case errors.Is(err, broker.ErrReturned):
		return nil
	}
	return err
}

// mostTaken is more messages than a full quorum queue accepts. It tells publishers a moment late,
// so it accepts two or three that are published one after the other, with confirms.
const mostTaken = 100

// overflow checks that a full quorum queue refuses messages. A policy's overflow wins over the
// queue's argument. The queue then dead-letters at most once, and early when it is full. On classic
// queues the argument wins.
func (p *probes) overflow(ctx context.Context) error {
	if p.QueueType != delayer.Quorum {
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

// wait checks the waiting probes and sends those that are due. It returns nil if a probe has shown
// that the policy of an early one is gone.
func (p *probes) wait(ctx context.Context) error {
	anew, err := p.open(ctx)
	if err != nil {
		return err
	}
	if anew {
		p.waiting.forgetAll()
	}
	gone, unsure := p.gone(ctx)
	early := p.drain() // last, so that it includes probes that came back meanwhile
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

// gone asks the broker for a probe that the policy of an early one would have removed. If that
// probe is still in its queue, the policy is gone.
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

// drain takes the probes that have come back until now. It returns the error of an early one.
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

// receive takes a probe that has come back. ok is false if no more will come. It returns an error
// if the probe is early.
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

// keyOf returns the policy key that removes messages from a queue for this reason in x-death.
func keyOf(reason string) string {
	if reason == "maxlen" {
		return "max-length or max-length-bytes"
	}
	return "message-ttl (or was the broker's clock set forward)"
}

// conflict is the error for a policy. It names the object and the policy's key.
func (p *probes) conflict(kind, name string, cause error, key string) error {
	return &delayer.Error{
		Op: "open", Backend: p.Backend, Object: fmt.Sprintf("%s %q", kind, name), Kind: delayer.ErrConflict,
		Cause: fmt.Errorf("%w: is there a policy with %s?", cause, key), Hint: topology.PolicyRemedy(p.Prefix),
	}
}

// message returns a probe with a routing key, and more of them in BCC.
func (p *probes) message(key string, more ...any) broker.Publishing {
	envelope := message.NewEnvelope(time.Now().Add(probeTTL), probeTTL, "")
	return broker.Publishing{
		Exchange: watchName(p.Prefix), Key: key, Message: message.Seal(amqp091.Publishing{}, envelope, nil, more...),
	}
}

// accessRefused reports whether the user lacks permissions for probes. The broker must name an
// object of theirs: another message may have closed the channel as well.
func accessRefused(err error, prefix string) bool {
	var amqpErr *amqp091.Error
	return errors.As(err, &amqpErr) && amqpErr.Code == amqp091.AccessRefused &&
		strings.Contains(amqpErr.Reason, watchName(prefix))
}
