package rounds

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTenure_AsksAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, asked, answer := newPulse(), 0, error(nil)
		own := newTenure(p, func() error { asked++; return answer })
		require.NoError(t, own.confirm())
		time.Sleep(pauseAfter) // as long as between two beats of a busy process
		require.NoError(t, own.confirm())
		require.Zero(t, asked)

		time.Sleep(pauseAfter + time.Millisecond) // nothing has run
		require.NoError(t, own.confirm())
		require.NoError(t, own.confirm())
		require.Equal(t, 1, asked, "once for each pause")

		time.Sleep(time.Minute)
		p.count() // the pulse itself runs first
		lost := errors.New("the channel is closed")
		answer = lost
		require.ErrorIs(t, own.confirm(), lost)
		require.ErrorIs(t, own.confirm(), lost, "and again")

		other := newTenure(p, func() error { t.Error("a channel of after the pause is asked"); return nil })
		require.NoError(t, other.confirm())
	})
}

func TestTenure_APauseWhileItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		own := newTenure(newPulse(), func() error {
			if asked++; asked == 1 {
				time.Sleep(time.Minute)
			}
			return nil
		})
		time.Sleep(time.Minute)
		require.NoError(t, own.confirm())
		require.Equal(t, 2, asked)
	})
}
