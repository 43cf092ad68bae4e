package bundle

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func someCounts() *Counts {
	return &Counts{
		Tenure: "5BQ2ZK7M1A", At: 1_795_329_200_000,
		Held: Count{Bundles: 3, Messages: 17, Changes: 1, First: 1_795_329_200_001, Last: 1_795_329_201_500, Exact: true},
		Turns: []TurnCount{
			{Turn{0, -1}, Count{Bundles: 1, Exact: true}},
			{Turn{0, 448_832_300}, Count{Bundles: 2, Messages: 600, First: 1_795_329_200_004, Last: 1_795_329_200_004, Exact: true}},
			{Turn{5, 62_337}, Count{Bundles: 40_000, Messages: maxCount}},
		},
		Progress: []Progress{{Writer: "a", Number: 7, Records: 9, Done: []byte{0x83, 1}}, {Writer: "b", Records: 1000, Done: []byte{1}}},
	}
}

func TestCounts_RoundTrip(t *testing.T) {
	for _, want := range []*Counts{{}, someCounts()} {
		written := want.Append([]byte("before"))
		got, err := ReadCounts(written[len("before"):])
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

// TestReadCounts_Damaged: counts that are cut short, or of which any byte is changed, are none.
func TestReadCounts_Damaged(t *testing.T) {
	whole := someCounts().Append(nil)
	for size := range whole {
		_, err := ReadCounts(whole[:size])
		require.Error(t, err, "the first %d of %d bytes", size, len(whole))
	}
	for at := range whole {
		damaged := bytes.Clone(whole)
		damaged[at] ^= 0x41
		_, err := ReadCounts(damaged)
		require.Error(t, err, "byte %d", at)
	}
}

// TestReadCounts_Forged: a right checksum does not make counts.
func TestReadCounts_Forged(t *testing.T) {
	wrong := func(change func(c *Counts)) []byte {
		c := someCounts()
		change(c)
		return c.Append(nil)
	}
	whole := someCounts().Append(nil)
	newer := bytes.Clone(whole[:len(whole)-checksumSize])
	newer[2] = version + 1
	begin := (&Counts{}).Append(nil)
	begin = begin[:len(begin)-checksumSize-1] // without the number of turns
	for name, c := range map[string]struct {
		from []byte
		want error
	}{
		"nothing":                   {nil, ErrForeign},
		"a bundle":                  {inLog().Append(nil), ErrForeign},
		"of a later version":        {forge(newer), ErrNewer},
		"too long":                  {forge(append(bytes.Clone(begin), make([]byte, MaxSize)...)), ErrCut},
		"with a byte more":          {forge(append(bytes.Clone(whole[:len(whole)-checksumSize]), 0)), ErrCut},
		"with a million turns":      {forge(binary.AppendUvarint(bytes.Clone(begin), 1_000_000)), ErrCounts},
		"with 2^64 - 1 turns":       {forge(binary.AppendUvarint(bytes.Clone(begin), math.MaxUint64)), ErrCounts},
		"with fewer turns":          {forge(binary.AppendUvarint(bytes.Clone(begin), 1)), ErrCounts},
		"with too many messages":    {wrong(func(c *Counts) { c.Held.Messages = maxCount + 1 }), ErrCounts},
		"with fewer than none":      {wrong(func(c *Counts) { c.Turns[1].Bundles = -1 }), ErrCounts},
		"with an impossible time":   {wrong(func(c *Counts) { c.At = -1 }), ErrCounts},
		"the last before the first": {wrong(func(c *Counts) { c.Held.First, c.Held.Last = c.Held.Last, c.Held.First }), ErrCounts},
		"due times of no message":   {wrong(func(c *Counts) { c.Held.Messages = 0 }), ErrCounts},
	} {
		_, err := ReadCounts(c.from)
		require.ErrorIs(t, err, c.want, name)
	}
}

// FuzzReadCounts takes bytes as they come from the broker: whatever is read without an error is
// written again as the same.
func FuzzReadCounts(f *testing.F) {
	whole := someCounts().Append(nil)
	f.Add(whole[:len(whole)-checksumSize])
	f.Fuzz(func(t *testing.T, from []byte) {
		c, err := ReadCounts(forge(bytes.Clone(from)))
		if err != nil {
			return
		}
		again, err := ReadCounts(c.Append(nil))
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}

// TestCounts_Full: what is too much progress for one message is left out.
func TestCounts_Full(t *testing.T) {
	c := &Counts{}
	for n := range 1024 {
		p := Progress{Writer: "5BQ2ZK7M1A", Number: uint64(n), Records: 800}
		p.Set(799)
		c.Progress = append(c.Progress, p)
	}
	c.Progress[200].Set(MaxSize)
	written := c.Append(nil)
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
