package service

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestGauges_SlowAnswer: a scrape ends before Prometheus gives up, and gets what was known last.
// One who has not answered is asked no second time meanwhile, and named in the log once.
func TestGauges_SlowAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		desc := prometheus.NewDesc("g", "A gauge.", nil, nil)
		takes, fails, asked := time.Duration(0), false, 0
		g := newGauges(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), func(ctx context.Context) ([]prometheus.Metric, error) {
			asked++
			n := float64(asked)
			select {
			case <-time.After(takes):
			case <-ctx.Done():
			}
			if fails {
				return nil, errors.New("away")
			}
			return []prometheus.Metric{gauge(desc, n)}, nil
		}, desc)
		collect := func() (n int, took time.Duration) {
			out, began := make(chan prometheus.Metric, 9), time.Now()
			g.Collect(out)
			return len(out), time.Since(began)
		}
		require.Equal(t, []any{1, time.Duration(0)}, pair(collect()))
		takes, fails = time.Hour, true
		time.Sleep(askEvery)
		require.Equal(t, []any{1, scrapeWait}, pair(collect()), "the last answer")
		require.Equal(t, []any{1, scrapeWait}, pair(collect()))
		synctest.Wait()
		require.Equal(t, 2, asked)
		time.Sleep(askWithin)
		require.Equal(t, []any{0, time.Duration(0)}, pair(collect()), "nobody has answered")
		time.Sleep(askEvery)
		collect()
		time.Sleep(askWithin)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "away"))
		takes, fails = scrapeWait/2, false
		time.Sleep(askEvery)
		require.Equal(t, []any{1, scrapeWait / 2}, pair(collect()))

		takes = time.Hour
		time.Sleep(askEvery)
		before := asked + 1
		require.Equal(t, []any{1, scrapeWait}, pair(collect()))
		began := time.Now()
		g.Close()
		require.Zero(t, time.Since(began), "the question is given up")
		time.Sleep(askEvery)
		collect()
		require.Equal(t, before, asked, "nobody is asked any more")
	})
}

func pair(n int, took time.Duration) []any { return []any{n, took} }
