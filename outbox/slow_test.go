package outbox

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/message"
)

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow{most: time.Minute}
		to, other := message.Destination{Queue: "q"}, message.Destination{Exchange: "x"}
		held := func(to message.Destination) time.Duration {
			wait, known := s.hold(to, time.Now())
			require.True(t, known)
			return wait
		}
		_, known := s.hold(to, time.Now())
		require.False(t, known)

		s.mark(to, time.Now())
		s.left(to)
		first := held(to)
		require.Positive(t, first)
		require.LessOrEqual(t, first, time.Second)
		_, known = s.hold(other, time.Now())
		require.False(t, known, "another destination is not held off")
		require.True(t, s.room(1, 2))
		require.False(t, s.room(2, 2))

		time.Sleep(first)
		second := held(to)
		require.Greater(t, second, time.Second, "one is still awaited, so none is published")
		s.ended(to)
		require.True(t, s.room(2, 2))
		time.Sleep(second)
		require.Zero(t, held(to), "one is tried")
		require.Greater(t, held(to), 2*time.Second, "and no more")

		s.answered(to)
		_, known = s.hold(to, time.Now())
		require.False(t, known)
		s.mark(to, time.Now())
		require.LessOrEqual(t, held(to), time.Second, "it begins anew")
	})
}
