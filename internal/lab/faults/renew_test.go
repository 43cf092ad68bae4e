package faults

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestRun_AwaitRenews: a receiver that gets nothing any more is no loss of the Delayer's.
func TestRun_AwaitRenews(t *testing.T) {
	t.Parallel()
	urls := []string{rabbittest.Broker(t).URL()}
	const delay = 100 * time.Millisecond
	ladder := NewSubject("binaryladder", backend.Config{
		Options:      delayer.Options{Logger: slog.New(slog.DiscardHandler)},
		BinaryLadder: binaryladder.Config{Tick: delay, Steps: binaryladder.List(delay, 2*delay)},
	}, delay)
	r, err := Start(t.Context(), ladder, urls, urls, Load{Publishers: 1, Rate: 50, Patience: 10 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	r.receiver.pause()
	require.NoError(t, r.AwaitConfirmed(t.Context(), 10))
	r.Stop()
	r.await(t.Context(), time.Second, time.Minute)
	totals := r.Totals()
	require.Equal(t, totals.Confirmed, totals.Delivered)
}
