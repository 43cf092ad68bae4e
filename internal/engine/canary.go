package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/topology"
)

// canaryTTL is how long a canary would wait, where no policy says otherwise: longer than any is left there.
const canaryTTL = 24 * time.Hour

// cages is how many queues for one canary a Delayer has. The first is filled anew at each look, every further one a
// quarter as often: the rarer, the longer a TTL it finds, up to 20 minutes. A queue has one message at a time because
// only the first of a queue expires: behind one that came before the policy, none would.
const cages = 5

// A canary finds policies that would spoil our queues and exchanges. AMQP cannot list policies, so they are known by
// what they do, to objects whose names a catch-all policy matches like all of ours:
//
//	<prefix>.watch             a direct exchange without alternate: what it cannot route must come back
//	<prefix>.watch.full        quorum: a queue for one message, which must refuse the next ones
//	<prefix>.watch.<id>.<n>    where a canary waits; if it leaves before the next comes, it was early
//	<prefix>.watch.back        where those dead-letter to
//	<prefix>.watch.<id>.back   where canaries come back
//
// Those with an id are each Delayer's own, and gone when it is.
type canary struct {
	opts    Options
	control *broker.Control
	publish func(context.Context, broker.Publishing) error

	off    bool // the user may not
	id     string
	ch     *amqp091.Channel
	back   <-chan amqp091.Delivery
	flying [cages]flight
}

// A flight is a canary that waits.
type flight struct {
	name string // the value of delayer.Header; "": none
	sent time.Time
}

// keyFull leads to the queue that must refuse.
const keyFull = "full"

func watchName(prefix string) string { return prefix + ".watch" }

// canaryPlan is what all canaries of a prefix share.
func canaryPlan(prefix string, kind topology.QueueType) topology.Plan {
	in := watchName(prefix)
	p := topology.Plan{Exchanges: []topology.Exchange{{Name: in, Kind: topology.Direct}, {Name: in + ".back", Kind: topology.Direct}}}
	if kind == topology.Quorum {
		p.Queues = []topology.Queue{{Name: in + ".full", Args: amqp091.Table{
			"x-queue-type": string(kind), "x-max-length": int64(1), "x-overflow": "reject-publish",
		}}}
		p.Bindings = []topology.Binding{{Source: in, Key: keyFull, Target: in + ".full"}}
	}
	return p
}

func newCanary(opts Options, control *broker.Control, publish func(context.Context, broker.Publishing) error) *canary {
	return &canary{
		opts: opts, control: control, publish: publish,
		id: watchName(opts.Prefix) + "." + rand.Text(),
	}
}

// look finds at once what can be found at once. Its error is that of a policy; where the broker does not answer it
// knows nothing.
func (c *canary) look(ctx context.Context) error {
	if c.off {
		return nil
	}
	if err := c.lookForAlternate(ctx); err != nil {
		return err
	}
	if c.opts.QueueType != topology.Quorum {
		return nil // the argument wins over a policy
	}
	return c.lookForOverflow(ctx)
}

// lookForAlternate: what goes nowhere must be returned, or a waiting queue that is gone would swallow messages.
func (c *canary) lookForAlternate(ctx context.Context) error {
	err := c.publish(ctx, c.message("nowhere", nil))
	if err != nil {
		c.forbidden(err)
		return nil // returned, as it should be, or the broker does not answer
	}
	return c.conflict("exchange", watchName(c.opts.Prefix), errors.New("what it cannot route is taken by an alternate exchange"),
		"alternate-exchange")
}

// forbidden stops looking where the user lacks the permission: each attempt would cost a channel.
func (c *canary) forbidden(err error) {
	var amqpErr *amqp091.Error
	if errors.As(err, &amqpErr) && amqpErr.Code == amqp091.AccessRefused {
		c.off = true
		c.opts.Broker.Slog().Warn("policies that make messages early are not looked for over AMQP: the user may not configure, write and read names that begin with "+watchName(c.opts.Prefix),
			"backend", c.opts.Broker.Backend)
	}
}

// mostRefused is how many messages a quorum queue for one certainly does not take; it takes a few, because it
// tells publishers a moment later. One after the other with confirms, two or three.
const mostRefused = 100

// lookForOverflow: a policy's overflow wins over a quorum queue's own, which then dead-letters at most once and, when
// full, early.
func (c *canary) lookForOverflow(ctx context.Context) error {
	for range mostRefused {
		if err := c.publish(ctx, c.message(keyFull, nil)); err != nil {
			return nil //nolint:nilerr // refused, as it should be, or the broker does not answer
		}
	}
	return c.conflict("queue", watchName(c.opts.Prefix)+".full", errors.New("it does not refuse messages when it is full"), "overflow")
}

// fly looks for canaries that came back too soon, and sends those that are due.
func (c *canary) fly(ctx context.Context) error {
	if c.off {
		return nil
	}
	if c.ch == nil || c.ch.IsClosed() {
		if err := c.open(ctx); err != nil {
			c.forbidden(err)
			return err
		}
	}
	early := c.early()
	period := c.opts.pause()
	for n := range c.flying {
		if time.Since(c.flying[n].sent) >= period {
			c.send(ctx, n)
		}
		period *= 4
	}
	return early
}

