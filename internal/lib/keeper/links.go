package keeper

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// Links are the bindings between a backend's queues. Each is declared when it is first used. There
// may be thousands, because our routing keys have as many words as the user's (see message.Words).
// Publish looks up a link for every hop: an index into an array, without a lock.
type Links[L any] struct {
	spec      LinkSpec[L]
	tables    [message.MostWords + 1]atomic.Pointer[[]edge] // by the number of words in a key
	declaring chan struct{}

	mu   sync.Mutex
	used map[use]L // all that were ever declared, also before a Reset
}

type use struct{ index, words int }

// A LinkSpec describes the links of a strategy.
type LinkSpec[L any] struct {
	Backend string
	Count   int                                // of links
	Index   func(L) int                        // 0 to Count − 1
	Key     func(l L, words int) string        // the routing key, of so many words
	Needs   func(l L, words int) topology.Plan // the objects that a link needs
	Declare func(context.Context, topology.Plan) error
}

// An edge is a link for keys of a certain number of words.
type edge struct {
	key   any         // the routing key, a string; written before ready is set
	ready atomic.Bool // declared
}

// NewLinks returns the links of a strategy, none of them declared.
func NewLinks[L any](spec LinkSpec[L]) *Links[L] {
	return &Links[L]{spec: spec, declaring: make(chan struct{}, 1), used: map[use]L{}}
}

// Reset forgets which links are declared: the broker may have lost them.
func (l *Links[L]) Reset() {
	for i := range l.tables {
		l.tables[i].Store(nil)
	}
}

func (l *Links[L]) table(words int) []edge {
	t := l.tables[words].Load()
	if t == nil {
		fresh := make([]edge, l.spec.Count)
		if l.tables[words].CompareAndSwap(nil, &fresh) {
			return fresh
		}
		t = l.tables[words].Load()
		if t == nil { // reset in between
			return fresh
		}
	}
	return *t
}

// Keys returns the routing keys of the links of a route, in order, with room for more keys. It
// first declares the links that are not declared yet.
func (l *Links[L]) Keys(ctx context.Context, route []L, words, room int) ([]any, error) {
	table := l.table(words)
	keys := make([]any, 0, len(route)+room)
	for _, k := range route {
		e := &table[l.spec.Index(k)]
		if !e.ready.Load() {
			if err := l.prepare(ctx, table, route, words); err != nil {
				return nil, err
			}
		}
		keys = append(keys, e.key)
	}
	return keys, nil
}

func (l *Links[L]) prepare(ctx context.Context, table []edge, route []L, words int) error {
	select {
	case l.declaring <- struct{}{}:
		defer func() { <-l.declaring }()
	case <-ctx.Done():
		return broker.Explain("publish", l.spec.Backend, "", context.Cause(ctx))
	}
	var plan topology.Plan
	var missing []L
	for _, k := range route {
		if !table[l.spec.Index(k)].ready.Load() {
			missing = append(missing, k)
			plan = plan.Add(l.spec.Needs(k, words))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := l.spec.Declare(ctx, plan); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range missing {
		l.used[use{l.spec.Index(k), words}] = k
		e := &table[l.spec.Index(k)]
		e.key = l.spec.Key(k, words)
		e.ready.Store(true)
	}
	return nil
}

// Used lists the objects of all links that were ever used: messages may be waiting for them.
func (l *Links[L]) Used() topology.Plan {
	l.mu.Lock()
	defer l.mu.Unlock()
	var plan topology.Plan
	for u, k := range l.used {
		plan = plan.Add(l.spec.Needs(k, u.words))
	}
	return plan
}

// ImportedWords are the numbers of words that our keys may have in an imported topology. Each
// number needs its own bindings, and all would be too many. These serve routing keys with up to
// seven dots, and the empty key.
var ImportedWords = []int{1, 2, 3, 4, 5, 6, 7, 8, message.Words("")}

// CheckWords refuses a routing key for which an imported topology has no bindings.
func CheckWords(key string) error {
	if slices.Contains(ImportedWords, message.Words(key)) {
		return nil
	}
	return fmt.Errorf("the routing key has %d words; with declare: false it may have eight", strings.Count(key, ".")+1)
}

// Complete returns the objects that links need in an imported topology.
func Complete[L any](links []L, needs func(l L, words int) topology.Plan) topology.Plan {
	var p topology.Plan
	for _, l := range links {
		for _, words := range ImportedWords {
			p.Bindings = append(p.Bindings, needs(l, words).Bindings...)
		}
	}
	return p
}
