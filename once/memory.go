package once

import (
	"context"
	"sync"
	"time"
)

// NoTx is what handlers of [Memory] get in place of a transaction. It is empty.
type NoTx struct{}

// Memory is a [Store] in this process. It is safe for concurrent use.
type Memory struct {
	age time.Duration

	mu    sync.Mutex
	marks map[string]*mark
	swept time.Time
}

var _ Store[NoTx] = (*Memory)(nil)

// A mark stands for an id while its handler runs and after it has succeeded.
type mark struct {
	ended chan struct{} // closed when the handler has returned
	at    time.Time     // zero while it runs
}

// NewMemory returns a store that forgets marks older than age. Choose an age within which any
// duplicate arrives.
func NewMemory(age time.Duration) *Memory {
	return &Memory{age: age, marks: map[string]*mark{}, swept: time.Now()}
}

// Do implements [Store].
func (m *Memory) Do(ctx context.Context, id string, f func(context.Context, NoTx) error) error {
	own, err := m.take(ctx, id)
	if own == nil {
		return err
	}
	succeeded := false
	defer func() { m.end(id, own, succeeded) }() // also after a panic
	err = f(ctx, NoTx{})
	succeeded = err == nil
	return err
}

// take returns a new mark for the caller to end, or nil if id was handled. It waits for a handler
// that runs.
func (m *Memory) take(ctx context.Context, id string) (*mark, error) {
	for {
		own, other := m.put(id)
		if other == nil {
			return own, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-other.ended:
		}
		if m.done(other) {
			return nil, nil
		}
	}
}

// put returns a new mark, or the existing one.
func (m *Memory) put(id string) (own, other *mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(time.Now())
	if other = m.marks[id]; other != nil {
		return nil, other
	}
	own = &mark{ended: make(chan struct{})}
	m.marks[id] = own
	return own, nil
}

func (m *Memory) done(k *mark) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !k.at.IsZero()
}

func (m *Memory) end(id string, k *mark, succeeded bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if succeeded {
		k.at = time.Now()
	} else {
		delete(m.marks, id)
	}
	close(k.ended)
}

// sweep forgets old marks, every half age.
func (m *Memory) sweep(now time.Time) {
	if now.Sub(m.swept) < m.age/2 {
		return
	}
	m.swept = now
	for id, k := range m.marks {
		if !k.at.IsZero() && now.Sub(k.at) > m.age {
			delete(m.marks, id)
		}
	}
}
