package settle

import (
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
)

const (
	// shortestPause is for how long a destination is left alone that has refused a message. It doubles
	// with each further refusal, up to longestPause: 16 s, not 20, since by default there are rounds of
	// that length, which bring a message back once in a pause.
	shortestPause = time.Second
	longestPause  = 16 * time.Second
	// apart is by how much each message waits for longer than the one before it, up to longestPause: the
	// shorter pauses would bring thousands back again and again.
	apart = 2 * time.Millisecond
	// rememberedFor is for how long after its pause a destination is remembered. Until then what was
	// refused has come again.
	rememberedFor = time.Minute
	// mostPausing bounds the memory. A message that a further destination refuses waits for the longest
	// pause.
	mostPausing = 10_000
)

// Pauses leave destinations alone that refuse messages, as full queues do. Each refused message costs
// two publishes, and thousands of them delay those for all other destinations. After a pause one
// message is tried. The others follow once it was taken. Pauses are safe for concurrent use.
type Pauses struct {
	mu    sync.Mutex
	of    map[string]*pause
	swept time.Time
}

// NewPauses returns Pauses of no destination.
func NewPauses() *Pauses { return &Pauses{of: map[string]*pause{}} }

// A pause is that of one destination.
type pause struct {
	lasts   time.Duration
	until   time.Time
	trying  bool // the first message after it
	waiting int  // messages that were told to wait since the first was refused
}

// wait is how long one more message should wait.
func (p *pause) wait(now time.Time) time.Duration {
	p.waiting++
	return max(p.until.Sub(now), min(time.Duration(p.waiting)*apart, longestPause), shortestPause)
}

// A Try is Begin's answer for a message.
type Try struct {
	Wait time.Duration // above 0: do not try the message now, but after this time

	destination string
	first       *pause // it is the first message after that; nil for others
}

// Begin asks whether a message may be tried. If its Wait is 0, End must follow.
func (p *Pauses) Begin(m stamp.Message, now time.Time) Try {
	t := Try{destination: destination(m)}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch at := p.of[t.destination]; {
	case at == nil:
	case now.Before(at.until), at.trying:
		t.Wait = at.wait(now)
	default:
		at.trying, t.first = true, at
	}
	return t
}

// End notes what became of a message: the error of [Settler.Deliver]. If the message was refused it
// returns how long it should wait, otherwise 0. Messages that were tried at the same time prolong the
// pause once.
func (p *Pauses) End(t Try, err error, now time.Time) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if Refused(err) {
		return p.refused(t, now)
	}
	if t.first != nil {
		t.first.trying = false
		if err == nil {
			delete(p.of, t.destination)
		}
	}
	return 0
}

func (p *Pauses) refused(t Try, now time.Time) time.Duration {
	p.sweep(now)
	at := p.of[t.destination]
	switch {
	case at == nil && len(p.of) >= mostPausing:
		return longestPause
	case at == nil:
		at = &pause{lasts: shortestPause, until: now.Add(shortestPause)}
		p.of[t.destination] = at
	case at == t.first:
		at.lasts = min(2*at.lasts, longestPause)
		at.until, at.trying = now.Add(at.lasts), false
	}
	return at.wait(now)
}

// sweep forgets destinations for which no message has come for long.
func (p *Pauses) sweep(now time.Time) {
	if now.Sub(p.swept) < rememberedFor {
		return
	}
	p.swept = now
	for name, at := range p.of {
		if !at.trying && now.Sub(at.until) > rememberedFor {
			delete(p.of, name)
		}
	}
}

// destination names what may refuse a message: a queue, or an exchange together with the routing keys,
// since one queue behind an exchange may be full while others are not.
func destination(m stamp.Message) string {
	var name strings.Builder
	name.WriteString(m.Delivery.RoutingKey)
	for _, keys := range [...][]any{m.Stamp.To, m.Stamp.BCC} {
		for _, key := range keys {
			name.WriteByte(0)
			name.WriteString(key.(string))
		}
	}
	return name.String()
}
