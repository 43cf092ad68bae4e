// Package engine is what every broker-side backend is made of: the connections, the publish path, the
// delivery stage and the destinations. A backend adds only where a message waits, as a Strategy.
package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/misrouted"
	"github.com/delayer-go/delayer/internal/topology"
)

// Options are common to all backends.
type Options struct {
	Broker      broker.Options
	Prefix      string
	QueueType   topology.QueueType
	Connections int // for publishing; one more is used for everything else

	// Imported says that an administrator has put the topology there: nothing of it is declared, only looked for.
	// Destinations are still bound.
	Imported bool

	// WatchEvery is how often the topology is looked at while messages are on their way. 0: every 5 s.
	WatchEvery time.Duration

	// Misrouted is what is done with messages that an exchange of ours could not route.
	Misrouted misrouted.Mode

	// Inspect looks at the policies that apply to a plan, where something can. Its error is ErrConflict where one would
	// make messages early or lose them. It may be nil.
	Inspect func(context.Context, topology.Plan) error
}

// A Strategy says where messages wait.
type Strategy interface {
	// Limits tells what the strategy can do on this broker.
	Limits() delayer.Limits
	// Plan is what must be declared before anything is published. It leads to the delivery exchange.
	Plan() topology.Plan
	// Enter returns how a message begins its journey, having declared what that needs beyond Plan.
	Enter(ctx context.Context, j Journey) (Entry, error)
	// Reset forgets what Enter declared: the broker may have lost it.
	Reset()
}

// A Journey is what a Strategy knows of a message.
type Journey struct {
	Delay        time.Duration // positive and within Limits; a tier where there are tiers
	Words        int           // the number of words that keys of ours must have
	Destinations []any         // the delivery keys, strings: where it goes in the end
	Envelope     message.Envelope
	BCC          []any // the user's own, strings
}

// An Entry is how a message is published.
type Entry struct {
	Exchange string
	Keys     []any         // strings; BCC keys beside the user's own
	Headers  amqp091.Table // added to the message's
	Optional bool          // not mandatory: the exchange would return every message
	Foreign  bool          // the exchange is not ours
}

// Engine implements [delayer.Delayer] over a Strategy.
type Engine struct {
	opts      Options
	strategy  Strategy
	limits    delayer.Limits
	bounds    message.Limits
	publisher *broker.Publisher
	control   *broker.Control
	stage     delivery.Stage
	dests     *delivery.Destinations
	mover     *misrouted.Mover // nil where the strategy is Direct

	stale     atomic.Bool   // the topology may be gone
	relink    atomic.Bool   // and with it what was declared on use
	declaring chan struct{} // held by whoever declares it again

	looking   sync.Mutex // held while the topology is looked after, or removed
	epoch     time.Time
	busyUntil atomic.Int64                  // nanoseconds since the epoch: until when the topology is looked after
	canary    *canary                       // nil where nothing of ours is declared
	fault     atomic.Pointer[delayer.Error] // a policy that was found: nothing may wait
	faultAt   time.Time
	faultAge  time.Duration
	unwatch   context.CancelFunc
	watched   chan struct{} // closed when watch has ended
}

// Connected is an engine that has its connections but no strategy yet: a strategy may want to know the
// broker first.
type Connected struct {
	opts    Options
	control *broker.Control
	Stage   delivery.Stage
	Version string // the broker's
}

// Connect makes the control connection.
func Connect(ctx context.Context, opts Options) (*Connected, error) {
	if err := checkPrefix(opts); err != nil {
		return nil, err
	}
	o := opts.Broker
	o.Name = "delayer " + opts.Prefix + " control"
	conn, err := broker.Dial(ctx, o)
	if err != nil {
		return nil, err
	}
	_, _, version := conn.Server()
	return &Connected{
		opts: opts, control: broker.NewControl(conn), Version: version,
		Stage: opts.Stage(),
	}, nil
}

// maxPrefix leaves room for the longest suffix of an object's name below AMQP's 255 bytes.
const maxPrefix = 128

func checkPrefix(opts Options) error {
	bad := func(cause string) error {
		return &delayer.Error{Op: "open", Backend: opts.Broker.Backend, Object: "prefix", Kind: delayer.ErrConfig, Cause: errors.New(cause), Hint: "the default is delayer"}
	}
	switch {
	case opts.Prefix == "":
		return bad("empty")
	case len(opts.Prefix) > maxPrefix:
		return bad(fmt.Sprintf("%d bytes, at most %d fit", len(opts.Prefix), maxPrefix))
	case strings.HasPrefix(opts.Prefix, "amq."):
		return bad(`names that begin with "amq." belong to the broker`)
	}
	return nil
}

