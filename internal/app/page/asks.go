package page

import (
	"crypto/rand"
	"time"
)

const (
	mostQuestions = 16 // the oldest is forgotten when there would be more
	askedFor      = 10 * time.Minute
)

// An ask is a question whether somebody is sure, about messages that were counted. Exactly those
// are meant.
type ask struct {
	who, queue, action string
	ids                map[string]bool
	at                 time.Time
}

// ask keeps a question, and returns its name.
func (b *Backlog) ask(one ask) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	one.at = b.now()
	oldest := ""
	for name, other := range b.asks {
		if oldest == "" || other.at.Before(b.asks[oldest].at) {
			oldest = name
		}
	}
	if len(b.asks) >= mostQuestions {
		delete(b.asks, oldest)
	}
	name := rand.Text()
	b.asks[name] = one
	return name
}

// asked finds a question that was not answered yet.
func (b *Backlog) asked(name string) (ask, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one, there := b.asks[name]
	return one, there && b.now().Sub(one.at) <= askedFor
}

// answered forgets a question.
func (b *Backlog) answered(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.asks, name)
}
