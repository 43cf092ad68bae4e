package conformance_test

import "sync"

// A meeting is where subjects that share a broker wait for one another, and then do a step
// together.
type meeting struct {
	mu      sync.Mutex
	members int // that have not left
	waiting []chan<- error
	step    func() error
}

// together waits until all members are here. The step is done once, for all of them.
func (m *meeting) together(step func() error) error {
	done := make(chan error, 1)
	m.mu.Lock()
	m.waiting, m.step = append(m.waiting, done), step
	m.proceed()
	m.mu.Unlock()
	return <-done
}

// leave is called by a member that does no further step, because it has ended or failed.
func (m *meeting) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members--
	m.proceed()
}

// proceed does the step if all are here.
func (m *meeting) proceed() {
	if len(m.waiting) == 0 || len(m.waiting) < m.members {
		return
	}
	err := m.step()
	for _, done := range m.waiting {
		done <- err
	}
	m.waiting = nil
}
