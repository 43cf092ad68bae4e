package page

import (
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
)

// Rates keep how much this process has delivered, and how late at most, for each minute of the last hour.
type Rates struct {
	mu      sync.Mutex
	now     func() time.Time
	watched bool       // this process may deliver
	minutes [61]minute // by the minute since 1970: 60 that are over, and the one that is not
}

// NewRates is empty.
func NewRates() *Rates { return &Rates{now: time.Now} }

// A minute counts deliveries.
type minute struct {
	at   int64 // minutes since 1970
	n    int
	late time.Duration // the most
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
	if e.Err != nil || e.Dropped {
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
	m.late = max(m.late, e.Lateness)
}

// An hour is what was delivered in the 60 minutes before the one that is not over.
type hour struct {
	N    int
	Now  float64       // a second, in the last minute that is over
	Late time.Duration // the most
	From time.Time
	Each [60]minute // in order; those without deliveries are empty
}

func (r *Rates) hour() hour {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := r.now().Unix() / 60
	h := hour{From: time.Unix((current-60)*60, 0).UTC()}
	for i := range h.Each {
		at := current - 60 + int64(i)
		m := r.minutes[at%int64(len(r.minutes))]
		if m.at != at {
			continue
		}
		h.Each[i] = m
		h.N += m.n
		h.Late = max(h.Late, m.late)
	}
	h.Now = float64(h.Each[59].n) / 60
	return h
}
