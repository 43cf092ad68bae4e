package wheel

import (
	"container/heap"
	"time"
)

const (
	// slowTick is how often the machine looks at what changes slowly, and idleTick while nothing is
	// in hand.
	slowTick, idleTick = 100 * time.Millisecond, time.Second
	// stoodStill is less than a broker waits for a heartbeat. A client's heartbeat is 10 s, and the
	// broker waits for two.
	stoodStill = 5 * time.Second
)

// Tick does what is due, and returns when it must be called next. It may be called at any time.
func (m *Machine) Tick(now Now) (next time.Duration) {
	if m.over {
		return now.Mono + time.Hour
	}
	m.at(now)
	if now.Mono >= m.slow.Mono+m.pace() {
		m.tend(now)
		m.slow = now
	}
	if m.recheck && !m.frozen() && now.Known {
		again := m.unproven
		m.recheck, m.unproven = false, nil
		for _, msg := range again {
			m.decide(now, msg)
		}
	}
	for len(m.waiting) > 0 && m.waiting[0].at <= now.Mono && !m.over {
		w := heap.Pop(&m.waiting).(waiting)
		if w.change != nil {
			m.settle(now, w.change)
		} else {
			m.again(now, w.message)
		}
	}
	next = m.slow.Mono + m.pace()
	if len(m.waiting) > 0 {
		next = min(next, m.waiting[0].at)
	}
	for _, v := range m.order {
		m.flush(v, now.Mono)
	}
	return max(next, now.Mono)
}

// pace is how often the machine looks at what changes slowly.
func (m *Machine) pace() time.Duration {
	if m.leading && !m.surveyed || len(m.survey)+len(m.dests) > 0 || m.inHand > 1 { // one is the summons
		return slowTick
	}
	return idleTick
}

// tend looks at what changes slowly.
func (m *Machine) tend(now Now) {
	m.summon(now)
	if m.frozen() && m.Full() { // nothing is read: no answer could come
		m.surrender("this process stood still, and its memory is full")
	}
	if !m.leading || m.over || !now.Known {
		return
	}
	if !m.slow.Known {
		m.recheck = true
	}
	if m.compare(now); m.over {
		return
	}
	m.turn(now)
	m.surveyWhenDue(now)
	m.countSome()
	for _, v := range m.order {
		m.mark(now, v)
	}
	m.makeRoom(now)
	m.renew(now)
	m.stuck(now)
}

// at notices that this process stood still.
func (m *Machine) at(now Now) {
	if passed := max(now.Mono-m.last.Mono, now.Wall.Sub(m.last.Wall)); passed > stoodStill {
		m.unsure++
		m.shell.Verify()
	}
	m.last = now
}

// frozen reports whether nothing may be published: this process stood still, and another may lead
// by now.
func (m *Machine) frozen() bool { return m.unsure > 0 }

// thawed is false, and the message waits, while nothing may be published.
func (m *Machine) thawed(now Now, msg *Message) bool {
	if m.frozen() {
		m.wait(now, msg, unclear)
	}
	return !m.frozen()
}

// Verified answers Verify: all that was consumed then still was. What is asked later is for what
// came later.
func (m *Machine) Verified(now Now) {
	if m.over {
		return
	}
	m.at(now)
	m.unsure--
	m.recheck = true
}

// wait goes on with a message after a while.
func (m *Machine) wait(now Now, msg *Message, d time.Duration) {
	m.count++
	heap.Push(&m.waiting, waiting{at: now.Mono + d, count: m.count, message: msg})
}

// A waiting message or change is looked at again at a time.
type waiting struct {
	at      time.Duration
	count   int64
	message *Message
	change  *change
}

// waitingHeap implements heap.Interface: the first due is on top.
type waitingHeap []waiting

func (h waitingHeap) Len() int { return len(h) }
func (h waitingHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].count < h[j].count
}
func (h waitingHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *waitingHeap) Push(w any)   { *h = append(*h, w.(waiting)) }

func (h *waitingHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	(*h)[last] = waiting{} // lets go of the message
	*h = (*h)[:last]
	return w
}
