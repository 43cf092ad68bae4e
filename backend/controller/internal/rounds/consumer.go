package rounds

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

const (
	mostHeld      = 8192     // messages in memory at a time
	mostHeldBytes = 64 << 20 // and their bodies

	// prefetch leaves room for messages that pass through while the memory is full.
	prefetch = mostHeld + 1024
)

// A controller is one at work: it consumes the intake.
type controller struct {
	wheel   *Wheel
	session *settle.Session
	refuses pace.Pauses[string] // destinations that have refused a message

	ctx     context.Context // ended by close
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func start(ctx context.Context, w *Wheel, s engine.Settings, e *engine.Engine) (*controller, error) {
	session, err := settle.Connect(ctx, s, e, 1)
	if err != nil {
		return nil, err
	}
	// By default there are rounds of 16 s, which bring a message back once in a pause.
	c := &controller{wheel: w, session: session, refuses: pace.Pauses[string]{First: leastPause, Longest: 16 * time.Second}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.running.Go(func() {
		broker.Consume(c.ctx, session.In, broker.Consuming{
			Queue: w.names.intake(), Prefetch: prefetch, Serve: c.serve, Failed: c.channelLost,
		})
	})
	return c, nil
}

// close stops taking messages, waits for those that are being published, and returns the others to
// the broker.
func (c *controller) close() {
	c.cancel()
	c.session.Close(&c.running)
}

func (c *controller) channelLost(ctx context.Context, err error) {
	c.session.Log.Warn("the controller lost its channel", "queue", c.wheel.names.intake(), "error", err)
	c.session.Redeclare(ctx)
}

// A consumer takes the messages of one channel, until the channel is lost. The broker then
// redelivers what is not acknowledged. Each message has a goroutine, since others are behind.
type consumer struct {
	at      *controller
	alive   context.Context // ends when nothing can be acknowledged any more
	abandon context.CancelCauseFunc
	holding context.Context // ends when what is held goes back to the broker
	working sync.WaitGroup
	pings   atomic.Int32 // that were sent since a message came

	mu   sync.Mutex
	held delayer.HeldEvent // all that is in memory

	asking   sync.Mutex
	answered time.Time // when the channel was last known to be ours
}

// serve takes messages of the intake until the channel is lost or the controller closes.
func (c *controller) serve(alive context.Context, messages <-chan amqp091.Delivery) {
	s := &consumer{at: c, answered: time.Now()}
	s.alive, s.abandon = context.WithCancelCause(alive)
	holding, release := context.WithCancel(s.alive)
	s.holding = holding
	s.take(messages)
	release()
	settle.Wait(&s.working, settle.DrainTimeout, func() { s.abandon(context.DeadlineExceeded) })
	s.abandon(nil)
}

// take returns when no more messages come.
func (c *consumer) take(messages <-chan amqp091.Delivery) {
	look := time.NewTicker(pingEvery)
	defer look.Stop()
	for {
		select {
		case d, ok := <-messages:
			if !ok {
				return
			}
			c.pings.Store(0)
			c.working.Go(func() { c.handle(&d) })
		case <-look.C:
			if c.lost() {
				return
			}
		case <-c.alive.Done():
			return
		case <-c.at.ctx.Done():
			return
		}
	}
}

// handle sends a message on, or holds it until it is due, and delivers it.
func (c *consumer) handle(d *amqp091.Delivery) {
	m, err := readMessage(d)
	if err != nil {
		_, stamped := d.Headers[message.Stamp]
		if _, ping := d.Headers[pingHeader]; ping && !stamped {
			acknowledge(d)
		} else {
			c.keep(d, err)
		}
		return
	}
	now := time.Now()
	remaining := m.stamp.remaining(now, expired(d.Headers))
	level := c.at.wheel.schedule.next(remaining)
	if level == inMemory {
		size := len(d.Body)
		if level = 0; c.hold(1, size) {
			over := pace.Sleep(c.holding, remaining)
			c.hold(-1, -size)
			if over != nil {
				return // the broker redelivers it
			}
			level = deliver
		}
	}
	if level == deliver {
		c.deliver(m)
		return
	}
	c.forward(m, level, now, remaining)
}

// hold changes what is held, and tells the Observer; false: there is no room for so much more.
func (c *consumer) hold(messages, bytes int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if messages > 0 && (c.held.Messages >= mostHeld || c.held.Bytes+bytes > mostHeldBytes) {
		return false
	}
	c.held.Messages += messages
	c.held.Bytes += bytes
	if held := c.at.session.Observer.Held; held != nil {
		held(delayer.HeldEvent{Backend: c.at.session.Backend, Messages: messages, Bytes: bytes})
	}
	return true
}

// leastPause is for how long a message waits at least whose destination has refused one.
const leastPause = time.Second

// deliver sends a message that is due to its destination. If the destination refuses it, as a full
// queue may, or no queue takes it, it goes through a queue and is tried again. So do those behind
// it, untried, while the destination is left alone: each costs two publishes, and thousands of them
// would delay those for others.
func (c *consumer) deliver(m waiting) {
	// One queue behind an exchange may be full while others are not.
	to := fmt.Sprintf("%q", []any{m.Delivery.RoutingKey, m.To, m.BCC})
	pause, _ := c.at.refuses.Wait(to, time.Now())
	if pause == 0 {
		const untilRefused = true
		err := c.retry(m.Delivery, untilRefused, func() error { return c.at.session.Deliver(c.alive, m.Message, "") })
		if err == nil {
			acknowledge(m.Delivery)
			c.at.refuses.Succeeded(to)
		}
		if !settle.Refused(err) {
			return
		}
		c.at.session.Warn("no queue accepts a message; the controller tries again in some seconds",
			"message", m.Envelope.ID, "routing_key", m.Delivery.RoutingKey, "error", err)
		c.at.refuses.Failed(to, time.Now())
		pause, _ = c.at.refuses.Wait(to, time.Now())
	}
	c.forward(m, c.at.wheel.schedule.level(max(pause, leastPause)), time.Now(), 0)
}

// keep moves a foreign message to the unroutable queue, once that takes it.
func (c *consumer) keep(d *amqp091.Delivery, why error) {
	if c.retry(d, false, func() error { return c.at.session.Keep(c.alive, d, why) }) == nil {
		acknowledge(d)
	}
}

// forward puts a message into the queue of a level, and acknowledges it.
func (c *consumer) forward(m waiting, level int, now time.Time, remaining time.Duration) {
	ttl := c.at.wheel.schedule.ttl(level)
	next := nextStamp(now, remaining, ttl)
	next.priority = m.Delivery.Priority
	msg := message.SealAgain(m.Delivery, c.at.session.User, m.Envelope, next.header(m.To, m.BCC))
	msg.Priority = 0
	to := broker.Publishing{Exchange: c.at.wheel.names.wait(level), Key: m.Delivery.RoutingKey, Message: msg}
	if c.retry(m.Delivery, false, func() error { return c.at.session.Publish(c.alive, to) }) != nil {
		return
	}
	acknowledge(m.Delivery)
	if round := c.at.session.Observer.Round; round != nil {
		round(delayer.RoundEvent{Backend: c.at.session.Backend, Wait: ttl})
	}
}

// retry calls publish until it succeeds, the message is refused, if that is asked for, or the
// consumer ends.
func (c *consumer) retry(d *amqp091.Delivery, untilRefused bool, publish func() error) error {
	pause := pace.Backoff{First: 100 * time.Millisecond, Longest: 5 * time.Second}
	for {
		err := c.at.session.Keeper.Ensure(c.alive)
		if err == nil {
			err = c.ours(d.Acknowledger)
		}
		if err == nil {
			err = publish()
		}
		if err == nil || c.alive.Err() != nil || untilRefused && settle.Refused(err) {
			return err
		}
		c.at.session.Warn("the controller cannot publish a message; it tries again", "message", d.Headers[delayer.Header], "error", err)
		if pace.Sleep(c.holding, pause.Failed()) != nil {
			return err
		}
	}
}

// oursFor is for how long a channel is known to be ours that has answered. That is less than a
// broker waits for heartbeats.
const oursFor = 5 * time.Second

// ours returns an error, and ends the consumer, if another may have its messages by now: the broker
// gives them away while this process, or its machine, stands still. Call it right before a message
// is published. If the process stands still after that, and for as long as the broker waits for a
// heartbeat, the message arrives twice.
func (c *consumer) ours(channel amqp091.Acknowledger) error {
	c.asking.Lock()
	defer c.asking.Unlock()
	for time.Since(c.answered) > oursFor {
		const noSize, wholeChannel = 0, false
		asked := time.Now()
		asks := channel.(interface{ Qos(int, int, bool) error }).Qos
		if err := asks(prefetch, noSize, wholeChannel); err != nil { // for new consumers, of which there will be none
			c.abandon(err)
			return err
		}
		c.answered = asked
	}
	return nil
}

// acknowledge removes a message from the intake: it is stored elsewhere.
func acknowledge(d *amqp091.Delivery) { _ = d.Ack(false) } // fails only if the channel is lost

const (
	// pingEvery is how long a consumer must be idle before it sends a ping through the intake.
	pingEvery = 3 * time.Second
	// mostPings may be without an answer. Where several controllers consume, each gets only its
	// share of the pings of all.
	mostPings = 5
	// pingHeader marks a ping. What a Delayer has published may have it, but with a stamp.
	pingHeader = "x-delayer-ping"
)

// lost reports whether a consumer gets no more messages. If the intake is deleted and declared
// again at once, the broker moves the consumer to the new queue. A channel of a quorum queue then
// drops every delivery, unacknowledged, until it is closed (rabbit_channel,
// queue_down_consumer_action; seen on RabbitMQ 3.10.8 and 4.3.6). The client is not told. So an
// idle consumer sends itself pings.
func (c *consumer) lost() bool {
	c.mu.Lock()
	full := c.held.Messages > 0
	c.mu.Unlock()
	switch {
	case full:
		c.pings.Store(0) // a full memory stops deliveries
	case c.pings.Load() >= mostPings:
		c.at.session.Log.Warn("the controller's consumer gets no messages although its queue has some; it consumes again",
			"queue", c.at.wheel.names.intake())
		return true
	default:
		c.working.Go(c.ping)
	}
	return false
}

// ping sends a message through the intake. It expires after a minute where no controller consumes.
func (c *consumer) ping() {
	ctx, cancel := context.WithTimeout(c.alive, pingEvery) // a broker that blocks publishers takes none
	defer cancel()
	none := amqp091.Publishing{Expiration: "60000"} // ms
	ping := message.Seal(none, message.NewEnvelope(time.Now(), 0, ""), amqp091.Table{pingHeader: true})
	if c.at.session.Publisher.Publish(ctx, broker.Publishing{Exchange: c.at.wheel.names.enter(), Message: ping}) == nil {
		c.pings.Add(1)
	}
}
