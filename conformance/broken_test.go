package conformance_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/conformance"
)

// A fault of a Delayer or of the broker behind it, and the cases that must notice it.
type fault struct {
	name  string
	cases []string
	open  func(*broker) *broken // the test sets its Delayer; nil: it is correct

	limits   func(*delayer.Limits)                              // what the broker really does
	declares func(*delayer.Limits)                              // what its Delayers say, beside that they are ideal
	world    func(*broker, conformance.World) conformance.World // wraps the World
	stalls   bool                                               // of the broker, as drops
	drops    bool
}

// A broken Delayer is a correct one behind a fault: each function that is not nil replaces a method.
type broken struct {
	delayer.Delayer
	publish func(d delayer.Delayer, c call) error
	batch   func(c batchCall) []error
	close   func(d delayer.Delayer) error
	limits  func(*delayer.Limits)

	history
	schedule func(m *delayer.Message)
	cancel   func(c change) error
	postpone func(c change) (delayer.Ticket, error)
}

type call struct {
	ctx           context.Context
	exchange, key string
	delay         time.Duration
	msg           amqp091.Publishing
}

func (c call) on(d delayer.Delayer) error { return d.Publish(c.ctx, c.exchange, c.key, c.delay, c.msg) }

func (b *broken) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	c := call{ctx, exchange, key, delay, msg}
	if b.publish == nil {
		return c.on(b.Delayer)
	}
	return b.publish(b.Delayer, c)
}

// PublishBatch publishes one by one if there is no fault in it.
func (b *broken) PublishBatch(ctx context.Context, messages []delayer.Message) []error {
	c := batchCall{ctx, b.Publish, messages}
	if b.batch == nil {
		return c.each(messages)
	}
	return b.batch(c)
}

func (b *broken) Close() error {
	if b.close == nil {
		return b.Delayer.Close()
	}
	return b.close(b.Delayer)
}

func (b *broken) Limits() delayer.Limits {
	limits := b.Delayer.Limits()
	if b.limits != nil {
		b.limits(&limits)
	}
	return limits
}

// with returns a Delayer whose Publish is publish.
func with(publish func(d delayer.Delayer, c call) error) func(*broker) *broken {
	return func(*broker) *broken { return &broken{publish: publish} }
}

func changing(f func(c *call)) func(*broker) *broken {
	return with(func(d delayer.Delayer, c call) error {
		c.msg.Headers = maps.Clone(c.msg.Headers)
		f(&c)
		return c.on(d)
	})
}

func losing(lost func(c call) bool) func(*broker) *broken {
	return with(func(d delayer.Delayer, c call) error {
		if lost(c) {
			return nil
		}
		return c.on(d)
	})
}

func duplicating(twice func(c call) bool) func(*broker) *broken {
	return with(func(d delayer.Delayer, c call) error {
		if twice(c) {
			if err := c.on(d); err != nil {
				return err
			}
		}
		return c.on(d)
	})
}

func refusing(kind error, refused func(c call) bool) func(*broker) *broken {
	return with(func(d delayer.Delayer, c call) error {
		if refused(c) {
			return &delayer.Error{Op: "publish", Kind: kind}
		}
		return c.on(d)
	})
}

// replying returns a Delayer whose Publish returns another answer.
func replying(f func(err error) error) func(*broker) *broken {
	return with(func(d delayer.Delayer, c call) error { return f(c.on(d)) })
}

func not(kind error) func(error) error {
	return func(err error) error {
		if errors.Is(err, kind) {
			return nil
		}
		return err
	}
}

var published atomic.Int64

func everyTenth(call) bool { return published.Add(1)%10 == 0 }

func aDay(c call) bool { return c.delay >= 24*time.Hour }

