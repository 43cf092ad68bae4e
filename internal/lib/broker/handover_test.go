package broker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHandover: a job that outlives its caller disposes of what it made (issue 9, A10).
func TestHandover(t *testing.T) {
	for name, c := range map[string]struct {
		job, patience time.Duration
		want          bool
	}{
		"in time":  {time.Second, time.Minute, true},
		"too late": {time.Minute, time.Second, false},
		"at once":  {time.Second, time.Second, false}, // either, but not both
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				disposed, done := 0, make(chan struct{})
				h := newHandover(func(v int) { disposed += v })
				go func() {
					defer close(done)
					time.Sleep(c.job)
					h.give(1)
				}()
				select {
				case <-done:
				case <-ctx.Done():
				}
				v, ok := h.take()
				<-done
				require.Equal(t, 1, v+disposed, "exactly one of them has it")
				if c.job != c.patience {
					require.Equal(t, c.want, ok)
				}
			})
		})
	}
}
