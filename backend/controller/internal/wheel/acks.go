package wheel

import (
	"slices"
	"time"
)

// acks decides when to acknowledge the messages of one channel. Their tags count from 1. An
// acknowledgement of a prefix costs the broker a fraction of what as many single ones cost, so what is
// done waits for what came before it; but not for longer than ackWithin, since it would be delivered
// again if this process died. A few are not worth that risk: they wait for ackSoon.
type acks struct {
	first  uint64          // the first tag that is not done
	behind map[uint64]bool // done, but not in the prefix; true: acknowledged
	lone   int             // of those, how many are not acknowledged
	order  []finished      // the first done first; some may be acknowledged by now
	looked time.Duration   // when it was last looked for those that have waited
}

// finished is a message that is stored elsewhere.
type finished struct {
	tag   uint64
	since time.Duration
}

const (
	ackWithin = 5 * time.Second // longer than a slot of seconds lasts: there prefixes suffice
	ackSoon   = 250 * time.Millisecond
	ackFew    = 256
	ackPause  = 2 * time.Millisecond // more may be done meanwhile
)

func newAcks() acks { return acks{first: 1, behind: map[uint64]bool{}} }

// Flush acknowledges all that is done. It is called when the tenure ends.
func (m *Machine) Flush(now Now) {
	for _, v := range m.order {
		m.flush(v, now.Mono+2*ackWithin)
	}
}

// flush acknowledges what is done of a visit, by a time.
func (m *Machine) flush(v *visit, now time.Duration) {
	v.acks.flush(now, func(tag uint64, multiple bool) { m.shell.Ack(v.slot, tag, multiple) })
}

// done notes that a message is stored elsewhere.
func (a *acks) done(tag uint64, now time.Duration) {
	a.behind[tag] = false
	a.lone++
	a.order = append(a.order, finished{tag, now})
}

// flush acknowledges the prefix, and what has waited for too long.
func (a *acks) flush(now time.Duration, ack func(tag uint64, multiple bool)) {
	if a.lone == 0 {
		if a.order != nil { // to write a pointer costs more than to look
			a.order = nil
		}
		return
	}
	if tag := a.prefix(); tag != 0 {
		ack(tag, true)
	}
	if now-a.looked < ackSoon {
		return
	}
	a.looked = now
	for _, tag := range a.overdue(now) {
		ack(tag, false)
		a.behind[tag] = true
		a.lone--
	}
}

// prefix returns the tag up to which all is done, 0 if there is nothing new. The broker closes the
// channel if that tag was acknowledged before.
func (a *acks) prefix() (last uint64) {
	for {
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
}

// overdue returns, in order, the tags that have waited for too long.
func (a *acks) overdue(now time.Duration) (tags []uint64) {
	within := ackWithin
	if a.lone <= ackFew {
		within = ackSoon
	}
	for len(a.order) > 0 && (a.lone == 0 || now-a.order[0].since >= within) {
		tag := a.order[0].tag
		if acked, is := a.behind[tag]; is && !acked {
			tags = append(tags, tag)
		}
		a.order = a.order[1:]
	}
	slices.Sort(tags)
	return tags
}
