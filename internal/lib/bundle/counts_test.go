package bundle

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func someCounts() *Counts {
	return &Counts{
		At:   1_795_329_200_000,
		Held: Count{Bundles: 3, Messages: 17, Changes: 1, First: 1_795_329_200_001, Last: 1_795_329_201_500, Exact: true},
		Turns: []TurnCount{
			{Turn{0, -1}, false, Count{Bundles: 1, Exact: true}},
			{Turn{0, 448_832_300}, true, Count{Bundles: 2, Messages: 600, First: 1_795_329_200_004, Last: 1_795_329_200_004, Exact: true}},
			{Turn{5, 62_337}, false, Count{Bundles: 40_000, Messages: maxCount}},
		},
		Progress: []Progress{{Writer: "a", Number: 7, Records: 9, Done: []byte{0x83, 1}}, {Writer: "b", Records: 1000, Done: []byte{1}}},
	}
}

func TestCounts_RoundTrip(t *testing.T) {
	for _, want := range []*Counts{{}, someCounts()} {
		got, err := ReadCounts(want.Bytes())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// TestReadCounts_Forged: what is no JSON, or cut short, or impossible, is none.
func TestReadCounts_Forged(t *testing.T) {
	wrong := func(change func(c *Counts)) []byte {
		c := someCounts()
		change(c)
		return c.Bytes()
	}
	for name, from := range map[string][]byte{
		"with too many messages":    wrong(func(c *Counts) { c.Held.Messages = maxCount + 1 }),
		"with fewer than none":      wrong(func(c *Counts) { c.Turns[1].Bundles = -1 }),
		"with an impossible time":   wrong(func(c *Counts) { c.At = -1 }),
		"the last before the first": wrong(func(c *Counts) { c.Held.First, c.Held.Last = c.Held.Last, c.Held.First }),
		"due times of no message":   wrong(func(c *Counts) { c.Held.Messages = 0 }),
	} {
		_, err := ReadCounts(from)
		require.ErrorIs(t, err, ErrDamaged, name)
	}
	whole := someCounts().Bytes()
	for size := range whole {
		_, err := ReadCounts(whole[:size])
		require.ErrorIs(t, err, ErrForeign, "the first %d of %d bytes", size, len(whole))
	}
}

// FuzzReadCounts takes bytes as they come from the broker: whatever is read without an error is
// written again as the same.
func FuzzReadCounts(f *testing.F) {
	f.Add(someCounts().Bytes())
	f.Fuzz(func(t *testing.T, from []byte) {
		c, err := ReadCounts(from)
		if err != nil || len(from) > MaxSize/2 {
			return
		}
		again, err := ReadCounts(c.Bytes())
		require.NoError(t, err)
		require.Equal(t, c.Bytes(), again.Bytes())
	})
}

// TestCounts_Full: what is too much progress for one message is left out.
func TestCounts_Full(t *testing.T) {
	c := someCounts()
	for range 60 {
		c.Turns = append(c.Turns, c.Turns[1])
	}
	c.Progress = nil
	for n := range 1024 {
		p := Progress{Writer: "5BQ2ZK7M1A", Number: uint64(n), Records: 800}
		p.Set(799)
		c.Progress = append(c.Progress, p)
	}
	c.Progress[220].Set(MaxSize)
	written := c.Bytes()
	require.Less(t, len(written), MaxSize)
	got, err := ReadCounts(written)
	require.NoError(t, err)
	require.Greater(t, len(got.Progress), 200)
	require.True(t, got.Progress[7].Is(799))
	require.False(t, got.Progress[7].Is(798))
	require.False(t, got.Progress[7].Is(800))
	got.Progress[7].Set(800)
	require.True(t, got.Progress[7].Is(799))
	require.True(t, got.Progress[7].Is(800))
}
