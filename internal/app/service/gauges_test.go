package service

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// ended is the context of gauges that ask nobody.
func ended(t *testing.T) context.Context {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	return ctx
}

// TestGauges: a scrape gets the last answer at once, and none while there is none, which is logged
// once.
func TestGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		desc := prometheus.NewDesc("g", "A gauge.", nil, nil)
		var takes atomic.Int64 // a time.Duration
		g := newGauges(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), func(ctx context.Context) ([]prometheus.Metric, error) {
			select {
			case <-time.After(time.Duration(takes.Load())):
				return []prometheus.Metric{gauge(desc, 1)}, nil
			case <-ctx.Done():
				return nil, errors.New("away")
			}
		}, nil)
		collect := func() int {
			synctest.Wait()
			out := make(chan prometheus.Metric, 9)
			g.Collect(out)
			return len(out)
		}
		require.Equal(t, 1, collect())
		takes.Store(int64(time.Hour))
		time.Sleep(askEvery)
		require.Equal(t, 1, collect(), "the last answer")
		time.Sleep(2 * askWithin)
		require.Zero(t, collect())
		require.Equal(t, 1, strings.Count(log.String(), "away"))
		takes.Store(0)
		time.Sleep(askEvery + askWithin)
		require.Equal(t, 1, collect())
		takes.Store(int64(time.Hour))
		time.Sleep(askEvery)
		began := time.Now()
		g.Close()
		require.Zero(t, time.Since(began), "the question is given up")
	})
}
