package broker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// newTestPool returns a pool of channels that are never open, and how many of them are not closed.
func newTestPool(t *testing.T, most int) (p *pool, open func() int) {
	t.Helper()
	var all []*publisherChannel
	p = &pool{lent: map[destination]*publisherChannel{}, most: func() int { return most }}
	p.open = func() *publisherChannel {
		c := &publisherChannel{pool: p, done: make(chan struct{})}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		close(c.done)
		all = append(all, c)
		return c
	}
	t.Cleanup(func() {
		for _, c := range p.close() {
			c.cancel()
		}
		p.retired.Wait()
	})
	return p, func() (n int) {
		for _, c := range all {
			if c.ctx.Err() == nil {
				n++
			}
		}
		return n
	}
}

func queueNamed(i int) destination { return destination{queue: fmt.Sprint(i)} }

func TestPool_Lends(t *testing.T) {
	p, open := newTestPool(t, 3)
	take := func(i int) *publisherChannel {
		c, err := p.take(t.Context(), queueNamed(i))
		require.NoError(t, err)
		return c
	}
	one, two := take(1), take(2)
	require.NotSame(t, one, two)
	require.Same(t, one, take(1), "all messages to a destination share a channel")
	one.accepts.Store(true)
	p.put(one)
	require.NotSame(t, one, take(3), "one of them is unconfirmed yet")
	p.put(one)
	p.put(two)
	require.Same(t, one, take(1), "a destination gets back the channel that it had")
	require.True(t, one.accepts.Load())
	p.put(one)
	require.Same(t, one, take(4), "any other takes the one that was used last")
	require.False(t, one.accepts.Load(), "that proves nothing")
	require.Equal(t, 3, open())
}

func TestPool_Bound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, open := newTestPool(t, 2)
		one, err := p.take(t.Context(), queueNamed(1))
		require.NoError(t, err)
		_, err = p.take(t.Context(), queueNamed(2))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.take(ctx, queueNamed(3))
		require.ErrorIs(t, err, delayer.ErrNotSent)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "2 destinations have not confirmed")

		var three *publisherChannel
		go func() { three, _ = p.take(t.Context(), queueNamed(3)) }()
		synctest.Wait()
		require.Nil(t, three)
		p.put(one)
		synctest.Wait()
		require.Same(t, one, three)
		require.Equal(t, 2, open())

		go func() { _, err = p.take(t.Context(), queueNamed(4)) }()
		synctest.Wait()
		p.close()
		synctest.Wait()
		require.ErrorIs(t, err, delayer.ErrClosed)
	})
}

func TestPool_Shrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, open := newTestPool(t, 1000)
		const many = 50
		var lent []*publisherChannel
		for i := range many {
			c, err := p.take(t.Context(), queueNamed(i))
			require.NoError(t, err)
			lent = append(lent, c)
		}
		for _, c := range lent[1:] {
			p.put(c)
		}
		require.Equal(t, many, open(), "more messages may come soon")
		time.Sleep(freeFor)
		synctest.Wait()
		require.Equal(t, 1+keptFree, open(), "one is not free")
		p.put(lent[0])
		time.Sleep(freeFor)
		synctest.Wait()
		require.Equal(t, keptFree, open())
	})
}
