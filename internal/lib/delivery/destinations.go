package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

const (
	// freshFor is how long a binding is assumed to exist after it was last made. The broker deletes
	// the bindings of a deleted destination, and does not tell us. Making the binding again shows
	// whether the destination exists. To do so for every message would cost as much as publishing.
	freshFor = 100 * time.Millisecond

	// wholeFor is the same for the bindings between exchanges of ours. They vanish only if somebody
	// deletes one of those. Another process may then declare it again, without our bindings.
	wholeFor = 5 * time.Second
)

// A control runs f on a channel. It is a *broker.Control.
type control interface {
	Do(ctx context.Context, f func(*amqp091.Channel) error) error
}

// Destinations binds destinations to the delivery exchange when they are first used, and keeps them
// bound as long as messages wait for them. It is safe for concurrent use.
type Destinations struct {
	stage   Stage
	control control
	backend string
	log     *slog.Logger

	routes sync.Map // routeID → *Route
	epoch  time.Time

	stop context.CancelFunc
	done chan struct{}
}

type routeID struct {
	exchange, queue string // queue only with the default exchange
	words           int
}

// A Route is a destination for messages whose keys have a certain number of words.
type Route struct {
	id   routeID
	keys []any // the delivery key, a string: a list, and never changed, so that each message can use it

	boundAt  atomic.Int64 // when the destination was last bound, in nanoseconds since the epoch; 0: not bound
	wholeAt  atomic.Int64 // when all its bindings were last made, likewise
	lastDue  atomic.Int64 // when the last message is due, likewise; or forgotten
	binding  chan struct{}
	known    atomic.Bool // it was bound once
	reported atomic.Bool // the loss was logged
}

// forgotten is the lastDue of a route that is no longer kept. A message needs a new Route.
const forgotten = -1

// note keeps the route until a message is due. It returns false if the route is forgotten.
func (r *Route) note(due int64) bool {
	for {
		last := r.lastDue.Load()
		if last == forgotten {
			return false
		}
		if due <= last || r.lastDue.CompareAndSwap(last, due) {
			return true
		}
	}
}

// NewDestinations starts to keep the destinations of stage bound. Close ends it.
func NewDestinations(stage Stage, control control, backend string, log *slog.Logger) *Destinations {
	ctx, stop := context.WithCancel(context.Background())
	d := &Destinations{
		stage: stage, control: control, backend: backend, log: log,
		epoch: time.Now().Add(-time.Hour), stop: stop, done: make(chan struct{}),
	}
	go d.refresh(ctx)
	return d
}

// Close ends the goroutine that keeps the bindings.
func (d *Destinations) Close() {
	d.stop()
	<-d.done
}

// now is monotonic, and never 0.
func (d *Destinations) now() int64 { return int64(time.Since(d.epoch)) }

// Reset forgets all bindings: the broker may have lost them.
func (d *Destinations) Reset() {
	d.routes.Range(func(_, r any) bool {
		r.(*Route).wholeAt.Store(0)
		r.(*Route).boundAt.Store(0)
		return true
	})
}

// Bind makes sure that a destination exists and is bound, until a message with this delay is due.
// It returns the delivery keys that lead there. The error is ErrUnroutable if the destination does
// not exist.
//
// At the default exchange a message also goes to the queues that its CC and BCC name, here copies.
// As in a plain publish, queues that do not exist are ignored if at least one does.
func (d *Destinations) Bind(ctx context.Context, exchange, key string, copies []string, delay time.Duration) ([]any, error) {
	words := message.Words(key)
	if exchange != "" {
		copies = nil // the exchange itself matches them
	}
	keys, err := d.bindOne(ctx, routeID{exchange, queueOf(exchange, key), words}, delay)
	unroutable := err
	for _, queue := range copies {
		if err != nil && !errors.Is(err, delayer.ErrUnroutable) {
			return nil, err
		}
		var more []any
		if more, err = d.bindOne(ctx, routeID{"", queue, words}, delay); err == nil {
			keys = append(keys, more...)
		}
	}
	switch {
	case err != nil && !errors.Is(err, delayer.ErrUnroutable):
		return nil, err
	case len(keys) == 0:
		return nil, unroutable
	}
	return keys, nil
}

func queueOf(exchange, key string) string {
	if exchange == "" {
		return key
	}
	return ""
}

func (d *Destinations) bindOne(ctx context.Context, id routeID, delay time.Duration) ([]any, error) {
	for {
		r := d.route(id)
		now := d.now()
		if at := r.boundAt.Load(); at == 0 || now-at >= int64(freshFor) {
			if err := d.bind(ctx, r, now); err != nil {
				d.drop(r)
				return nil, err
			}
		}
		if r.note(now + int64(delay)) {
			return r.keys, nil
		}
		d.routes.CompareAndDelete(id, r)
	}
}

// route returns the Route of a destination. It is kept before it is bound, which may take long.
func (d *Destinations) route(id routeID) *Route {
	if r, ok := d.routes.Load(id); ok {
		return r.(*Route)
	}
	r := &Route{id: id, keys: []any{Key(id.exchange, id.queue, id.words)}, binding: make(chan struct{}, 1)}
	r.lastDue.Store(d.now())
	actual, _ := d.routes.LoadOrStore(id, r)
	return actual.(*Route)
}

// drop forgets a route that was never bound: what does not exist may have any number of names.
func (d *Destinations) drop(r *Route) {
	due := r.lastDue.Load()
	if !r.known.Load() && due != forgotten && r.lastDue.CompareAndSwap(due, forgotten) {
		d.routes.CompareAndDelete(r.id, r)
	}
}

