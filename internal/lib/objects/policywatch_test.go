package objects

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// A watched PolicyWatch is one at work in a synctest bubble.
type watched struct {
	watch *PolicyWatch
	busy  atomic.Bool

	mu      sync.Mutex
	answer  error // of the management API
	hangs   bool  // it does not answer
	looks   int
	log     strings.Builder
	changes []delayer.PolicyFaultEvent
}

// play runs a PolicyWatch as long as act takes. It is busy until act says otherwise.
func play(t *testing.T, act func(s *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &watched{}
		s.busy.Store(true)
		s.watch = NewPolicyWatch(PolicyWatchConfig{
			Backend: "test", Logger: slog.New(slog.NewTextHandler(s, nil)), Look: s.look,
			Observer: delayer.Observer{PolicyFault: s.changed},
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.watch.Run(ctx, s.busy.Load)
		}()
		act(s)
		cancel()
		<-ended
	})
}

// look is the management API.
func (s *watched) look(ctx context.Context) error {
	s.mu.Lock()
	s.looks++
	hangs, answer := s.hangs, s.answer
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return answer
}

// answers sets what the API answers from now on.
func (s *watched) answers(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.hangs = err, false
}

// hang makes the API answer nothing from now on.
func (s *watched) hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hangs = true
}

// changed observes faults. The PolicyWatch calls it, and the test reads between its calls.
func (s *watched) changed(e delayer.PolicyFaultEvent) { s.changes = append(s.changes, e) }

// Write implements [io.Writer], for the log.
func (s *watched) Write(p []byte) (int, error) { return s.log.Write(p) }

// requireTold requires how often a fault was found, and lifted, until now: by the log and the
// Observer.
func (s *watched) requireTold(t *testing.T, found, lifted int) {
	t.Helper()
	text := s.log.String()
	require.Equal(t, found, strings.Count(text, "delayed messages would be early"), text)
	require.Equal(t, lifted, strings.Count(text, "the policy is gone"), text)
	require.NotContains(t, text, "level=WARN")
	require.Len(t, s.changes, found+lifted)
	for i, e := range s.changes {
		begins := i%2 == 0
		require.Equal(t, []bool{begins, !begins}, []bool{e.Was == nil, e.Now == nil}, "event %d", i)
	}
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// aLook is more than the pause between two looks.
const aLook = 2 * lookEvery

func conflict(text string) *delayer.Error {
	return &delayer.Error{Op: "open", Object: "policies", Kind: delayer.ErrConflict, Cause: errors.New(text)}
}

var (
	harmful     = conflict("a policy sets expires")
	unavailable = &delayer.Error{Op: "look at policies", Kind: delayer.ErrUnavailable, Cause: errors.New("503 Service Unavailable")}
)

func TestVerdict(t *testing.T) {
	stands := conflict("an older one")
	for name, c := range map[string]struct {
		answer        error
		before, after *delayer.Error // what follows when no fault stands, and when one stands
	}{
		"nothing found":        {nil, nil, nil},
		"found":                {harmful, harmful, harmful},
		"no answer":            {unavailable, nil, stands},
		"timeout":              {context.DeadlineExceeded, nil, stands},
		"conflict of no Error": {delayer.ErrConflict, nil, stands},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.before, verdict(nil, c.answer))
			require.Equal(t, c.after, verdict(stands, c.answer))
		})
	}
}

// TestPolicyWatch_FoundLiftedRefound: a policy may be set again.
func TestPolicyWatch_FoundLiftedRefound(t *testing.T) {
	play(t, func(s *watched) {
		after(time.Hour)
		require.Nil(t, s.watch.Fault())
		for times := 1; times <= 2; times++ {
			s.answers(harmful)
			after(aLook)
			require.ErrorIs(t, s.watch.Fault(), delayer.ErrConflict)
			require.ErrorContains(t, s.watch.Fault(), "a policy sets expires")
			after(10 * time.Minute)
			require.NotNil(t, s.watch.Fault())
			s.requireTold(t, times, times-1)
			s.answers(nil)
			after(aLook)
			require.Nil(t, s.watch.Fault())
			after(time.Hour)
			s.requireTold(t, times, times)
		}
	})
}

// TestPolicyWatch_UnknownChangesNothing: neither a fault nor its absence.
func TestPolicyWatch_UnknownChangesNothing(t *testing.T) {
	play(t, func(s *watched) {
		s.answers(unavailable)
		after(time.Hour)
		require.Nil(t, s.watch.Fault())
		s.answers(harmful)
		after(aLook)
		require.NotNil(t, s.watch.Fault())
		s.answers(unavailable)
		after(time.Hour)
		require.NotNil(t, s.watch.Fault())
		s.requireTold(t, 1, 0)
		s.answers(nil)
		after(aLook)
		require.Nil(t, s.watch.Fault())
		s.requireTold(t, 1, 1)
	})
}

// TestPolicyWatch_Hangs: an API that does not answer is asked again.
func TestPolicyWatch_Hangs(t *testing.T) {
	play(t, func(s *watched) {
		s.hang()
		after(aLook)
		require.Nil(t, s.watch.Fault())
		s.answers(harmful)
		after(lookTimeout + aLook)
		require.NotNil(t, s.watch.Fault())
	})
}

// TestPolicyWatch_AnotherFault: Publish names the policy that stands now.
func TestPolicyWatch_AnotherFault(t *testing.T) {
	play(t, func(s *watched) {
		s.answers(harmful)
		after(aLook)
		s.answers(conflict("a policy sets message-ttl"))
		after(aLook)
		require.ErrorContains(t, s.watch.Fault(), "message-ttl")
		s.requireTold(t, 1, 0)
	})
}

// TestPolicyWatch_IdleDoesNotLook, so that a Delayer without work costs the broker nothing.
func TestPolicyWatch_IdleDoesNotLook(t *testing.T) {
	play(t, func(s *watched) {
		after(time.Minute)
		s.busy.Store(false)
		after(time.Minute)
		looks := s.looks
		require.Positive(t, looks)
		after(time.Hour)
		require.Equal(t, looks, s.looks)
		s.answers(harmful)
		s.busy.Store(true)
		after(aLook)
		require.NotNil(t, s.watch.Fault(), "it looks again")
	})
}

// TestPolicyWatch_LiftedWhileIdle: as long as a fault stands, it looks.
func TestPolicyWatch_LiftedWhileIdle(t *testing.T) {
	play(t, func(s *watched) {
		s.answers(harmful)
		after(aLook)
		s.busy.Store(false)
		after(30 * time.Minute)
		require.NotNil(t, s.watch.Fault())
		s.answers(nil)
		after(aLook)
		require.Nil(t, s.watch.Fault())
		s.requireTold(t, 1, 1)
	})
}

// TestPolicyWatch_Ends: the Observer's faults end with the PolicyWatch that reported them.
func TestPolicyWatch_Ends(t *testing.T) {
	var of *watched
	play(t, func(s *watched) {
		of = s
		s.answers(harmful)
		after(aLook)
		s.requireTold(t, 1, 0)
	})
	require.Len(t, of.changes, 2)
	require.NotNil(t, of.changes[1].Was)
	require.Nil(t, of.changes[1].Now)
}

func TestPolicyWatch_Nil(t *testing.T) {
	var w *PolicyWatch
	require.Nil(t, w.Fault())
}