var contentFaults = []fault{
	{name: "loses some", cases: []string{"never-early", "concurrency"}, open: losing(everyTenth)},
	{name: "loses all", cases: []string{"arrives", "arrives-by-queue-name"}, open: losing(func(call) bool { return true })},
	{name: "duplicates some", cases: []string{"never-early", "concurrency"}, open: duplicating(everyTenth)},
	{name: "forgets headers", cases: []string{"header-types", "exchange-kinds", "delayed-again"}, open: changing(func(c *call) { c.msg.Headers = nil })},
	{name: "adds a header", cases: []string{"properties", "header-types"}, open: changing(func(c *call) {
		if c.msg.Headers == nil {
			c.msg.Headers = amqp091.Table{}
		}
		c.msg.Headers["x-added"] = "here"
	})},
	{name: "forgets a property", cases: []string{"properties"}, open: changing(func(c *call) { c.msg.CorrelationId = "" })},
	{name: "makes all persistent", cases: []string{"properties"}, open: changing(func(c *call) { c.msg.DeliveryMode = amqp091.Persistent })},
	{name: "cuts large bodies", cases: []string{"bodies"}, open: changing(func(c *call) { c.msg.Body = c.msg.Body[:min(len(c.msg.Body), 256<<10)] })},
	{name: "changes the key", cases: []string{"odd-routing-keys", "topic-bindings"}, open: changing(func(c *call) {
		if c.exchange != "" {
			c.key = strings.TrimPrefix(c.key, "1.")
		}
	})},
	{name: "forgets BCC", cases: []string{"cc-and-bcc", "cc-and-bcc-by-queue-name"}, open: changing(func(c *call) { delete(c.msg.Headers, "BCC") })},
	{name: "refuses a name", cases: []string{"odd-names", "similar-queue-names"}, open: refusing(delayer.ErrInvalid, func(c call) bool {
		return strings.Contains(c.key, ".")
	})},
	{name: "sends copies again", cases: []string{"cc-and-bcc"}, open: with(func(d delayer.Delayer, c call) error {
		if copies, ok := c.msg.Headers["CC"].([]any); ok && c.delay > 0 {
			again := c
			again.msg.Headers = nil
			again.key, _ = copies[0].(string)
			_ = again.on(d) // it may fail
		}
		return c.on(d)
	})},
	{name: "drops what died before", cases: []string{"delayed-again"}, open: losing(func(c call) bool {
		return c.msg.Headers["x-death"] != nil
	})},
	{name: "changes the caller's headers", cases: []string{"message-untouched"}, open: with(func(d delayer.Delayer, c call) error {
		delete(c.msg.Headers, "x-death")
		return c.on(d)
	})},
}

var timeFaults = []fault{
	{name: "early", cases: []string{"never-early"}, open: changing(func(c *call) { c.delay = c.delay * 9 / 10 })},
	{name: "rounds down", cases: []string{"rounding-up", "never-early"}, open: changing(func(c *call) {
		c.delay -= c.delay % idealLimits().Resolution
	})},
	{name: "blocks at the head of the line", cases: []string{"no-head-of-line-blocking", "priorities-do-not-block"}, open: headOfLine},
	{name: "out of order", cases: []string{"same-delay-keeps-order"}, open: changing(func(c *call) {
		if c.delay > 0 && c.delay < time.Hour {
			c.delay += rand.N(100 * time.Millisecond)
		}
	})},
	{name: "shortens a delay that is too long", cases: []string{"beyond-maximum"}, open: changing(func(c *call) {
		c.delay = min(c.delay, idealLimits().Max)
	})},
	{name: "confirms those above 10 s and loses them", cases: []string{"long-delays-wait", "long-delays-arrive"}, open: losing(func(c call) bool {
		return c.delay > 10*time.Second && c.delay <= idealLimits().Max
	})},
	{name: "ends a day a minute early", cases: []string{"long-delays-arrive"}, open: changing(func(c *call) {
		if aDay(*c) {
			c.delay -= time.Minute
		}
	})},
	{name: "refuses a day", cases: []string{"long-delays-wait", "long-delays-arrive"}, open: refusing(delayer.ErrOutOfRange, aDay)},
	{name: "takes negative for none", cases: []string{"negative-delay"}, open: changing(func(c *call) { c.delay = max(c.delay, 0) })},
	{name: "takes none for one", cases: []string{"zero-delay"}, open: losing(func(c call) bool { return c.delay == 0 })},
}

// headOfLine delays each message until those before it are due, as one queue with expirations does.
func headOfLine(*broker) *broken {
	var mu sync.Mutex
	var last time.Time
	return with(func(d delayer.Delayer, c call) error {
		if c.delay > 0 && c.delay < time.Hour {
			mu.Lock()
			if due := time.Now().Add(c.delay); due.Before(last) {
				c.delay = time.Until(last)
			} else {
				last = due
			}
			mu.Unlock()
		}
		return c.on(d)
	})(nil)
}

