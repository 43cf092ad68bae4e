package conformance_test

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

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

func TestMeeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meeting{members: 4}
		done := 0
		step := func() error { done++; return nil }
		var running sync.WaitGroup
		takePart := func(steps int) {
			running.Go(func() {
				defer m.leave()
				for range steps {
					_ = m.together(step)
				}
			})
		}
		takePart(0) // one that is left out
		takePart(2)
		takePart(1) // one that fails in between
		synctest.Wait()
		require.Zero(t, done, "one is not here yet")
		takePart(2)
		running.Wait()
		require.Equal(t, 2, done)
	})
}
