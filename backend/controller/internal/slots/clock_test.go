package slots

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// TestUntil: this process stands still after it has read the broker's time.
func TestUntil(t *testing.T) {
	now := newClock(brokertime.Config{}).now()
	due := time.Now().Add(10 * time.Second)
	now.Mono -= time.Second
	require.InDelta(t, 11*time.Second, until(due, now), float64(500*time.Millisecond))
}

// TestClock_Closed: nobody waits for the time once it is not asked for any more.
func TestClock_Closed(t *testing.T) {
	d := &Delayer{clock: newClock(brokertime.Config{})}
	waits := make(chan error)
	go func() {
		_, err := d.time(context.Background(), "cancel")
		waits <- err
	}()
	d.clock.close()
	require.ErrorIs(t, <-waits, delayer.ErrClosed)
}

// TestNamed: an error that others have too is not changed, and says what is to be fixed.
func TestNamed(t *testing.T) {
	d := &Delayer{}
	shared := &delayer.Error{Op: "declare", Object: `queue "q"`, Kind: delayer.ErrConflict}
	require.ErrorContains(t, d.named("cancel", ticket{id: "m"}, shared), `declare queue "q"`)
	nameless := &delayer.Error{Op: "publish", Kind: delayer.ErrNotSent}
	require.ErrorContains(t, d.named("cancel", ticket{id: "m"}, nameless), "cancel message m")
	require.Equal(t, "publish", nameless.Op)
}
