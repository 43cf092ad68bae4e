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
	at    time.Time     // when it succeeded; written before ended is closed, under mu
}

// NewMemory returns a store that forgets marks older than age. Choose an age within which any
// duplicate arrives.
func NewMemory(age time.Duration) *Memory {
	return &Memory{age: age, marks: map[string]*mark{}, swept: time.Now()}
}

// Do implements [Store].
func (m *Memory) Do(ctx context.Context, id string, f func(context.Context, NoTx) error) error {
	for {
		m.mu.Lock()
		m.sweep(time.Now())
		other := m.marks[id]
		if other == nil {
			break
		}
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-other.ended:
		}
		if !other.at.IsZero() {
			return nil
		}
	}
	own, succeeded := &mark{ended: make(chan struct{})}, false
	m.marks[id] = own
	m.mu.Unlock()
	defer func() { // also after a panic
		m.mu.Lock()
		defer m.mu.Unlock()
		if succeeded {
			own.at = time.Now()
		} else {
			delete(m.marks, id)
		}
		close(own.ended)
	}()
	err := f(ctx, NoTx{})
	succeeded = err == nil
	return err
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
