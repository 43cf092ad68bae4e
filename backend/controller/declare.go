package controller

import (
	"context"
	"math"
	"sync/atomic"
	"time"
)

// A declarer declares the topology again, once for all who need it at the same time.
type declarer struct {
	declare func(context.Context) error // the whole topology

	lost atomic.Bool   // the broker may have lost it
	busy chan struct{} // has room for one: who declares
	last time.Time     // when it was declared last; guarded by busy
}

func newDeclarer(declare func(context.Context) error) *declarer {
	return &declarer{declare: declare, busy: make(chan struct{}, 1)}
}

// ensure declares the topology if it may be lost.
func (d *declarer) ensure(ctx context.Context) error {
	if !d.lost.Load() {
		return nil
	}
	return d.renew(ctx, math.MaxInt64)
}

// renew declares the topology if it may be lost or was declared longer ago than age.
func (d *declarer) renew(ctx context.Context, age time.Duration) error {
	select {
	case d.busy <- struct{}{}:
		defer func() { <-d.busy }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !d.lost.Load() && time.Since(d.last) < age {
		return nil
	}
	d.lost.Store(false) // before it is declared: a loss meanwhile must count
	if err := d.declare(ctx); err != nil {
		d.lost.Store(true)
		return err
	}
	d.last = time.Now()
	return nil
}