var answerFaults = []fault{
	{name: "silent about the unroutable", cases: []string{"unknown-destination", "destination-comes-and-goes"}, open: replying(not(delayer.ErrUnroutable))},
	{name: "an error of its own", cases: []string{"unknown-destination", "negative-delay", "invalid-messages"}, open: replying(func(err error) error {
		if err != nil {
			return errors.New("it did not work")
		}
		return nil
	})},
	{name: "deaf to ctx", cases: []string{"ctx-ended-before"}, open: changing(func(c *call) { c.ctx = context.WithoutCancel(c.ctx) })},
	{name: "slow to hear ctx", cases: []string{"ctx-ended-during"}, open: with(func(d delayer.Delayer, c call) error {
		err := c.on(d)
		if errors.Is(err, context.DeadlineExceeded) {
			time.Sleep(time.Minute)
		}
		return err
	})},
	{name: "calls what is unknown stored", cases: []string{"connection-cut", "ctx-ended-during"}, open: with(func(d delayer.Delayer, c call) error {
		err := c.on(d)
		notStored := errors.Is(err, delayer.ErrNotSent) && (c.ctx.Err() == nil || !errors.Is(err, context.Canceled))
		if notStored || errors.Is(err, delayer.ErrUnknown) {
			return nil
		}
		return err
	})},
	{name: "calls what is unknown not sent", cases: []string{"connection-cut", "ctx-ended-during"}, open: replying(func(err error) error {
		var e *delayer.Error
		if errors.As(err, &e) && errors.Is(err, delayer.ErrUnknown) {
			return &delayer.Error{Op: "publish", Kind: delayer.ErrNotSent, Cause: e.Cause}
		}
		return err
	})},
	{name: "calls what is not sent stored", cases: []string{"connection-cut", "ctx-ended-during", "ctx-ended-before"}, open: replying(not(delayer.ErrNotSent))},
	{name: "calls what one queue has refused safe", cases: []string{"refused-by-one-queue"}, open: replying(func(err error) error {
		if errors.Is(err, delayer.ErrRefused) {
			return &delayer.Error{Op: "publish", Kind: delayer.ErrRefused}
		}
		return err
	})},
	{name: "never recovers", cases: []string{"connection-cut", "broker-restart"}, open: neverRecovers},
	{name: "publishes after Close", cases: []string{"closed"}, open: func(*broker) *broken {
		return &broken{close: func(delayer.Delayer) error { return nil }}
	}},
	{name: "forgets what waits when closed", cases: []string{"waiting-survives-close", "two-delayers"}, open: func(b *broker) *broken {
		return &broken{close: func(d delayer.Delayer) error {
			b.forget()
			return d.Close()
		}}
	}},
	{name: "loses what is published while closing", cases: []string{"closed-while-publishing"}, open: losesWhileClosing},
	{name: "leaves a goroutine", cases: []string{"no-goroutine-left"}, open: with(func(d delayer.Delayer, c call) error {
		go time.Sleep(time.Minute) // a bubble waits for all to end
		return c.on(d)
	})},
	{name: "remembers destinations for ever", cases: []string{"destination-comes-and-goes"}, open: remembersDestinations},
	{name: "binds a destination once", cases: []string{"destination-created-again"}, open: losing(func(c call) bool {
		return c.msg.MessageId == "second" // published after the destination was created again
	})},
	{name: "waits for the first confirm", cases: []string{"destination-stuck"}, open: waitsForFirst},
}

// losesWhileClosing returns nil instead of ErrClosed. Its Close waits for such a message: without
// that the publishers might end before there is one.
func losesWhileClosing(*broker) *broken {
	late := make(chan struct{}, 1)
	return &broken{
		publish: func(d delayer.Delayer, c call) error {
			err := c.on(d)
			if !errors.Is(err, delayer.ErrClosed) {
				return err
			}
			time.Sleep(time.Millisecond) // otherwise time stands still in a bubble
			select {
			case late <- struct{}{}:
			default:
			}
			return nil
		},
		close: func(d delayer.Delayer) error {
			err := d.Close()
			select {
			case <-late:
			case <-time.After(time.Second): // nobody publishes
			}
			return err
		},
	}
}

