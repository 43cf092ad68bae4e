package service

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/status"
)

// TestService_Ready: connected, and not stopping.
func TestService_Ready(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	s := &Service{running: ctx}
	s.measure()
	handler := s.handler(false)
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	requireNotReady := func(why string) {
		t.Helper()
		status, body := ask("/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, body, why)
	}
	change := func(was, now delayer.ConnectionState) {
		s.observer.Connection(delayer.ConnectionEvent{Backend: "controller", Was: was, Now: now})
	}
	requireNotReady("not connected")
	change(delayer.ConnectionClosed, delayer.ConnectionUp)
	change(delayer.ConnectionClosed, delayer.ConnectionUp)
	change(delayer.ConnectionUp, delayer.ConnectionBlocked)
	status, _ := ask("/readyz")
	require.Equal(t, http.StatusOK, status, "an alarm is no lost connection")
	change(delayer.ConnectionBlocked, delayer.ConnectionDown)
	requireNotReady("1 of 2 connections")
	change(delayer.ConnectionDown, delayer.ConnectionUp)
	status, _ = ask("/readyz")
	require.Equal(t, http.StatusOK, status)
	stop()
	requireNotReady("stopping")
	status, _ = ask("/healthz")
	require.Equal(t, http.StatusOK, status, "it lives until it has stopped")
	status, _ = ask("/debug/pprof/")
	require.Equal(t, http.StatusNotFound, status, "only with --pprof")
}

func TestService_WithoutListenNothingIsObserved(t *testing.T) {
	var log bytes.Buffer
	s, err := (&Flags{Log: "text"}).Start(t.Context(), &log)
	require.NoError(t, err)
	defer s.Close()
	require.Nil(t, s.observer.Published)
	require.Empty(t, log.String())
}

func TestByState(t *testing.T) {
	found := status.Status{
		Prefix: "p", Misrouted: &status.Queue{Messages: 2}, Unroutable: &status.Queue{Messages: 1},
		Backends: []status.Backend{{Queues: []status.Queue{
			{Name: "p.controller.intake", Messages: 1, Intake: true}, {Name: "p.controller.1.intake", Messages: 2, Intake: true},
			{Name: "p.controller.wait.01", Messages: 4}, {Name: "p.controller.1.wait.02", Messages: 5},
		}}},
	}
	require.Equal(t, map[string]int{"waiting": 9, "intake": 3, "misrouted": 2, "unroutable": 1}, byState(found))
	require.Equal(t, map[string]int{"waiting": 0, "intake": 0, "misrouted": 0, "unroutable": 0}, byState(status.Status{}))
	waiting, unread := 700, 2
	found.Backends = append(found.Backends, status.Backend{
		Queues: []status.Queue{{Name: "p.controller.log", Intake: true, Messages: 2}, {Name: "p.controller.slot.4s.01", Messages: 3}},
		Due:    []status.Due{{Messages: 3, Overdue: 3}, {Messages: 695}}, Waiting: &waiting, Unread: &unread,
	})
	require.Equal(t, map[string]int{"waiting": 707, "intake": 5, "misrouted": 2, "unroutable": 1, "overdue": 3}, byState(found))
	found.Backends[1].Waiting, found.Backends[1].Due = nil, nil
	require.Equal(t, map[string]int{"intake": 5, "misrouted": 2, "unroutable": 1}, byState(found), "how many wait is not known")
}

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
