package rounds

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var zero = time.Now()

func at(i int) time.Time { return zero.Add(time.Duration(i) * time.Millisecond) }

func TestMemory_ByDueTime(t *testing.T) {
	m := newMemory[int](1000, 1<<20)
	for _, i := range rand.Perm(1000) {
		require.True(t, m.add(at(i/2), 1, i/2)) // two at a time
	}
	for i := range 1000 {
		due, ok := m.next()
		require.True(t, ok)
		require.Equal(t, at(i/2), due)
		_, _, ok = m.take(due.Add(-1))
		require.False(t, ok, "never early")
		got, size, ok := m.take(due)
		require.True(t, ok)
		require.Equal(t, []int{i / 2, 1}, []int{got, size})
	}
	require.Zero(t, len(m.items))
	require.Zero(t, m.bytes)
	_, ok := m.next()
	require.False(t, ok)
	_, _, ok = m.take(at(1 << 20))
	require.False(t, ok)
}

func TestMemory_Bounds(t *testing.T) {
	m := newMemory[string](3, 100)
	add := func(size int) bool { return m.add(zero, size, "") }
	require.True(t, add(60))
	require.False(t, add(41), "too many bytes")
	require.True(t, add(40))
	require.True(t, add(0))
	require.False(t, add(0), "too many")
	require.Equal(t, []int{3, 100}, []int{len(m.items), m.bytes})
	for range 3 {
		_, _, ok := m.take(zero)
		require.True(t, ok)
	}
	require.True(t, add(100), "room again")
}
