package entry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A forwarder passes messages on: each until it is confirmed where it goes.
type forwarder struct {
	rules
	delayer  delayer.Delayer
	direct   func(context.Context, broker.Publishing) error
	declare  func(context.Context) error // the queues
	prefetch int                         // how many messages of a queue are under way at a time
	frame    func() int                  // the negotiated frame size; 0: unknown
	isEntry  func(ctx context.Context, exchange string) (bool, error)
	passed   func(action string, took time.Duration)
	log      *slog.Logger
	warnings pace.Warnings
	reading  atomic.Int32 // queues that are consumed
}

const (
	firstPause   = 100 * time.Millisecond // after a message could not be passed on
	longestPause = 5 * time.Second
	// refusedFor is how long a message is tried that its destination refuses, as a full queue does,
	// before it is parked: it must not keep others from passing. It is tried at the beginning and
	// at the end of that time: one full queue is enough for a refusal, and the others of the
	// exchange get a copy with each attempt. So they do if one of the queues does not confirm.
	refusedFor = time.Minute
)

// settle passes a message on and acknowledges it. It tries again, with growing pauses, until
// serving or alive ends; the broker then delivers the message again. written is called once a
// message that goes straight comes before those that are settled from then on.
func (f *forwarder) settle(serving, alive context.Context, l letter, written func()) {
	if l.odd != "" {
		f.warnings.Warn(f.log, l.odd, message.Attr(l.Delivery))
	}
	began := time.Now()
	for failures := 1; ; failures++ {
		err := f.pass(alive, l, written)
		if l.action == straight && errors.Is(err, broker.ErrReturned) { // as with the plugin, it ends there
			f.warnings.Warn(f.log, "a message is dropped: no queue is bound for it", "to", l.to, "routing_key", l.RoutingKey, message.Attr(l.Delivery))
			l.action, err = dropped, nil
		}
		if err == nil {
			f.done(l)
			return
		}
		if !errors.Is(err, delayer.ErrNotSent) {
			written() // its place is lost: others need not wait
		}
		if l.action == park && (errors.Is(err, errNoCopy) || errors.Is(err, delayer.ErrInvalid)) { // such as a body above the broker's limit
			f.reject(l)
			return
		}
		if hopeless(l.action, err, time.Since(began)) || f.spec.To == "" && unreachable(l.action, err) {
			l = f.refuse(l, time.Now(), err)
			continue
		}
		again := pace.Doubled(firstPause, longestPause, failures)
		if l.action == straight && (errors.Is(err, delayer.ErrRefused) || errors.Is(err, delayer.ErrUnknown) && errors.Is(err, context.DeadlineExceeded)) {
			again = refusedFor
		}
		f.warnings.Warn(f.log, "a message cannot be passed on; it is tried again", message.Attr(l.Delivery), "within", again, "error", err)
		if pace.Sleep(serving, again) != nil {
			_ = l.Nack(false, true)
			return
		}
	}
}

// unreachable reports whether the exchange that a publisher chose cannot be reached: it does not
// exist, it is internal, or serve may not write to it. Only what the broker says of that exchange
// counts. A password that it does not accept any more is no reason.
func unreachable(a action, err error) bool {
	var refused *amqp091.Error
	switch {
	case a != straight && a != delayed:
		return false
	case errors.Is(err, delayer.ErrUnroutable):
		return true
	case !errors.Is(err, delayer.ErrAccess) || errors.Is(err, delayer.ErrNotSent):
		return false
	}
	return a == straight || errors.As(err, &refused) && refused.Server
}

// hopeless reports whether a message is to be parked. A missing exchange or permission (unless the
// publisher chose the exchange), an alarm, a policy and full waiting queues concern all messages:
// they wait.
func hopeless(a action, err error, tried time.Duration) bool {
	switch {
	case a == park:
		return false
	case errors.Is(err, delayer.ErrRefused):
		return a == straight && tried >= refusedFor
	}
	return errors.Is(err, delayer.ErrInvalid) || errors.Is(err, delayer.ErrOutOfRange) || errors.Is(err, errTooLarge)
}