func neverRecovers(*broker) *broken {
	var lost atomic.Bool
	return with(func(d delayer.Delayer, c call) error {
		if lost.Load() {
			return &delayer.Error{Op: "publish", Kind: delayer.ErrNotSent, Cause: amqp091.ErrClosed}
		}
		err := c.on(d)
		if errors.Is(err, amqp091.ErrClosed) {
			lost.Store(true)
		}
		return err
	})(nil)
}

// remembersDestinations asks once whether a destination exists.
func remembersDestinations(*broker) *broken {
	var known sync.Map
	return with(func(d delayer.Delayer, c call) error {
		name := c.exchange + " " + c.key
		if answer, ok := known.Load(name); ok && answer != nil {
			return answer.(error)
		}
		err := c.on(d)
		if errors.Is(err, delayer.ErrUnroutable) {
			known.Store(name, err)
		}
		return err
	})(nil)
}

// waitsForFirst publishes nothing else until the first message is confirmed, also if its caller has
// left.
func waitsForFirst(*broker) *broken {
	var began atomic.Bool
	confirmed := make(chan struct{})
	return with(func(d delayer.Delayer, c call) error {
		if !began.Swap(true) {
			err := c.on(d)
			if err == nil {
				close(confirmed)
			}
			return err
		}
		select {
		case <-confirmed:
			return c.on(d)
		case <-c.ctx.Done():
			return fail(delayer.ErrNotSent, c.ctx.Err())
		}
	})(nil)
}

type batchCall struct {
	ctx      context.Context
	publish  func(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error
	messages []delayer.Message
}

// each publishes messages one by one, without a fault.
func (c batchCall) each(messages []delayer.Message) []error {
	return delayer.PublishEach(c.ctx, c.publish, messages)
}

// together returns a Delayer with another PublishBatch.
func together(f func(c batchCall) []error) func(*broker) *broken {
	return func(*broker) *broken { return &broken{batch: f} }
}

var batchFaults = []fault{
	{name: "forgets the last of a batch", cases: []string{"batch"}, open: together(func(c batchCall) []error {
		if len(c.messages) == 0 {
			return nil
		}
		return append(c.each(c.messages[1:]), nil)
	})},
	{name: "mixes a batch up", cases: []string{"batch"}, open: together(func(c batchCall) []error {
		mixed := slices.Clone(c.messages)
		slices.Reverse(mixed)
		results := c.each(mixed)
		slices.Reverse(results)
		return results
	})},
	{name: "mixes the results of a batch up", cases: []string{"batch"}, open: together(func(c batchCall) []error {
		results := c.each(c.messages)
		slices.Reverse(results)
		return results
	})},
	{name: "publishes a batch one by one", cases: []string{"batch-destination-stuck"}, open: together(func(c batchCall) []error {
		return c.each(c.messages)
	})},
	{name: "calls the rest of a batch stored", cases: []string{"batch-ctx-ended"}, open: together(func(c batchCall) []error {
		results := c.each(c.messages)
		for i, err := range results {
			results[i] = not(delayer.ErrNotSent)(err)
		}
		return results
	})},
}

// disturbing returns a World in which fault happens to a broker that is about to restart, or to lose an
// exchange of the Delayers'.
func disturbing(fault func(*broker)) func(*broker, conformance.World) conformance.World {
	return func(b *broker, w conformance.World) conformance.World {
		return disturbed{w, func() { fault(b) }}
	}
}

type disturbed struct {
	conformance.World
	do func()
}

func (d disturbed) Restart(ctx context.Context) error {
	d.do()
	return d.World.Restart(ctx)
}

func (d disturbed) DeleteOwnExchange(ctx context.Context) error {
	d.do()
	return d.World.DeleteOwnExchange(ctx)
}

// headless removes delayer.Header from messages that arrive.
type headless struct{ conformance.World }

func without(arrived func(conformance.Arrival)) func(conformance.Arrival) {
	return func(a conformance.Arrival) {
		a.Headers = maps.Clone(a.Headers) // others see the same
		delete(a.Headers, delayer.Header)
		arrived(a)
	}
}

func (h headless) Consume(ctx context.Context, queue string, arrived func(conformance.Arrival)) error {
	return h.World.Consume(ctx, queue, without(arrived))
}

func (h headless) Unroutable(ctx context.Context, arrived func(conformance.Arrival)) error {
	return h.World.Unroutable(ctx, without(arrived))
}

func withoutHeader(_ *broker, w conformance.World) conformance.World { return headless{w} }

var whileWaiting = []string{"destination-deleted-while-waiting", "exchange-deleted-while-waiting"}

// brokerFaults are behind a Delayer, where a wrapper around it cannot reach: it says of itself what
// is not so.
var brokerFaults = []fault{
	{name: "stalls behind the unroutable", cases: append([]string{"binding-gone-while-waiting"}, whileWaiting...), stalls: true},
	{name: "drops the unroutable", cases: whileWaiting, drops: true},
	{name: "takes longer than it says", cases: []string{"beyond-maximum"}, limits: func(l *delayer.Limits) { l.Max *= 2 }},
	{name: "refuses priorities", cases: []string{"properties", "priorities-do-not-block"},
		limits: func(l *delayer.Limits) { l.MaxPriority = 4 }},
	{name: "finer than it says", cases: []string{"rounding-up"}, limits: func(l *delayer.Limits) { l.Resolution = time.Millisecond }},
	{name: "takes any delay for a tier", cases: []string{"exact-tiers"}, limits: twoTiers,
		declares: func(l *delayer.Limits) { twoTiers(l); l.ExactTiers = true }},
	{name: "loses what waits in a restart", cases: []string{"broker-restart", "own-exchange-deleted"}, world: disturbing((*broker).forget)},
	{name: "delivers all in a restart", cases: []string{"broker-restart"}, world: disturbing((*broker).hasten)},
	{name: "carries no header of ours", cases: append([]string{"due-header"}, whileWaiting...), world: withoutHeader},
}

func twoTiers(l *delayer.Limits) {
	l.Tiers, l.Max = []time.Duration{time.Second, time.Minute}, time.Minute
}

var faults = slices.Concat(contentFaults, timeFaults, answerFaults, batchFaults, scheduleFaults, brokerFaults)

func TestBroken(t *testing.T) {
	sentences := map[string]string{}
	for _, c := range conformance.Cases() {
		sentences[c.Name] = c.Sentence
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f.test(t, sentences) })
		})
	}
}

