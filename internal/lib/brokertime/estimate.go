package brokertime

import "time"

const (
	// DriftEvery is in how many ns one clock gains or loses at most 1 ns on the other: 200 ppm. NTP
	// slews a clock by up to 500 ppm for a while, a quartz is off by 20 to 100.
	DriftEvery = 5000
	// fine, and twice the round trip, is how wide an interval may be that is not narrowed any more.
	// It is also how far outside of it the ends are verified. No question can tell what is less
	// than the round trip.
	fine = time.Millisecond
	// mostHalvings is how many questions in a row halve the interval: on a slow network it may
	// never become fine.
	mostHalvings = 16
	// rest is the pause once the interval is fine and was verified. It widens by 4 ms meanwhile. With
	// the questions that follow, one of which shows any step that can be seen, it is less than the
	// 25 s that are promised.
	rest = 10 * time.Second
	// widest, and the round trip, is how wide an interval may be that is used. The first answer
	// gives a second and its round trip, and drift adds 24 ms until that is stale. It is wider if
	// the machine was suspended, or its wall clock was set.
	widest = time.Second + 50*time.Millisecond
	// staleAfter is how long after the last answer a clock is not known any more.
	staleAfter = time.Minute
)

// An instant is a moment by two clocks. The monotonic clock stops while the machine is suspended,
// the wall clock can be set. The time that has passed lies between the two.
type instant struct {
	mono time.Duration // since the process began to ask
	wall time.Time     // without a monotonic reading
}

// bounds are an interval for an offset: the time since 1970 that the broker's clock shows, less our
// monotonic clock.
type bounds struct{ lo, hi time.Duration }

// after widens bounds by what may have happened since: drift, and a machine that was suspended.
func (b bounds) after(since, now instant) bounds {
	mono, wall := now.mono-since.mono, now.wall.Sub(since.wall)
	drift := max(mono, wall)/DriftEvery + 1
	return bounds{lo: b.lo - max(0, mono-wall) - drift, hi: b.hi + max(0, wall-mono) + drift}
}

func (b bounds) width() time.Duration { return b.hi - b.lo }

type turn int

const (
	halve turn = iota // halves the interval
	above             // the broker's clock is not ahead of it
	below             // nor behind
)

// An estimate is what is known of one node's clock. Its zero value knows nothing. It is pure: all
// times are arguments.
type estimate struct {
	bounds
	at       instant // of the last answer
	known    bool
	rtt      time.Duration // the shortest round trip
	turn     turn
	halvings int  // questions of this turn
	resting  bool // the interval is fine and verified
}

// learn narrows the interval by an answer: the broker's clock showed from or more when that was
// received, and less than to when its question was sent. If answers contradict each other one of the
// clocks was set, and stepped is by how much the broker's clock was ahead of what was known, or
// behind. Then, and if nothing was known any more, the answer alone counts.
func (e *estimate) learn(sent, received instant, from, to time.Time) (stepped time.Duration) {
	told := bounds{
		lo: time.Duration(from.UnixNano()) - received.mono,
		hi: time.Duration(to.UnixNano()) - sent.mono,
	}.after(sent, received)
	was := e.bounds.after(e.at, received)
	rtt := received.mono - sent.mono
	switch {
	case !e.known:
	case told.lo > was.hi:
		stepped = told.lo - was.hi
	case told.hi < was.lo:
		stepped = told.hi - was.lo
	case !e.tooWide(was):
		e.bounds = bounds{lo: max(told.lo, was.lo), hi: min(told.hi, was.hi)}
		e.at, e.rtt = received, min(e.rtt, rtt)
		e.advance()
		return 0
	}
	*e = estimate{bounds: told, at: received, rtt: rtt, known: true}
	return stepped
}

// unseen is how far outside of the interval no question looks.
func (e *estimate) unseen() time.Duration { return fine + 2*e.rtt }

// advance chooses what the next question is for. A clock that is set by less than a second is not
// noticed by questions in the middle of the interval: all their answers would agree with one end
// of it. So both ends are verified.
func (e *estimate) advance() {
	e.halvings++
	e.resting = e.turn == below
	switch {
	case e.turn == halve && e.width() > e.unseen() && e.halvings < mostHalvings:
		return
	case e.turn == below:
		e.turn = halve
	default:
		e.turn++
	}
	e.halvings = 0
}

// next returns when, on the monotonic clock, to ask the next question: so that it arrives when the
// broker's clock shows a full second, if the offset is the middle of the interval. For
// verification it is an offset just outside.
func (e *estimate) next(now instant) time.Duration {
	b, ok := e.now(now)
	if !ok {
		return now.mono
	}
	offset, earliest := b.lo+b.width()/2, now.mono
	switch e.turn {
	case above:
		offset = b.hi + e.unseen()
	case below:
		offset = b.lo - e.unseen()
	case halve:
	}
	if e.resting {
		earliest = max(earliest, e.at.mono+rest)
	}
	shown := (earliest + offset + e.rtt/2) % time.Second
	return earliest + (time.Second-shown)%time.Second
}

// now returns the interval at a moment, and whether it is known.
func (e *estimate) now(now instant) (bounds, bool) { return e.within(now, staleAfter) }

// within is now, for who may go without an answer for so long.
func (e *estimate) within(now instant, stale time.Duration) (bounds, bool) {
	b := e.bounds.after(e.at, now)
	return b, e.known && now.mono-e.at.mono <= stale && !e.tooWide(b)
}

// tooWide reports whether an interval is not used.
func (e *estimate) tooWide(b bounds) bool { return b.width() > widest+e.rtt }
