package status

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lib/bundle"
)

func TestReadCounts(t *testing.T) {
	held := func(level int, number int64, c bundle.Count) bundle.TurnCount {
		return bundle.TurnCount{Turn: bundle.Turn{Level: level, Number: number}, Count: c}
	}
	four, hours := noon.UnixMilli()/4000, noon.UnixMilli()/(8*3600*1000)
	written := bundle.Counts{
		At: due(0), Held: bundle.Count{Bundles: 1, Exact: true},
		Turns: []bundle.TurnCount{
			held(0, four+1, bundle.Count{Bundles: 2, Messages: 3, Exact: true, First: due(4 * time.Second), Last: due(5 * time.Second)}),
			held(5, hours, bundle.Count{Bundles: 4, Messages: 5, Changes: 6}),
		},
	}
	got, err := readCounts(written.Bytes())
	require.NoError(t, err)
	early := time.UnixMilli(hours * 8 * 3600 * 1000).UTC()
	require.Equal(t, counts{at: noon, held: written.Held, turns: []turn{
		{early, early.Add(8 * time.Hour), written.Turns[1].Count},
		{noon.Add(4 * time.Second), noon.Add(8 * time.Second), written.Turns[0].Count},
	}}, got)
	require.Equal(t, bundle.Count{Bundles: 7, Messages: 8, Changes: 6}, got.total())

	for name, of := range map[string]bundle.TurnCount{
		"a level too many": held(6, 1, bundle.Count{}), "before 1970": held(0, -1, bundle.Count{}), "after all times": held(5, 1<<40, bundle.Count{}),
	} {
		_, err := readCounts((&bundle.Counts{Turns: []bundle.TurnCount{of}}).Bytes())
		require.EqualError(t, err, "it tells of slots that this version does not have", name)
	}
	_, err = readCounts([]byte("Hello, world"))
	require.ErrorIs(t, err, bundle.ErrForeign)
}
