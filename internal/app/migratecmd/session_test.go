package migratecmd

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/migration/record"
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
