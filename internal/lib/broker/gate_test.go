package broker

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGate: while it is shut nothing is read, until the latest deadline or until it is closed.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			end  func(g *Gate, c *gated)
			want error
		}{
			{func(g *Gate, _ *gated) { g.Set(true) }, nil},
			{func(_ *Gate, c *gated) { require.NoError(t, c.SetReadDeadline(time.Now().Add(30*time.Second))) }, os.ErrDeadlineExceeded},
			{func(_ *Gate, c *gated) { require.NoError(t, c.Close()) }, net.ErrClosed},
		} {
			g := NewGate()
			g.Set(false)
			near, far := net.Pipe()
			gate := newGated(near, g)
			require.NoError(t, gate.SetReadDeadline(time.Now().Add(time.Second)))
			read := make(chan error, 1)
			go func() {
				_, err := gate.Read(make([]byte, 1))
				read <- err
			}()
			go func() { _, _ = far.Write([]byte{1}) }() // fails if it is not read
			synctest.Wait()
			require.Empty(t, read)
			began := time.Now()
			c.end(g, gate)
			require.ErrorIs(t, <-read, c.want)
			if errors.Is(c.want, os.ErrDeadlineExceeded) {
				require.Equal(t, 30*time.Second, time.Since(began), "the later deadline counts")
			}
			_, _ = gate.Close(), far.Close()
		}
	})
}
