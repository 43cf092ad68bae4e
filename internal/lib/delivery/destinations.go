package delivery

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
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
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

	refreshEvery = time.Second           // the age at which a binding is made again while messages wait for it
	refreshPause = 20 * time.Millisecond // between two routes: 50 a second, while they are few
	leastPause   = 4 * time.Millisecond  // while they are many: 250 a second, or it would cost the broker too much
	forgetAfter  = 10 * time.Minute      // without use, after the last message was due
	rebindings   = 8                     // at a time; a broker.Control has as many channels
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
	bindings := r.bindings(d.stage)
	if !whole {
		bindings = bindings[:1] // the one to the destination
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
		err = d.explain(r, err)
		if errors.Is(err, delayer.ErrUnroutable) {
			r.wholeAt.Store(0)
		}
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

// refresh repeatedly makes the bindings of destinations for which messages wait. So a destination
// that is deleted and created again still gets them, although nobody publishes.
func (d *Destinations) refresh(ctx context.Context) {
	defer close(d.done)
	for pace.Sleep(ctx, refreshEvery) == nil {
		busy := d.busy()
		pause := max(min(refreshPause, wholeFor/time.Duration(len(busy)+1)), leastPause)
		for _, r := range busy {
			if d.now()-r.boundAt.Load() < int64(refreshEvery) {
				continue
			}
			d.report(r, d.bind(ctx, r, d.now()))
			if pace.Sleep(ctx, pause) != nil {
				return
			}
		}
		d.forget()
	}
}

func (d *Destinations) busy() []*Route {
	var busy []*Route
	now := d.now()
	d.routes.Range(func(_, r any) bool {
		if r := r.(*Route); r.lastDue.Load() >= now {
			busy = append(busy, r)
		}
		return true
	})
	return busy
}

// forget drops unused routes. Of an exchange that is gone the broker keeps the binding between
// exchanges of ours: it leads to where nothing matches.
func (d *Destinations) forget() {
	d.routes.Range(func(id, value any) bool {
		r := value.(*Route)
		due := r.lastDue.Load()
		if d.now()-due <= int64(forgetAfter) {
			return true
		}
		if r.lastDue.CompareAndSwap(due, forgotten) {
			d.routes.CompareAndDelete(id, r)
		}
		return true
	})
}

// Rebind makes all bindings of every route for which messages wait, as fast as the broker can. A
// destination that is gone is no error.
func (d *Destinations) Rebind(ctx context.Context) error {
	var (
		working sync.WaitGroup
		mu      sync.Mutex
		first   error
	)
	slots := make(chan struct{}, rebindings)
	for _, r := range d.busy() {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			r.wholeAt.Store(0)
			err := d.bind(ctx, r, d.now())
			d.report(r, err)
			mu.Lock()
			defer mu.Unlock()
			if first == nil && err != nil && !errors.Is(err, delayer.ErrUnroutable) {
				first = err
			}
		})
	}
	working.Wait()
	return first
}

// BindAgain makes all bindings of one destination, also if another process has bound it. It is no error
// that a destination is gone, or that this process may not bind one that is another's.
func (d *Destinations) BindAgain(ctx context.Context, exchange, key string) error {
	r := d.route(routeID{exchange, queueOf(exchange, key), message.Words(key)})
	r.wholeAt.Store(0)
	err := d.bind(ctx, r, d.now())
	d.report(r, err)
	if err != nil {
		d.drop(r)
	}
	if errors.Is(err, delayer.ErrUnroutable) || errors.Is(err, delayer.ErrAccess) && !r.known.Load() {
		return nil
	}
	return err
}

// report logs once that a destination for which messages wait is gone. Nothing waits for one that
// was never bound.
func (d *Destinations) report(r *Route, err error) {
	if errors.Is(err, delayer.ErrUnroutable) && r.known.Load() && !r.reported.Swap(true) {
		d.log.Warn("a destination is gone while messages wait for it; they become unroutable unless it is created again",
			"destination", r.String(), "queue", d.stage.Unroutable())
	}
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
