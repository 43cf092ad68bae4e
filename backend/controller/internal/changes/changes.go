// Package changes knows what became of scheduled messages: which were cancelled, and when others are
// due now. It is pure.
//
// A set of changes depends neither on their order nor on how often each was read. So changes may be
// written again, by any process, at any time.
package changes

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// A Fate is what changes say of one message. Times are in ms by the broker's clock.
type Fate struct {
	Cancelled bool  `json:"cancelled,omitempty"`
	Revision  int64 `json:"revision,omitempty"` // how often it was postponed
	Due       int64 `json:"due"`                // of that revision
	Since     int64 `json:"since"`              // when that was reckoned
	Last      int64 `json:"last"`               // the latest due time that it ever had
	First     int64 `json:"first"`              // the earliest Since
}

// with is what two changes of one message say together: it is cancelled if one says so, and due at
// the latest time that one says.
func (f Fate) with(g Fate) Fate {
	latest := f
	if g.later(f) {
		latest = g
	}
	latest.Cancelled = f.Cancelled || g.Cancelled
	latest.Last, latest.First = max(f.Last, g.Last), min(f.First, g.First)
	return latest
}

func (f Fate) later(than Fate) bool {
	return cmp.Or(cmp.Compare(f.Due, than.Due), cmp.Compare(f.Revision, than.Revision), cmp.Compare(f.Since, than.Since)) > 0
}

// An Entry is the body of one message of the stream.
type Entry struct {
	Mark    string          `json:"mark,omitempty"`    // who waits for it has read all before it
	Written int64           `json:"written,omitempty"` // ms by the broker's clock
	Changes map[string]Fate `json:"changes,omitempty"` // by the id of the message
}

// longestID is more than any id has. Others may write to the stream too.
const longestID = 64

// Parse reads an entry. Invalid entries are ignored.
func Parse(body []byte) (e Entry, ok bool) {
	if json.Unmarshal(body, &e) != nil {
		return Entry{}, false
	}
	for id := range e.Changes {
		if id == "" || len(id) > longestID {
			delete(e.Changes, id)
		}
	}
	return e, true
}

// Body is an entry as a message has it.
func (e Entry) Body() []byte {
	body, err := json.Marshal(e)
	if err != nil {
		panic(err) // numbers and strings only
	}
	return body
}

// For how long a change is known after its message was due: a copy of the message may come late. A
// process that has begun less than KeptFor ago cannot tell whether any controller ran before.
const (
	KeptFor        = 24 * time.Hour
	KeptAfterStart = 7 * 24 * time.Hour
)

// A Set is the changes that one process knows.
type Set struct {
	known   map[string]record
	reading uint32
}

type record struct {
	Fate
	written int64
	reading uint32 // in which it was last read
}

// Read notes that the stream is read from its beginning, again.
func (s *Set) Read() { s.reading++ }

// Add takes an entry over.
func (s *Set) Add(e Entry) {
	if s.known == nil {
		s.known = map[string]record{}
	}
	for id, fate := range e.Changes {
		was, known := s.known[id]
		if known {
			fate = fate.with(was.Fate)
		}
		s.known[id] = record{Fate: fate, written: max(e.Written, was.written), reading: s.reading}
	}
}

// Of is what is known of a message.
func (s *Set) Of(id string) (Fate, bool) {
	r, ok := s.known[id]
	return r.Fate, ok
}

// Len is how many messages were changed.
func (s *Set) Len() int { return len(s.known) }

// Forget forgets what is over: shows is when a message is due by the clock of now, began when this
// process began to read.
func (s *Set) Forget(now, began time.Time, shows func(due, since int64) time.Time) {
	kept := KeptFor
	if now.Sub(began) < KeptFor {
		kept = KeptAfterStart
	}
	for id, r := range s.known {
		if now.Sub(shows(r.Last, r.First)) > kept {
			delete(s.known, id)
		}
	}
}

// Old lists the messages whose changes were last written before a time.
func (s *Set) Old(before int64) []string {
	return s.which(func(r record) bool { return r.written < before })
}

// Lacking lists those that were not in the last reading of the stream: it may be a new one.
func (s *Set) Lacking() []string {
	return s.which(func(r record) bool { return r.reading != s.reading })
}

func (s *Set) which(is func(record) bool) (ids []string) {
	for id, r := range s.known {
		if is(r) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Entries are the changes of messages, to be written at a time.
func (s *Set) Entries(ids []string, now int64) (entries []Entry) {
	const together = 200
	for some := range slices.Chunk(ids, together) {
		e := Entry{Written: now, Changes: map[string]Fate{}}
		for _, id := range some {
			e.Changes[id] = s.known[id].Fate
		}
		entries = append(entries, e)
	}
	return entries
}