// test runs the cases that the fault is meant for: each must fail, with its sentence.
func (f fault) test(t *testing.T, sentences map[string]string) {
	limits, declared := idealLimits(), idealLimits()
	if f.limits != nil {
		f.limits(&limits)
	}
	if f.declares != nil {
		f.declares(&declared)
	}
	b := newBroker(limits)
	b.stalls, b.drops = f.stalls, f.drops
	h := harness(b)
	h.Patience = 5 * time.Second // of a bubble: shorter, since a Delayer that never recovers is tried until then
	h.Open = func(ctx context.Context) (_ delayer.Delayer, err error) {
		d := &broken{limits: func(l *delayer.Limits) { *l = declared }}
		if f.open != nil {
			d = f.open(b)
		}
		d.Delayer, err = b.open(ctx)
		return d, err
	}
	if open := h.World; f.world != nil {
		h.World = func(ctx context.Context) (conformance.World, error) {
			w, err := open(ctx)
			return f.world(b, w), err
		}
	}
	r := &recorder{only: map[string]bool{}}
	for _, name := range f.cases {
		r.only[name] = true
	}
	conformance.RunOn(r, h)
	failed := r.failed()
	for _, name := range f.cases {
		if assert.NotEmpty(t, failed[name], "%s does not notice", name) {
			assert.True(t, strings.HasPrefix(failed[name][0], sentences[name]+": "), failed[name][0])
			t.Logf("%s: %s", name, failed[name][0])
		}
	}
	time.Sleep(time.Hour) // of a bubble: goroutines that a broken Delayer left end meanwhile
}

// TestEveryCaseHasAFault: a case that no fault fails tests nothing.
func TestEveryCaseHasAFault(t *testing.T) {
	meant := map[string]bool{}
	for _, f := range faults {
		for _, name := range f.cases {
			meant[name] = true
		}
	}
	for _, c := range conformance.Cases() {
		assert.True(t, meant[c.Name], "%s: no broken Delayer shows that it can fail", c.Name)
	}
}
