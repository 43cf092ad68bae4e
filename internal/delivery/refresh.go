package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/delayer-go/delayer"
)

const (
	refreshEvery = time.Second           // the age at which a binding with messages on their way is made again
	refreshPause = 20 * time.Millisecond // between two bindings: at most 50 a second, however many there are
	forgetAfter  = 10 * time.Minute      // without use, after the last message was due
)

// refresh makes the bindings of destinations that have messages on their way again and again, so that
// one that was deleted and created while they waited still gets them, without anyone publishing.
func (d *Destinations) refresh(ctx context.Context) {
	defer close(d.done)
	for wait(ctx, refreshEvery) {
		d.routes.Range(func(id, value any) bool {
			r := value.(*Route)
			now := d.now()
			switch due := r.lastDue.Load(); {
			case now-due > int64(forgetAfter):
				d.routes.Delete(id)
				return true
			case now > due, now-r.boundAt.Load() < int64(refreshEvery):
				return true
			}
			d.report(r, d.bind(ctx, r, now))
			return wait(ctx, refreshPause)
		})
	}
}

// report logs, once, that a destination with messages on their way is gone.
func (d *Destinations) report(r *Route, err error) {
	if errors.Is(err, delayer.ErrUnroutable) && !r.reported.Swap(true) {
		d.log.Warn("a destination with delayed messages on their way is gone; unless it is created again, they go to the queue for unroutable messages",
			"destination", r.String(), "queue", d.stage.Unroutable())
	}
}

// wait returns false when ctx ended first.
func wait(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}