// MaxPriority is the highest message priority that waiting queues of this broker can take.
func (c *Connected) MaxPriority() uint8 { return maxPriority(c.Version, c.opts.QueueType) }

// Declare makes more of the topology than the strategy's plan.
func (c *Connected) Declare(ctx context.Context, p topology.Plan) error {
	return declare(ctx, c.opts, c.control, p)
}

// Do runs f on the control channel, as [broker.Control.Do].
func (c *Connected) Do(ctx context.Context, f func(*amqp091.Channel) error) error {
	return c.control.Do(ctx, f)
}

// Close gives up what Start was not called for.
func (c *Connected) Close() { c.control.Close() }

// Start declares the topology, opens the publishing connections and returns the engine. On an error
// everything is closed.
func (c *Connected) Start(ctx context.Context, s Strategy) (*Engine, error) {
	e := &Engine{
		opts: c.opts, strategy: s, limits: s.Limits(), control: c.control, stage: c.Stage,
		declaring: make(chan struct{}, 1), epoch: time.Now(), watched: make(chan struct{}),
	}
	frame, _, _ := c.control.Conn().Server()
	e.bounds = message.Limits{FrameSize: frame, User: c.control.Conn().User(), MaxPriority: e.limits.MaxPriority}
	if err := c.Declare(ctx, e.Plan()); err != nil {
		c.control.Close()
		return nil, err
	}
	o := c.opts.Broker
	o.Name = "delayer " + c.opts.Prefix + " publish"
	var conns []*broker.Conn
	for range max(1, c.opts.Connections) {
		conn, err := broker.Dial(ctx, o)
		if err != nil {
			for _, made := range conns {
				made.Close()
			}
			c.control.Close()
			return nil, err
		}
		conns = append(conns, conn)
	}
	e.publisher = broker.NewPublisher(o.Backend, func() { e.stale.Store(true) }, conns...)
	e.dests = delivery.NewDestinations(e.stage, c.control, o.Backend, o.Slog())
	if err := e.openWatch(ctx); err != nil {
		e.publisher.Close()
		e.control.Close()
		e.dests.Close()
		return nil, err
	}
	ctx, e.unwatch = context.WithCancel(context.Background())
	go e.watch(ctx)
	e.mover = e.startMover()
	return e, nil
}

// Plan is everything that is declared at Open.
func (e *Engine) Plan() topology.Plan {
	if _, ok := e.strategy.(Direct); ok {
		return e.strategy.Plan()
	}
	return whole(e.opts, e.strategy.Plan())
}

// Limits implements [delayer.Delayer].
func (e *Engine) Limits() delayer.Limits { return e.limits }

// Close implements [delayer.Delayer].
func (e *Engine) Close() error {
	e.unwatch()
	<-e.watched
	if e.mover != nil {
		e.mover.Close()
	}
	e.publisher.Close()
	e.control.Close()
	e.dests.Close()
	return nil
}

// Declare makes more of the topology than Open did.
func (e *Engine) Declare(ctx context.Context, p topology.Plan) error {
	return declare(ctx, e.opts, e.control, p)
}

// RemoveTopology deletes everything that p and the engine declared, with the messages that wait in it. Until the next
// Publish nothing is declared again.
func (e *Engine) RemoveTopology(ctx context.Context, p topology.Plan) error {
	e.looking.Lock()
	defer e.looking.Unlock()
	e.busyUntil.Store(0)
	return topology.Remove(ctx, e.control, e.opts.Broker.Backend, p.Add(e.Plan()))
}

// Unroutable is the name of the queue for messages whose destination is gone.
func (e *Engine) Unroutable() string { return e.stage.Unroutable() }

// Publish implements [delayer.Delayer].
func (e *Engine) Publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	return e.locate(e.publish(ctx, exchange, key, delay, msg), exchange, key)
}

func (e *Engine) publish(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	waits, err := fit(delay, e.limits)
	if err != nil {
		return e.fail(delayer.ErrOutOfRange, err)
	}
	if err := e.check(exchange, key, &msg); err != nil {
		return err
	}
	if fault := e.fault.Load(); fault != nil && delay > 0 {
		found := *fault
		found.Op = "publish"
		return &found
	}
	envelope := message.NewEnvelope(time.Now().Add(delay), delay, exchange)
	e.keepWatch(waits)
	const attempts = 3 // a topology that is deleted under us is declared again, and the message sent once more
	for attempt := 1; ; attempt++ {
		err := e.attempt(ctx, exchange, key, waits, msg, envelope)
		if err == nil || attempt == attempts || !e.lost(err, delay) {
			return err
		}
		e.stale.Store(true)
	}
}

