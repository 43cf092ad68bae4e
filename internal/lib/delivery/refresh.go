package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

const (
	refreshEvery = time.Second           // the age at which a binding is made again while messages wait for it
	refreshPause = 20 * time.Millisecond // between two routes: 50 a second, while they are few
	leastPause   = 4 * time.Millisecond  // while they are many: 250 a second, or it would cost the broker too much
	forgetAfter  = 10 * time.Minute      // without use, after the last message was due
	rebindings   = 8                     // at a time; a broker.Control has as many channels
)

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
		d.forget(ctx)
	}
}

// busy returns the routes for which messages wait.
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

// forget drops unused routes, and removes what is left in the broker of those whose destination is
// gone.
func (d *Destinations) forget(ctx context.Context) {
	d.routes.Range(func(id, value any) bool {
		r := value.(*Route)
		due := r.lastDue.Load()
		if d.now()-due <= int64(forgetAfter) {
			return true
		}
		if r.id.exchange != "" && errors.Is(d.bind(ctx, r, d.now()), delayer.ErrUnroutable) {
			d.unbind(ctx, r)
		}
		if r.lastDue.CompareAndSwap(due, forgotten) {
			d.routes.CompareAndDelete(id, r)
		}
		return ctx.Err() == nil
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