// send replaces the canary in a queue.
func (c *canary) send(ctx context.Context, n int) {
	bird := c.message(c.home(), []any{c.cage(n)})
	name, _ := bird.Message.Headers[delayer.Header].(string)
	c.flying[n] = flight{name, time.Now()}
	if err := c.publish(ctx, bird); err != nil {
		c.flying[n] = flight{}
	}
}

// returning is where canaries come back, for whom does not want to wait for the next look; nil while there are none.
func (c *canary) returning() <-chan amqp091.Delivery {
	if c == nil {
		return nil
	}
	return c.back
}

// welcome takes a canary that has come back. Its error is that of one that left its queue before it was replaced; ok
// is false where none will come any more.
func (c *canary) welcome(d amqp091.Delivery, ok bool) (early error) {
	if !ok {
		c.back = nil // until the next look opens a channel again
		return nil
	}
	name, _ := d.Headers[delayer.Header].(string)
	for n, f := range c.flying {
		if f.name == name {
			c.flying[n] = flight{}
			early = c.soon(d, n, time.Since(f.sent))
		}
	}
	return early
}

// early is the error for canaries that have come back too soon until now.
func (c *canary) early() (found error) {
	for {
		select {
		case d, ok := <-c.back:
			found = cmp.Or(c.welcome(d, ok), found)
			if !ok {
				return found
			}
		default:
			return found
		}
	}
}

// tooSoon is the cause of an error.
type tooSoon struct {
	waited time.Duration // at most
	reason string        // as the broker calls it
}

func (t *tooSoon) Error() string {
	return fmt.Sprintf("a message left it after at most %v instead of %v (%s)", t.waited.Round(time.Second/10), canaryTTL, t.reason)
}

func (c *canary) soon(d amqp091.Delivery, n int, waited time.Duration) error {
	reason, _ := d.Headers["x-first-death-reason"].(string)
	return c.conflict("queue", c.cage(n), &tooSoon{waited, reason}, "message-ttl (or was the broker's clock set forward)")
}

// survived says that a canary has been in the queue for longer than that, since then.
func (c *canary) survived(since time.Time, longer time.Duration) bool {
	for _, f := range c.flying {
		if f.sent.After(since) && time.Since(f.sent) > longer {
			return true
		}
	}
	return false
}

// conflict says which policies are to be looked for, and what to do about them.
func (c *canary) conflict(kind, name string, cause error, key string) error {
	return policyConflict(c.opts, fmt.Sprintf("%s %q", kind, name), fmt.Errorf("%w: is there a policy with %s?", cause, key))
}

// policyConflict is the error where a policy would make messages early, or lose them.
func policyConflict(opts Options, object string, cause error) error {
	return &delayer.Error{
		Op: "open", Backend: opts.Broker.Backend, Object: object, Kind: delayer.ErrConflict, Cause: cause,
		Hint: topology.PolicyRemedy(opts.Prefix),
	}
}

// message is a canary: it goes to the watch exchange.
func (c *canary) message(key string, more []any) broker.Publishing {
	return broker.Publishing{
		Exchange: watchName(c.opts.Prefix), Key: key,
		Message: message.Seal(amqp091.Publishing{}, message.NewEnvelope(time.Now().Add(canaryTTL), canaryTTL, ""), nil, more...),
	}
}

// open declares the queue where canaries come back, on a channel that stays. It runs where ctx can end the waiting
// for it.
func (c *canary) open(ctx context.Context) error {
	opened := make(chan func(), 1)
	err := c.control.Do(ctx, func(*amqp091.Channel) error {
		ch, err := c.control.Conn().Channel(ctx)
		if err != nil {
			return err
		}
		back, err := c.consume(ch)
		if err == nil {
			opened <- func() { c.ch, c.back = ch, back }
		}
		return err
	})
	if err != nil {
		return broker.Explain("declare", c.opts.Broker.Backend, fmt.Sprintf("queue %q", c.id), err)
	}
	(<-opened)()
	c.flying = [cages]flight{} // those of a lost connection are gone with it
	return nil
}

func (c *canary) consume(ch *amqp091.Channel) (<-chan amqp091.Delivery, error) {
	const waitForAnswer, durable, autoDelete, exclusive, noLocal, autoAck, anyTag = false, false, false, true, false, true, ""
	declare := func(name, exchange string, args amqp091.Table) error {
		if _, err := ch.QueueDeclare(name, durable, autoDelete, exclusive, waitForAnswer, args); err != nil {
			return err
		}
		return ch.QueueBind(name, name, exchange, waitForAnswer, nil)
	}
	in, back := watchName(c.opts.Prefix), watchName(c.opts.Prefix)+".back"
	if err := declare(c.home(), back, amqp091.Table{"x-queue-type": "classic"}); err != nil {
		return nil, err
	}
	for n := range cages {
		err := declare(c.cage(n), in, amqp091.Table{
			"x-queue-type": "classic", "x-message-ttl": canaryTTL.Milliseconds(), "x-dead-letter-exchange": back,
			"x-max-length": int64(1), "x-overflow": "drop-head", // the next canary drives the last one out
		})
		if err != nil {
			return nil, err
		}
	}
	return ch.Consume(c.home(), anyTag, autoAck, exclusive, noLocal, waitForAnswer, nil)
}

// home is the queue where canaries come back, cage one of those where they wait.
func (c *canary) home() string      { return c.id + ".back" }
func (c *canary) cage(n int) string { return fmt.Sprintf("%s.%d", c.id, n) }
