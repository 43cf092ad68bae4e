package rabbittest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
)

// Open opens a Delayer that is closed, and whose topology is removed, when the test ends.
func Open(t testing.TB, cfg backend.Config) delayer.Delayer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	d, err := backend.Open(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, d.Close())
		Remove(t, cfg)
	})
	return d
}

// Remove deletes the topology of a configuration, with all messages. Its Delayers must be closed.
// An exchange of the user's is left alone.
func Remove(t testing.TB, cfg backend.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	const withMessages = true
	if err := backend.Remove(ctx, cfg, withMessages); !errors.Is(err, delayer.ErrConfig) {
		assert.NoError(t, err)
	}
}