// bind makes the route's bindings, once for all callers at the same time.
func (d *Destinations) bind(ctx context.Context, r *Route, asked int64) error {
	select {
	case r.binding <- struct{}{}:
		defer func() { <-r.binding }()
	case <-ctx.Done():
		return broker.Explain("publish", d.backend, r.String(), context.Cause(ctx))
	}
	if r.boundAt.Load() >= asked {
		return nil
	}
	now := d.now()
	whole := now-r.wholeAt.Load() >= int64(wholeFor) || r.wholeAt.Load() == 0
	err := d.make(ctx, r, whole)
	if errors.Is(err, delayer.ErrUnroutable) {
		r.wholeAt.Store(0)
	}
	if err != nil {
		r.boundAt.Store(0)
		return err
	}
	if whole {
		r.wholeAt.Store(now)
	}
	r.boundAt.Store(now)
	r.known.Store(true)
	r.reported.Store(false)
	return nil
}

// make makes the binding to the destination, or all bindings that lead there.
func (d *Destinations) make(ctx context.Context, r *Route, whole bool) error {
	bindings := r.bindings(d.stage)
	if !whole {
		bindings = bindings[:1]
	}
	err := d.control.Do(ctx, func(ch *amqp091.Channel) error {
		for _, b := range bindings {
			if err := objects.Bind(ch, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return d.explain(r, err)
	}
	return nil
}

// unbind removes the binding that the broker keeps when a user's exchange is deleted: the one
// between exchanges of ours. It leads to where nothing matches, so it does no harm. If another
// process needs it just then, its messages are misrouted until it makes the binding again.
func (d *Destinations) unbind(ctx context.Context, r *Route) {
	_ = d.control.Do(ctx, func(ch *amqp091.Channel) error { // what is left costs little
		for _, b := range r.bindings(d.stage)[1:] {
			if err := objects.Unbind(ch, b); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *Route) bindings(s Stage) []topology.Binding {
	return s.bindings(r.id.exchange, r.id.queue, r.keys[0].(string))
}

// explain distinguishes a missing destination from a missing exchange of ours. Both are 404.
func (d *Destinations) explain(r *Route, err error) error {
	var amqpErr *amqp091.Error
	if errors.As(err, &amqpErr) && amqpErr.Code == amqp091.NotFound && d.stage.owns(amqpErr.Reason) {
		return Lost(d.backend, r.String(), amqpErr)
	}
	var known *delayer.Error
	if err := broker.Explain("publish", d.backend, r.String(), err); errors.As(err, &known) && errors.Is(known, delayer.ErrUnroutable) {
		known.Hint = "declare it before publishing"
		return known
	}
	return broker.Explain("publish", d.backend, r.String(), err)
}

// notFound is the broker's 404. The name is quoted as it is and may have quotes of its own.
var notFound = regexp.MustCompile(`^NOT_FOUND - no exchange '((?s).*)' in vhost '`)

// owns reports whether the broker's 404 is about an exchange of the stage.
func (s Stage) owns(reason string) bool {
	at := notFound.FindStringSubmatch(reason)
	if at == nil {
		return false
	}
	return at[1] == s.Exchange() || at[1] == s.Exchanges() || at[1] == s.beforeExchanges()
}

// errTopologyLost: an object of ours is gone. It is a NotSent to the caller.
var errTopologyLost = fmt.Errorf("%w: an exchange or a queue of this Delayer was deleted", delayer.ErrNotSent)

// Lost is the error of a message that cannot be published while an object of ours is gone. Of such
// a 404 the destination knows nothing.
func Lost(backend, object string, cause error) error {
	return &delayer.Error{Op: "publish", Backend: backend, Object: object, Kind: errTopologyLost, Cause: cause}
}

// TopologyLost reports whether a message was not published because objects of ours are gone and
// must be declared again.
func TopologyLost(err error) bool { return errors.Is(err, errTopologyLost) }

// String names the destination for errors and logs.
func (r *Route) String() string { return Place(r.id.exchange, r.id.queue) }

// A Presence says whether a destination exists.
type Presence int

// The answers of Exists.
const (
	Unknown Presence = iota // the broker refuses to answer
	Gone
	There
)

// Exists asks the broker for a destination: an exchange, or with "" the queue that key names. The
// error is that of broker.Explain.
func Exists(ctx context.Context, control *broker.Control, exchange, key string) (Presence, error) {
	const durable, autoDelete, internal, waitForAnswer = true, false, false, false
	var err error
	if exchange == "" {
		_, err = control.Queue(ctx, key)
	} else { // the broker compares only the name in a passive declaration
		err = control.Do(ctx, func(ch *amqp091.Channel) error {
			return ch.ExchangeDeclarePassive(exchange, "direct", durable, autoDelete, internal, waitForAnswer, nil)
		})
	}
	if err == nil {
		return There, nil
	}
	switch broker.Code(err) {
	case amqp091.ResourceLocked:
		return There, nil
	case amqp091.NotFound:
		return Gone, nil
	case amqp091.AccessRefused:
		return Unknown, nil
	}
	return Unknown, broker.Explain("look at", "", Place(exchange, key), err)
}

// Place names a destination in errors and logs.
func Place(exchange, key string) string {
	if exchange == "" {
		return fmt.Sprintf("queue %.300q", key)
	}
	return fmt.Sprintf("exchange %.300q", exchange)
}