// lost says that a message was certainly not stored because objects of ours are gone.
func (e *Engine) lost(err error, delay time.Duration) bool {
	return delivery.TopologyLost(err) || errors.Is(err, errReturned) && delay > 0
}

// errReturned: the broker had nowhere to put the message.
var errReturned = broker.ErrReturned

func (e *Engine) attempt(ctx context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing, envelope message.Envelope) error {
	if e.stale.Load() {
		if err := e.redeclare(ctx); err != nil {
			return err
		}
	}
	destinations, err := e.reach(ctx, exchange, key, message.Copies(msg.Headers), delay)
	if err != nil {
		return err
	}
	if delay == 0 {
		err := e.publisher.PublishDirect(ctx, broker.Publishing{Exchange: exchange, Key: key, Message: message.Seal(msg, envelope, nil)})
		var known *delayer.Error
		if errors.Is(err, errReturned) && errors.As(err, &known) {
			known.Hint = "bind a queue for this key"
		}
		return err
	}
	own, _ := msg.Headers["BCC"].([]any)
	entry, err := e.strategy.Enter(ctx, Journey{
		Delay: delay, Words: delivery.Words(key), Destinations: destinations, Envelope: envelope, BCC: own,
	})
	if err != nil {
		return err
	}
	publish := e.publisher.Publish
	if entry.Foreign {
		publish = e.publisher.PublishDirect
	}
	return publish(ctx, broker.Publishing{
		Exchange: entry.Exchange, Key: key, Optional: entry.Optional, Message: message.Seal(msg, envelope, entry.Headers, entry.Keys...),
	})
}

// reach makes sure of the destination, and returns the keys that lead there from the delivery exchange.
func (e *Engine) reach(ctx context.Context, exchange, key string, copies []string, delay time.Duration) ([]any, error) {
	if direct, ok := e.strategy.(Direct); ok {
		return nil, direct.Exists(ctx)
	}
	return e.dests.Bind(ctx, exchange, key, copies, delay)
}

// check refuses what cannot be published before anything is sent.
func (e *Engine) check(exchange, key string, msg *amqp091.Publishing) error {
	if err := message.Validate(exchange, key, msg, e.bounds); err != nil {
		return e.fail(delayer.ErrInvalid, err)
	}
	if direct, ok := e.strategy.(Direct); ok {
		if err := direct.Accept(exchange); err != nil {
			return e.fail(delayer.ErrInvalid, err)
		}
	}
	if e.opts.Imported {
		if err := importedWords(key); err != nil {
			return e.fail(delayer.ErrInvalid, err)
		}
	}
	names := []string{exchange}
	if exchange == "" { // CC and BCC name queues too
		names = append(message.Copies(msg.Headers), key)
	}
	for _, name := range names {
		if strings.HasPrefix(name, e.opts.Prefix+".") {
			return e.fail(delayer.ErrInvalid, fmt.Errorf("names that begin with %q belong to this Delayer: choose another name", e.opts.Prefix+"."))
		}
	}
	return nil
}

// redeclare makes the topology anew, once for all who find it stale at the same time.
func (e *Engine) redeclare(ctx context.Context) error {
	select {
	case e.declaring <- struct{}{}:
		defer func() { <-e.declaring }()
	case <-ctx.Done():
		return e.fail(delayer.ErrNotSent, context.Cause(ctx))
	}
	if !e.stale.Swap(false) {
		return nil
	}
	e.strategy.Reset()
	e.dests.Reset()
	e.relink.Store(true)
	if err := e.Declare(ctx, e.Plan()); err != nil {
		e.stale.Store(true)
		return err
	}
	return nil
}

func (e *Engine) fail(kind, cause error) error {
	return &delayer.Error{Op: "publish", Backend: e.opts.Broker.Backend, Kind: kind, Cause: cause}
}

// locate adds the destination to an error that does not name one.
func (e *Engine) locate(err error, exchange, key string) error {
	var known *delayer.Error
	if errors.As(err, &known) && known.Object == "" {
		known.Object = fmt.Sprintf("to queue %.300q", key)
		if exchange != "" {
			known.Object = fmt.Sprintf("to exchange %.300q with key %.300q", exchange, key)
		}
	}
	return err
}
