package tenure

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTenure_AsksAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, asked, answer := NewPulse(), 0, error(nil)
		own := New(p, func() error { asked++; return answer })
		require.NoError(t, own.Confirm())
		time.Sleep(pauseAfter) // as long as between two beats of a busy process
		require.NoError(t, own.Confirm())
		require.Zero(t, asked)

		time.Sleep(pauseAfter + time.Millisecond) // nothing has run
		require.NoError(t, own.Confirm())
		require.NoError(t, own.Confirm())
		require.Equal(t, 1, asked, "once for each pause")

		time.Sleep(time.Minute)
		p.count() // the pulse itself runs first
		lost := errors.New("the channel is closed")
		answer = lost
		require.ErrorIs(t, own.Confirm(), lost)
		require.ErrorIs(t, own.Confirm(), lost, "and again")

		other := New(p, func() error { t.Error("a channel of after the pause is asked"); return nil })
		require.NoError(t, other.Confirm())
	})
}

func TestTenure_APauseWhileItAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		own := New(NewPulse(), func() error {
			if asked++; asked == 1 {
				time.Sleep(time.Minute)
			}
			return nil
		})
		time.Sleep(time.Minute)
		require.NoError(t, own.Confirm())
		require.Equal(t, 2, asked)
	})
}
