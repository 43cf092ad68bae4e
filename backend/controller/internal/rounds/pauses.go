package rounds

import (
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer/backend/controller/internal/settle"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
)

const (
	// shortestLeft is for how long a destination is left alone that has refused a message. It
	// doubles with each further refusal, up to longestLeft: 16 s, not 20, since by default there
	// are rounds of that length, which bring a message back once in a pause.
	shortestLeft = time.Second
	longestLeft  = 16 * time.Second
	// apart is by how much each message waits for longer than the one before it, up to longestLeft:
	// the shorter pauses would bring thousands back again and again.
	apart = 2 * time.Millisecond
	// rememberedFor is for how long after its pause a destination is remembered. Until then what
	// was refused has come again.
	rememberedFor = time.Minute
	// mostPausing bounds the memory. A message that a further destination refuses waits for the
	// longest pause.
	mostPausing = 10_000
)

// pauses leave destinations alone that refuse messages, as full queues do. Each refused message
// costs two publishes, and thousands of them delay those for all other destinations. After a pause
// one message is tried. The others follow once it was taken. They are safe for concurrent use.
type pauses struct {
	mu    sync.Mutex
	of    map[string]*pause
	swept time.Time
}

func newPauses() *pauses { return &pauses{of: map[string]*pause{}} }

type pause struct {
	lasts   time.Duration
	until   time.Time
	trying  bool // the first message after it
	waiting int  // messages that were told to wait since the first was refused
}

// wait is how long one more message should wait.
func (p *pause) wait(now time.Time) time.Duration {
	p.waiting++
	return max(p.until.Sub(now), min(time.Duration(p.waiting)*apart, longestLeft), shortestLeft)
}

// A try is begin's answer for a message.
type try struct {
	wait time.Duration // above 0: do not try the message now, but after this time

	destination string
	first       *pause // it is the first message after that; nil for others
}

// begin asks whether a message may be tried. If its wait is 0, end must follow.
func (p *pauses) begin(m stamp.Message, now time.Time) try {
	t := try{destination: destination(m)}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch at := p.of[t.destination]; {
	case at == nil:
	case now.Before(at.until), at.trying:
		t.wait = at.wait(now)
	default:
		at.trying, t.first = true, at
	}
	return t
}

// end notes what became of a message: the error of [settle.Settler.Deliver]. If the message was
// refused it returns how long it should wait, otherwise 0. Messages that were tried at the same
// time prolong the pause once.
func (p *pauses) end(t try, err error, now time.Time) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if settle.Refused(err) {
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

func (p *pauses) refused(t try, now time.Time) time.Duration {
	p.sweep(now)
	at := p.of[t.destination]
	switch {
	case at == nil && len(p.of) >= mostPausing:
		return longestLeft
	case at == nil:
		at = &pause{lasts: shortestLeft, until: now.Add(shortestLeft)}
		p.of[t.destination] = at
	case at == t.first:
		at.lasts = min(2*at.lasts, longestLeft)
		at.until, at.trying = now.Add(at.lasts), false
	}
	return at.wait(now)
}

// sweep forgets destinations for which no message has come for long.
func (p *pauses) sweep(now time.Time) {
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

// destination names what may refuse a message: a queue, or an exchange together with the routing
// keys, since one queue behind an exchange may be full while others are not.
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
