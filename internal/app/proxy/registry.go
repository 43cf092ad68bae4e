package proxy

import (
	"context"
	"sync"
	"time"

	"github.com/delayer-go/delayer/internal/lib/pace"
)

// Fronts are the exchanges in front of those that are delayed, on the broker.
type Fronts interface {
	// Of is the name of the exchange in front of another. With header the message needs the header
	// [entry.ExchangeHeader] with the name of that other.
	Of(exchange string) (front string, header bool)
	// Refused returns why an exchange cannot have one, or "".
	Refused(exchange string) (why string)
	// Served reports whether an exchange has an entry of its own, which delays.
	Served(exchange string) bool
	// Has reports whether an exchange has one, Put declares it, and Remove deletes it.
	Has(ctx context.Context, exchange string) (bool, error)
	Put(ctx context.Context, exchange string) error
	Remove(ctx context.Context, exchange string) error
}

// A registry knows which exchanges are delayed.
//
// That one is delayed is believed until the broker says 404. That one is not is believed for absentFor
// only, and who makes it delayed waits longer than that before the client hears of it. So no process
// takes an exchange for another once its declaration was answered.
type registry struct {
	fronts Fronts

	mu    sync.Mutex
	known map[string]answer
}

type answer struct {
	delayed bool
	asked   time.Time
}

const (
	absentFor  = 250 * time.Millisecond
	settledFor = 2 * absentFor
	mostKnown  = 10_000
	askWithin  = 30 * time.Second
)

// has reports whether an exchange is delayed.
func (r *registry) has(ctx context.Context, exchange string) (bool, error) {
	if a := r.last(exchange); a.delayed || time.Since(a.asked) < absentFor {
		return a.delayed, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	a := answer{asked: time.Now()}
	var err error
	if a.delayed, err = r.fronts.Has(ctx, exchange); err == nil {
		r.note(exchange, a)
	}
	return a.delayed, err
}

// put makes an exchange delayed, and returns once all processes know it.
func (r *registry) put(ctx context.Context, exchange string) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if err := r.fronts.Put(ctx, exchange); err != nil {
		return err
	}
	if a := r.last(exchange); a.delayed && time.Since(a.asked) > settledFor {
		return nil
	}
	there := answer{true, time.Now()}
	if err := pace.Sleep(ctx, settledFor); err != nil {
		return err
	}
	r.note(exchange, there)
	return nil
}

func (r *registry) remove(ctx context.Context, exchange string) error {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	err := r.fronts.Remove(ctx, exchange)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, exchange)
	return err
}

func (r *registry) last(exchange string) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[exchange]
}

func (r *registry) note(exchange string, a answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= mostKnown {
		clear(r.known)
	}
	r.known[exchange] = a
}

// forget makes it ask again: an exchange was not there.
func (r *registry) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.known)
}
