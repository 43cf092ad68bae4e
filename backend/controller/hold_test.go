package controller

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// holding runs test with a holder, in a bubble with a clock of its own.
func holding(t *testing.T, most, mostBytes int, test func(t *testing.T, h *holder)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHolder(most, mostBytes)
		ctx, cancel := context.WithCancel(t.Context())
		go h.run(ctx)
		synctest.Wait()
		test(t, h)
		cancel()
		synctest.Wait()
	})
}

func TestHeldUntilDueInTheirOrder(t *testing.T) {
	holding(t, 1000, 1<<20, func(t *testing.T, h *holder) {
		start := time.Now()
		var released []time.Duration
		for _, i := range rand.Perm(1000) {
			due := start.Add(time.Duration(i/2) * time.Millisecond) // two at a time
			require.True(t, h.add(held{due: due, size: 1, release: func() {
				require.Equal(t, due, time.Now(), "at its time")
				released = append(released, due.Sub(start))
			}}))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, released, 1000)
		require.IsNonDecreasing(t, released)
		require.Zero(t, h.bytes)
	})
}

func TestAnEarlierOneWakesTheHolder(t *testing.T) {
	holding(t, 10, 100, func(t *testing.T, h *holder) {
		order := make(chan string, 3)
		keep := func(name string, wait time.Duration) {
			require.True(t, h.add(held{due: time.Now().Add(wait), release: func() { order <- name }}))
		}
		released := func(want string) {
			synctest.Wait()
			require.Len(t, order, 1)
			require.Equal(t, want, <-order)
		}
		keep("late", time.Minute)
		synctest.Wait()
		keep("early", time.Second)
		keep("past", -time.Second)
		released("past")
		time.Sleep(time.Second)
		released("early")
		time.Sleep(3 * time.Hour) // and the timer that waits for nothing hurts no one
		released("late")
	})
}

func TestTheHolderIsBounded(t *testing.T) {
	holding(t, 3, 100, func(t *testing.T, h *holder) {
		add := func(size int) bool {
			return h.add(held{due: time.Now().Add(time.Second), size: size, release: func() {}})
		}
		require.True(t, add(60))
		require.False(t, add(41), "too many bytes")
		require.True(t, add(40))
		require.True(t, add(0))
		require.False(t, add(0), "too many")
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, add(100), "room again")
	})
}

func TestTheHolderForgetsWhatIsNotDueWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHolder(10, 100)
		ctx, cancel := context.WithCancel(t.Context())
		go h.run(ctx)
		h.add(held{due: time.Now().Add(time.Second), release: func() { t.Error("released") }})
		cancel()
		time.Sleep(time.Minute)
	})
}
