package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

func TestReadCounts(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	due := func(later time.Duration) brokertime.Due { return brokertime.Due(noon.Add(later).UnixMilli()) }
	of := func(level int, number int64, c bundle.Count) bundle.TurnCount {
		return bundle.TurnCount{Turn: bundle.Turn{Level: level, Number: number}, Count: c}
	}
	four, hours := noon.UnixMilli()/4000, noon.UnixMilli()/(8*3600*1000)
	written := bundle.Counts{
		Tenure: "t", At: due(0), Held: bundle.Count{Bundles: 1, Exact: true},
		Turns: []bundle.TurnCount{
			of(0, four+1, bundle.Count{Bundles: 2, Messages: 3, Exact: true, First: due(4 * time.Second), Last: due(5 * time.Second)}),
			of(5, hours, bundle.Count{Bundles: 4, Messages: 5, Changes: 6}),
		},
	}
	got, err := ReadCounts(written.Bytes())
	require.NoError(t, err)
	early := time.UnixMilli(hours * 8 * 3600 * 1000).UTC()
	require.Equal(t, Counts{At: noon, Held: Count{Bundles: 1, Exact: true}, Turns: []Turn{
		{Begin: early, End: early.Add(8 * time.Hour), Count: Count{Bundles: 4, Messages: 5, Changes: 6}},
		{
			Begin: noon.Add(4 * time.Second), End: noon.Add(8 * time.Second),
			Count: Count{Bundles: 2, Messages: 3, Exact: true}, First: noon.Add(4 * time.Second), Last: noon.Add(5 * time.Second),
		},
	}}, got)
	require.Equal(t, Count{Bundles: 7, Messages: 8, Changes: 6}, got.Total())

	for name, turn := range map[string]bundle.TurnCount{
		"a level too many": of(6, 1, bundle.Count{}), "before 1970": of(0, -1, bundle.Count{}), "after all times": of(5, 1<<40, bundle.Count{}),
	} {
		_, err := ReadCounts((&bundle.Counts{Turns: []bundle.TurnCount{turn}}).Bytes())
		require.EqualError(t, err, "it tells of slots that this version does not have", name)
	}
	_, err = ReadCounts([]byte("Hello, world"))
	require.ErrorIs(t, err, bundle.ErrForeign)
}

func TestReadBundle(t *testing.T) {
	b := bundle.Bundle{Writer: "w", InSlot: true, Records: []bundle.Record{
		{ID: "a", Due: 1, To: "~d:=q"}, {Kind: bundle.Cancel, ID: "b", Due: 2}, {ID: "c", Due: 3, To: "~d:=q"}, {Kind: bundle.Mark, Due: 3},
	}}
	messages, inSlot, err := ReadBundle(b.Append(nil))
	require.NoError(t, err)
	require.Equal(t, 2, messages)
	require.True(t, inSlot)
	_, _, err = ReadBundle([]byte("Hello, world"))
	require.ErrorIs(t, err, bundle.ErrForeign)
}
