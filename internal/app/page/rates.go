package page

import (
	"math"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
)

// Rates keep how much this process has delivered, and how late, for each minute of the last hour.
type Rates struct {
	mu      sync.Mutex
	now     func() time.Time
	watched bool       // this process may deliver
	minutes [61]minute // by the minute since 1970: 60 that are over, and the one that is not
}

// NewRates is empty.
func NewRates() *Rates { return &Rates{now: time.Now} }

// A minute counts deliveries by their lateness.
type minute struct {
	at   int64 // minutes since 1970
	n    int
	late lateness
}

// lateness has four steps for each doubling, from 100 µs to some hours.
type lateness [112]uint32

const finest = 100 * time.Microsecond

func stepOf(d time.Duration) int {
	if d <= finest {
		return 0
	}
	return min(int(4*math.Log2(float64(d)/float64(finest))), len(lateness{})-1)
}

// middle is that of a step: at most a tenth above or below what is in it.
func middle(step int) time.Duration {
	return time.Duration(float64(finest) * math.Exp2((float64(step)+0.5)/4))
}

// Watch has a Delayer that is opened with a configuration tell what it delivers.
func (r *Rates) Watch(cfg *backend.Config) {
	if cfg.Backend != controller.Name {
		return // no other delivers by itself
	}
	r.watched = true
	others := cfg.Observer.Delivered
	cfg.Observer.Delivered = func(e delayer.DeliveryEvent) {
		r.delivered(e)
		if others != nil {
			others(e)
		}
	}
}

func (r *Rates) delivered(e delayer.DeliveryEvent) {
	if e.Err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.now().Unix() / 60
	m := &r.minutes[at%int64(len(r.minutes))]
	if m.at != at {
		*m = minute{at: at}
	}
	m.n++
	m.late[stepOf(e.Lateness)]++
}

// quantile is that share of n deliveries, from the earliest on.
func (l *lateness) quantile(share float64, n int) time.Duration {
	left := int(math.Ceil(share * float64(n)))
	for step, count := range l {
		if left -= int(count); left <= 0 {
			return middle(step)
		}
	}
	return middle(len(l) - 1)
}

// An hour is what was delivered in the 60 minutes before the one that is not over.
type hour struct {
	N        int
	Now      float64 // a second, in the last minute that is over
	P50, P99 time.Duration
	From     time.Time
	Each     [60]minute // in order; those without deliveries are empty
}

func (r *Rates) hour() hour {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := r.now().Unix() / 60
	h := hour{From: time.Unix((current-60)*60, 0).UTC()}
	var all lateness
	for i := range h.Each {
		at := current - 60 + int64(i)
		m := r.minutes[at%int64(len(r.minutes))]
		if m.at != at {
			continue
		}
		h.Each[i] = m
		h.N += m.n
		for step, count := range m.late {
			all[step] += count
		}
	}
	h.Now = float64(h.Each[59].n) / 60
	if h.N > 0 {
		h.P50, h.P99 = all.quantile(0.5, h.N), all.quantile(0.99, h.N)
	}
	return h
}