// pass makes one attempt.
func (f *forwarder) pass(ctx context.Context, l letter, written func()) error {
	ctx, cancel := broker.Attempt(ctx, len(l.Body))
	defer cancel()
	var err error
	switch l.action {
	case straight:
		err = f.publish(ctx, broker.Publishing{Exchange: l.to, Key: l.RoutingKey, Message: l.out, Written: written})
	case delayed, tour:
		m := f.message(l)
		err = f.delayer.Publish(ctx, m.Exchange, m.Key, f.left(l), m.Publishing)
	case park:
		err = f.park(ctx, l)
	}
	return err
}

// left is what is left of the delay of a message that is tried again: it has waited here since it
// was read. Tiers that take no other delay get the whole again.
func (f *forwarder) left(l letter) time.Duration {
	if f.limits.ExactTiers {
		return l.delay
	}
	return max(time.Millisecond, l.delay-time.Since(l.read))
}

var (
	// errNoCopy: the message cannot be published, but the broker can move it.
	errNoCopy     = errors.New("the message cannot be published again")
	errTooLarge   = fmt.Errorf("%w: its properties and headers do not fit into a frame", errNoCopy) // which would close the connection
	errUnreadable = fmt.Errorf("%w: %s", errNoCopy, unreadable)
	errStranger   = fmt.Errorf("%w: the user of delayer serve has not published it, or not with the exchange to which it goes", errNoCopy)
)

func (f *forwarder) publish(ctx context.Context, p broker.Publishing) error {
	if frame := f.frame(); frame > 0 && !message.Fits(&p.Message, frame) {
		return fmt.Errorf("%w of %d bytes", errTooLarge, frame)
	}
	return f.direct(ctx, p)
}

// park publishes a message to the queue of parked messages.
func (f *forwarder) park(ctx context.Context, l letter) error {
	if _, is := l.Headers[broker.UnreadableHeader]; is {
		return errUnreadable
	}
	if l.stranger {
		return errStranger
	}
	const noDelay, defaultExchange = 0, ""
	msg := message.Seal(l.trip, message.NewEnvelope(time.Now(), noDelay, defaultExchange), nil)
	to := broker.Publishing{Key: f.Parked, Message: msg}
	err := f.publish(ctx, to)
	if errors.Is(err, broker.ErrReturned) || errors.Is(err, delayer.ErrUnroutable) { // someone has deleted it
		if err := f.declare(ctx); err != nil {
			return err
		}
		err = f.publish(ctx, to)
	}
	if err == nil {
		f.log.Warn("a message is parked", message.Attr(l.Delivery), "queue", f.Parked, "reason", attempt.Bound(l.reason))
	}
	return err
}

// reject has the broker move a message as it is to the parked ones. It comes through the queue
// Back, where it is decided about once more.
func (f *forwarder) reject(l letter) {
	const again = false
	_ = l.Reject(again)
	if l.from == f.Back {
		f.log.Warn("a message is parked as it is", message.Attr(l.Delivery), "queue", f.Parked, "reason", attempt.Bound(l.reason))
		f.passed(actions[park], time.Since(l.read))
	}
}

// serve passes on the messages of one channel, until it is lost or stop has ended. Those that run
// by then have drainTimeout.
func (f *forwarder) serve(stop, alive context.Context, queue string, messages <-chan amqp091.Delivery) {
	alive, abandon := context.WithCancel(alive)
	defer abandon()
	serving, end := context.WithCancel(alive)
	defer end()
	defer context.AfterFunc(stop, func() { end(); time.AfterFunc(drainTimeout, abandon) })()
	acks, ended, acknowledged := newGatherer(f.prefetch), make(chan struct{}), make(chan struct{})
	go func() { defer close(acknowledged); acks.run(ended) }()
	var running sync.WaitGroup
	defer func() { running.Wait(); close(ended); <-acknowledged }()
	line := make(chan letter, mostAtOnce)
	defer close(line)
	running.Go(func() { f.delay(serving, alive, &running, line) })
	sound := map[string]time.Time{} // when exchanges that publishers chose were found to be no entries
	for stop.Err() == nil {
		select {
		case <-stop.Done():
		case d, open := <-messages:
			if !open {
				return
			}
			if stop.Err() != nil {
				return // not begun: closing the channel gives it back
			}
			now := time.Now()
			acks.begin(&d)
			l := f.decide(queue, &d, now)
			l.read = now
			if known := f.unlessEntry(serving, &l, sound); !known {
				_ = l.Nack(false, true)
				continue
			}
			if l.action == delayed || l.action == tour {
				line <- l
			} else {
				f.begin(serving, alive, &running, l)
			}
		}
	}
}

