package broker

import (
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func readThrough(g *Gate, test func(c *gated, far net.Conn, read <-chan error)) {
	near, far := net.Pipe()
	c := newGated(near, g)
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	test(c, far, read)
	_ = c.Close()
	_ = far.Close()
}

func TestGate_StopsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate()
		g.Set(false)
		readThrough(g, func(_ *gated, far net.Conn, read <-chan error) {
			wrote := make(chan struct{})
			go func() { _, _ = far.Write([]byte{1}); close(wrote) }()
			synctest.Wait()
			require.Empty(t, wrote)
			require.Empty(t, read)
			g.Set(true)
			require.NoError(t, <-read)
			<-wrote
		})
	})
}

func TestGate_ReadEndsByItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate()
		g.Set(false)
		readThrough(g, func(c *gated, _ net.Conn, read <-chan error) {
			began := time.Now()
			require.NoError(t, c.SetReadDeadline(began.Add(time.Second)))
			synctest.Wait()
			require.NoError(t, c.SetReadDeadline(began.Add(30*time.Second)))
			require.ErrorIs(t, <-read, os.ErrDeadlineExceeded)
			require.Equal(t, 30*time.Second, time.Since(began), "the later deadline counts")
		})
	})
}

func TestGate_CloseEndsReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate()
		g.Set(false)
		readThrough(g, func(c *gated, _ net.Conn, read <-chan error) {
			synctest.Wait()
			require.NoError(t, c.Close())
			require.ErrorIs(t, <-read, net.ErrClosed)
		})
	})
}
