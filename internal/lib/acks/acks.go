// Package acks decides when to acknowledge the messages of a channel. An acknowledgement that
// stands for all messages up to a tag costs the broker no more than that of a single message. So
// what is done waits for what came before it; but not for long, since it would come again if this
// process died. It is pure.
package acks

import (
	"slices"
	"time"
)

// Acks are those of one channel. The zero value is not ready: use [New].
type Acks struct {
	first  uint64          // the first tag that is not done
	behind map[uint64]bool // done, but not all before them; true: needs no acknowledgement any more
	lone   int             // of those, how many need one
	order  []finished      // the first done first; some may be acknowledged by now
}

// finished is a message that is stored elsewhere.
type finished struct {
	tag   uint64
	since time.Duration
}

// New returns the acknowledgements of a channel whose first message has this tag. The next has the
// next.
func New(first uint64) Acks { return Acks{first: first, behind: map[uint64]bool{}} }

// Done notes that a message is stored elsewhere. now is by any clock that goes on.
func (a *Acks) Done(tag uint64, now time.Duration) {
	a.behind[tag] = false
	a.lone++
	a.order = append(a.order, finished{tag, now})
}

// Over notes that a message needs no acknowledgement, since it was given back.
func (a *Acks) Over(tag uint64) { a.behind[tag] = true }

// Waiting is how many messages are done, and not acknowledged.
func (a *Acks) Waiting() int { return a.lone }

// UpTo returns the tag up to which all is done, 0 if there is nothing new. The broker closes the
// channel if that tag was acknowledged before.
func (a *Acks) UpTo() (last uint64) {
	for a.lone > 0 {
		acked, done := a.behind[a.first]
		if !done {
			return last
		}
		if !acked {
			last = a.first
			a.lone--
		}
		delete(a.behind, a.first)
		a.first++
	}
	if a.order != nil { // to write a pointer costs more than to look
		a.order = nil
	}
	return last
}

// Overdue returns, in order, the tags that have waited for as long. Each is to be acknowledged
// alone.
func (a *Acks) Overdue(now, within time.Duration) (tags []uint64) {
	for len(a.order) > 0 && now-a.order[0].since >= within {
		tag := a.order[0].tag
		if acked, is := a.behind[tag]; is && !acked {
			a.behind[tag] = true
			a.lone--
			tags = append(tags, tag)
		}
		a.order = a.order[1:]
	}
	slices.Sort(tags)
	return tags
}
