package migratecmd

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
	"github.com/delayer-go/delayer/topology"
)

// TestWhenUnlocked: a step waits for another tool's lock, and not for ever.
func TestWhenUnlocked(t *testing.T) {
	for _, c := range []struct {
		held   time.Duration
		locked bool
	}{{5 * time.Second, false}, {time.Hour, true}} {
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			began := time.Now()
			_, err := whenUnlocked(t.Context(), 30*time.Second, &said, func() (*record.Journal, error) {
				if time.Since(began) < c.held {
					return nil, &delayer.Error{Op: "migrate", Kind: delayer.ErrConflict, Cause: record.ErrLocked}
				}
				return nil, nil
			})
			require.Equal(t, c.locked, errors.Is(err, record.ErrLocked))
			require.Equal(t, min(c.held, 30*time.Second), time.Since(began))
			require.Equal(t, "another delayer migrate works on this exchange: waiting for up to 30s\n", said.String())
		})
	}
}

// A scriptedDelayer has so many messages at each look.
type scriptedDelayer struct {
	ready   []int // at each look at its one queue
	held    int
	holding bool
}

func (s *scriptedDelayer) Depth(_ context.Context, queue string) (swap.Depth, error) {
	n := s.ready[0]
	s.ready = s.ready[1:]
	return swap.Depth{Queue: queue, Messages: n}, nil
}
func (s *scriptedDelayer) Holds(context.Context, string) (bool, error) { return s.holding, nil }
func (s *scriptedDelayer) Unacknowledged(context.Context, []string) (int, error) {
	return s.held, nil
}

// TestDelayed_Count: what is in no queue may be on its way to one, or in the memory of a
// controller.
func TestDelayed_Count(t *testing.T) {
	plan := topology.Plan{Queues: []topology.Queue{{Name: "wait"}, {Name: "unroutable", Role: topology.Unroutable}}}
	controllers := []topology.Role{topology.Waiting}
	for name, c := range map[string]struct {
		has      scriptedDelayer
		consumed []topology.Role
		want     int
	}{
		"in a queue":            {scriptedDelayer{ready: []int{5, 3}}, nil, 5},
		"on its way":            {scriptedDelayer{ready: []int{0, 1}}, nil, 1},
		"not counted":           {scriptedDelayer{ready: []int{0, 0}, holding: true}, nil, 1},
		"nowhere":               {scriptedDelayer{ready: []int{0, 0}}, nil, 0},
		"in a controller":       {scriptedDelayer{ready: []int{0, 0}, held: 7}, controllers, 7},
		"put back by one":       {scriptedDelayer{ready: []int{0, 0, 2, 2}}, controllers, 2},
		"not counted, with one": {scriptedDelayer{ready: []int{0, 0, 0, 0}, holding: true}, controllers, 1},
		"with one and nowhere":  {scriptedDelayer{ready: []int{0, 0, 0, 0}}, controllers, 0},
	} {
		n, err := delayed{Queues: &c.has, API: &c.has, Say: io.Discard, Consumed: c.consumed}.count(t.Context(), plan)
		require.NoError(t, err, name)
		require.Equal(t, c.want, n, name)
	}
}
