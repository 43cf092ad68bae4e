package faults

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// TestRun_AwaitRenews: a receiver that gets nothing any more is no loss of the Delayer's.
func TestRun_AwaitRenews(t *testing.T) {
	urls := []string{rabbittest.Broker(t).URL()}
	const delay = 100 * time.Millisecond
	ladder := Subject{
		Name: "binaryladder", Delays: []time.Duration{delay},
		Unroutable: func(prefix string) string { return prefix + ".unroutable" },
		Open: func(ctx context.Context, urls []string, prefix string) (delayer.Delayer, error) {
			opts := delayer.Options{URL: urls[0], Prefix: prefix, Logger: slog.New(slog.DiscardHandler)}
			return binaryladder.Open(ctx, opts, binaryladder.Config{Tick: delay, Steps: binaryladder.List(delay, 2*delay)})
		},
	}
	r, err := Start(t.Context(), ladder, urls, urls, Load{Publishers: 1, Rate: 50, Patience: 10 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	r.receiver.pause()
	require.NoError(t, r.AwaitConfirmed(t.Context(), 10))
	r.Stop()
	r.Await(t.Context(), time.Second)
	account := r.Ledger.Account()
	require.Equal(t, account.Confirmed, account.Delivered)
}
