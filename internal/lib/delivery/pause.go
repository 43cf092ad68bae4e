package delivery

import (
	"sync"
	"time"
)

const (
	firstPause   = time.Second
	longestPause = time.Minute
	patience     = 6 // attempts to send a message to a destination that refuses it, in half a minute
	copies       = 2 // of a message whose attempts may each have stored one, a minute apart
)

// A failure says what an attempt to move a message has left.
type failure int

const (
	transient failure = iota // nothing, and the cause does not lie in the message or its destination
	refused                  // nothing
	unsure                   // perhaps a copy: a queue of several refused the message, or nobody answered
)

// tries counts the failed attempts to move a message.
type tries struct{ failed, unsure int }

// note counts an attempt. It returns the pause before the next one. over: that goes to the
// unroutable queue.
func (t *tries) note(f failure) (pause time.Duration, over bool) {
	t.failed++
	if f != unsure {
		return pauseFor(t.failed), f == refused && t.failed >= patience
	}
	t.unsure++
	if t.unsure < copies {
		return longestPause, false
	}
	return firstPause, true
}

// pauseFor returns the pause after so many failures. It doubles with each, from none.
func pauseFor(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(firstPause<<min(failures-1, 10), longestPause)
}

// A tally counts events by name. It remembers a bounded number of names.
type tally struct {
	mu     sync.Mutex
	most   int
	counts map[string]int
	oldest []string
}

func newTally(most int) *tally { return &tally{most: most, counts: map[string]int{}} }

// add adds the name and returns how often it was added before.
func (t *tally) add(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, there := t.counts[name]
	if !there {
		if len(t.oldest) == t.most {
			delete(t.counts, t.oldest[0])
			t.oldest = t.oldest[1:]
		}
		t.oldest = append(t.oldest, name)
	}
	t.counts[name] = n + 1
	return n
}

// refusals are the destinations that refused all attempts of a message. For a while, further
// messages get one attempt.
type refusals struct {
	mu    sync.Mutex
	until map[string]time.Time
}

func (r *refusals) note(place string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil || len(r.until) > 1000 {
		r.until = map[string]time.Time{}
	}
	r.until[place] = time.Now().Add(longestPause)
}

func (r *refusals) fresh(place string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until[place])
}
