package wheel

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"
)

// A destination has its own queue of attempts. One that refuses, or does not answer, costs its own
// messages: while it pauses, they go back into the wheel.
type destination struct {
	name    string
	flying  int   // messages that are being delivered
	bytes   int64 // of them
	heard   time.Duration
	waiting []*Message
	streak  int           // of refusals
	until   time.Duration // it pauses
}

const (
	// mostFlying is how many messages of a destination are being delivered at a time: few enough
	// that one that is silent takes nothing from others (see the shell). fewFlying is for after it
	// has refused one.
	mostFlying, fewFlying = 150, 8
	// flyingShare is the part of the memory that they may take: nothing else is read while memory
	// is full, and what a silent destination has stays there. One message may be larger.
	flyingShare = 16
	// firstRefused and longestRefused are how long a destination pauses.
	firstRefused, longestRefused = time.Second, 20 * time.Second
	// silentFor is how long a destination may take to answer.
	silentFor = 5 * time.Second
	// forgottenAfter is how long after its pause it is known that a destination refused.
	forgottenAfter = time.Minute
)

// deliver publishes a message that is due, or has it wait for its destination.
func (m *Machine) deliver(now Now, msg *Message) {
	msg.decided = true
	d := m.dests[msg.To]
	if d == nil {
		d = &destination{name: msg.To, heard: now.Mono}
		m.dests[msg.To] = d
	}
	if len(d.waiting) > 0 { // it does not overtake: a large one would wait for as long as smaller ones come
		d.waiting = append(d.waiting, msg)
		return
	}
	m.attempt(now, msg, d)
}

// attempt delivers a message, which is the next of its destination.
func (m *Machine) attempt(now Now, msg *Message, d *destination) {
	if !m.thawed(now, msg) {
		return
	}
	room := m.room(d, msg)
	switch {
	case now.Mono < d.until, d.streak > 0 && (!room || d.flying >= fewFlying), msg.age(now) > heldFor && msg.tries > 0:
		m.later(now, msg, d)
	case !room:
		d.waiting = append(d.waiting, msg)
	default:
		if d.flying == 0 {
			d.heard = now.Mono
		}
		d.flying++
		d.bytes += int64(msg.Size)
		msg.flying = true
		m.shell.Deliver(msg)
	}
}

// room reports whether a message may be delivered beside those that are.
func (m *Machine) room(d *destination, msg *Message) bool {
	return d.flying == 0 || d.flying < mostFlying && d.bytes+int64(msg.Size) <= m.cfg.Budget/flyingShare
}

// fail makes a destination pause.
func (d *destination) fail(now Now) {
	if now.Mono < d.until {
		return // another message has said so
	}
	d.streak++
	d.until = now.Mono + min(firstRefused<<min(d.streak-1, 10), longestRefused)
}

// answeredBy notes an answer for a message, and goes on with what waits.
func (m *Machine) answeredBy(now Now, d *destination, msg *Message, o Outcome) {
	d.flying--
	d.bytes -= int64(msg.Size)
	d.heard = now.Mono
	if o == Accepted {
		d.streak, d.until = 0, 0
	}
	m.goOn(now, d)
	if d.flying == 0 && len(d.waiting) == 0 && d.streak == 0 {
		delete(m.dests, d.name)
	}
}

func (m *Machine) goOn(now Now, d *destination) {
	for len(d.waiting) > 0 && (m.room(d, d.waiting[0]) || d.streak > 0) {
		next := d.waiting[0]
		d.waiting = d.waiting[1:]
		m.attempt(now, next, d)
	}
}

// later puts a message that is due back into the wheel, until its destination has paused. Some are
// tried then, and the others a while after.
func (m *Machine) later(now Now, msg *Message, d *destination) {
	if !now.Known {
		m.wait(now, msg, unclear)
		return
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(msg.ID)) // never fails
	pause := max(d.until-now.Mono, firstRefused)
	pause += pause * time.Duration(hash.Sum32()%1024) / 1024
	msg.Ticket, msg.Then, msg.Own = false, nil, false // it is certain that it is delivered
	msg.Due = now.reckon(pause)
	m.move(now, msg)
}

// stuck finds destinations that do not answer.
func (m *Machine) stuck(now Now) {
	var silent []*destination
	for name, d := range m.dests {
		if d.flying == 0 && now.Mono-d.until > forgottenAfter {
			delete(m.dests, name)
		}
		if d.flying > 0 && now.Mono-d.heard > silentFor && now.Mono >= d.until {
			silent = append(silent, d)
		}
	}
	slices.SortFunc(silent, func(a, b *destination) int { return cmp.Compare(a.name, b.name) })
	for _, d := range silent {
		d.fail(now)
		m.goOn(now, d)
	}
}
