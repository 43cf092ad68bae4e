package hold

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Now()

func at(i int) time.Time { return start.Add(time.Duration(i) * time.Millisecond) }

func TestHeap_ByDueTime(t *testing.T) {
	h := New[int](1000, 1<<20)
	for _, i := range rand.Perm(1000) {
		require.True(t, h.Add(at(i/2), 1, i/2)) // two at a time
	}
	for i := range 1000 {
		due, ok := h.Next()
		require.True(t, ok)
		require.Equal(t, at(i/2), due)
		_, _, ok = h.Take(due.Add(-1))
		require.False(t, ok, "never early")
		got, size, ok := h.Take(due)
		require.True(t, ok)
		require.Equal(t, []int{i / 2, 1}, []int{got, size})
	}
	require.Zero(t, h.Len())
	require.Zero(t, h.Bytes())
	_, ok := h.Next()
	require.False(t, ok)
	_, _, ok = h.Take(at(1 << 20))
	require.False(t, ok)
}

func TestHeap_Bounds(t *testing.T) {
	h := New[string](3, 100)
	add := func(size int) bool { return h.Add(start, size, "") }
	require.True(t, add(60))
	require.False(t, add(41), "too many bytes")
	require.True(t, add(40))
	require.True(t, add(0))
	require.False(t, add(0), "too many")
	require.Equal(t, []int{3, 100}, []int{h.Len(), h.Bytes()})
	for range 3 {
		_, _, ok := h.Take(start)
		require.True(t, ok)
	}
	require.True(t, add(100), "room again")
}
