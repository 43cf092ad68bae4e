package objects

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestSoon: a stream that is absent for a moment is waited for, and nothing else.
func TestSoon(t *testing.T) {
	absent := &amqp091.Error{Code: amqp091.NotFound, Reason: "NOT_FOUND - home node 'a' of durable queue 'q' in vhost '/' is down or inaccessible"}
	missing := &amqp091.Error{Code: amqp091.NotFound, Reason: "NOT_FOUND - no queue 'q' in vhost '/'"}
	for name, c := range map[string]struct {
		errs []error // the last again and again
		took time.Duration
	}{
		"there":   {[]error{nil}, 0},
		"missing": {[]error{missing}, 0},
		"other":   {[]error{errors.New("x")}, 0},
		"starts":  {[]error{absent, absent, nil}, 2 * askEvery},
		"is down": {[]error{absent}, startsWithin},
		"is gone": {[]error{absent, missing}, askEvery},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, turn := time.Now(), 0
			err := soon(t.Context(), func() error {
				turn++
				return c.errs[min(turn, len(c.errs))-1]
			})
			require.Equal(t, c.errs[len(c.errs)-1], err, name)
			require.Equal(t, c.took, time.Since(began), name)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*askEvery/2)
		defer cancel()
		began := time.Now()
		require.Equal(t, absent, soon(ctx, func() error { return absent }))
		require.Equal(t, 3*askEvery/2, time.Since(began), "ctx has ended")
	})
}
