package rounds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/settle"
)

// FuzzSchedule: with a schedule that is accepted, no step takes longer than what remains of any
// delay.
func FuzzSchedule(f *testing.F) {
	f.Add(20, int64(time.Second), int64(30*24*time.Hour))
	f.Add(28, int64(time.Minute), int64(1))
	f.Add(0, int64(-1), int64(-1))
	f.Add(1, int64(time.Millisecond), int64(1<<62))
	f.Fuzz(func(t *testing.T, levels int, tick, delay int64) {
		s, err := newSchedule(levels, time.Duration(tick))
		if err != nil {
			require.ErrorIs(t, err, delayer.ErrConfig)
			return
		}
		remaining := min(time.Duration(delay), settle.Longest)
		switch level := s.next(remaining); level {
		case deliver:
			require.LessOrEqual(t, remaining, time.Duration(0))
		case inMemory:
			require.True(t, remaining > 0 && remaining < s.memory)
		default:
			require.True(t, level >= 0 && level < s.levels)
			require.Positive(t, s.ttl(level), "it does not overflow")
			require.LessOrEqual(t, s.ttl(level), remaining)
		}
	})
}
