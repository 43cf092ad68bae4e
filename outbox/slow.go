package outbox

import (
	"errors"
	"sync"
	"time"

	"github.com/delayer-go/delayer/internal/lib/message"
)

// slow knows the destinations that have left a message unconfirmed while the broker has confirmed
// others, as a quorum queue without a majority does. Their rows are held off, so that a batch waits
// for none of them, and few copies go there. After a pause that doubles one row is published,
// unless one is unconfirmed yet. Any answer ends it.
type slow struct {
	most time.Duration // the longest pause

	mu       sync.Mutex
	held     map[message.Destination]*pausing
	awaiting int // messages that batches have left unconfirmed
}

func (r *row) destination() message.Destination { return message.To(r.exchange, r.key) }

type pausing struct {
	pauses   int
	until    time.Time
	awaiting int
}

var (
	errUnconfirmed = errors.New("the broker has not confirmed it yet; its destination may have lost its majority")
	errHeld        = errors.New("not tried: its destination does not confirm other messages")
)

// hold returns how long a row waits, or 0 if it may be published. known says that its destination
// is slow.
func (s *slow) hold(to message.Destination, now time.Time) (wait time.Duration, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.held[to]
	switch {
	case p == nil:
		return 0, false
	case now.Before(p.until):
		return p.until.Sub(now), true
	}
	p.next(now, s.most)
	if p.awaiting > 0 {
		return p.until.Sub(now), true
	}
	return 0, true
}

func (p *pausing) next(now time.Time, most time.Duration) {
	p.pauses++
	p.until = now.Add(pause(p.pauses, most))
}

// mark notes that a destination has left a message unconfirmed.
func (s *slow) mark(to message.Destination, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[to] != nil {
		return
	}
	p := &pausing{}
	p.next(now, s.most)
	if s.held == nil {
		s.held = map[message.Destination]*pausing{}
	}
	s.held[to] = p
}

// left notes that a batch does not wait for a message any more, and ended that it has its result.
func (s *slow) left(to message.Destination)  { s.await(to, 1) }
func (s *slow) ended(to message.Destination) { s.await(to, -1) }

func (s *slow) await(to message.Destination, messages int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaiting += messages
	if p := s.held[to]; p != nil {
		p.awaiting = max(p.awaiting+messages, 0) // it may have answered, and be slow again
	}
}

// answered notes that a destination is not slow.
func (s *slow) answered(to message.Destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, to)
}

// room reports whether so many more messages may be left unconfirmed: they are in memory.
func (s *slow) room(messages, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.awaiting+messages <= most
}