const (
	soundFor  = time.Minute
	mostSound = 1000
)

// unlessEntry parks a message whose publisher chose an entry of another process of this prefix:
// messages would go in a circle. The broker knows such an entry by its queue. known is false if the
// broker does not answer.
func (f *forwarder) unlessEntry(ctx context.Context, l *letter, sound map[string]time.Time) (known bool) {
	if f.spec.To != "" || f.spec.proxied || l.action == park || len(l.to) > mostName || time.Since(sound[l.to]) < soundFor {
		return true
	}
	is, err := f.isEntry(ctx, l.to)
	switch {
	case err != nil:
		f.warnings.Warn(f.log, "it is not known whether an exchange is an entry; a message for it is tried again", "to", l.to, "error", err)
		_ = pace.Sleep(ctx, longestPause)
		return false
	case is:
		*l = f.refuse(*l, l.read, fmt.Errorf("exchange %.120q is not allowed: it is an entry itself", l.to))
	case len(sound) >= mostSound:
		clear(sound)
		fallthrough
	default:
		sound[l.to] = time.Now()
	}
	return true
}

// drainTimeout is how long messages that are being passed on may take once the entry stops.
const drainTimeout = 10 * time.Second

// begin settles a message beside others. It returns once a message that goes straight is written,
// so that such messages keep their order, and while none can be written takes no other.
func (f *forwarder) begin(serving, alive context.Context, running *sync.WaitGroup, l letter) {
	written := make(chan struct{})
	done := sync.OnceFunc(func() { close(written) })
	running.Go(func() {
		defer done()
		f.settle(serving, alive, l, done)
	})
	if l.action != straight {
		return
	}
	select {
	case <-written:
	case <-serving.Done():
	}
}

// mostAtOnce is how many delayed messages are published together.
const mostAtOnce = 512

// delay publishes messages through the Delayer in the order in which they came: those that come
// while some are on their way follow together. What fails is settled beside the others.
func (f *forwarder) delay(serving, alive context.Context, running *sync.WaitGroup, line <-chan letter) {
	for l := range line {
		letters := []letter{l}
		for more := true; more && len(letters) < mostAtOnce; {
			select {
			case l, more = <-line:
				if more {
					letters = append(letters, l)
				}
			default:
				more = false
			}
		}
		messages, bytes := make([]delayer.Message, len(letters)), 0
		for i, l := range letters {
			messages[i] = f.message(l)
			bytes += len(l.Body)
		}
		ctx, cancel := broker.Attempt(alive, bytes)
		results := f.delayer.PublishBatch(ctx, messages)
		cancel()
		for i, err := range results {
			l := letters[i]
			if err == nil {
				f.done(l)
				continue
			}
			running.Go(func() { f.settle(serving, alive, l, func() {}) })
		}
	}
}

// message is a letter as the Delayer publishes it.
func (f *forwarder) message(l letter) delayer.Message {
	if l.action == tour {
		return delayer.Message{Key: f.Back, Delay: l.delay, Publishing: l.trip}
	}
	return delayer.Message{Exchange: l.to, Key: l.RoutingKey, Delay: l.delay, Publishing: l.out}
}

// done acknowledges a message that is confirmed where it went. That fails only where the channel is
// lost: then the message comes again.
func (f *forwarder) done(l letter) {
	_ = l.Ack(false)
	f.passed(actions[l.action], time.Since(l.read))
}
