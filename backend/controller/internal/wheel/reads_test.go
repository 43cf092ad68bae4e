package wheel

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWhereabouts(t *testing.T) {
	w := Default()
	due := noon.Add(50*time.Hour + 40*time.Minute + 30*time.Second)
	day, hour, minute, seconds := w.at(3, due), w.at(2, due), w.at(1, due), w.at(0, due)
	read := w.Reads(day)
	for _, c := range []struct {
		name string
		now  time.Time
		want []Turn
	}{
		{"in its first slot", noon, []Turn{day}},
		{"moved by the hour", read.Add(time.Minute), []Turn{hour}},
		{"or left there for long", due.Add(-time.Hour), []Turn{minute}},
		{"within the minute", due.Add(-40 * time.Second), []Turn{seconds}},
		{"in memory", due.Add(-time.Second), nil},
	} {
		got := w.Whereabouts(c.now, read, due)
		for _, turn := range c.want {
			require.Contains(t, got, turn, c.name)
		}
		if c.want == nil {
			require.Empty(t, got, c.name)
		}
	}
	far := noon.Add(1000 * 24 * time.Hour)
	place := w.Place(noon, far)
	require.Equal(t, []Turn{place}, w.Whereabouts(noon, w.Reads(place), far))
}

// TestWhereabouts_Found: wherever a message is that was moved at some time, it is listed, or in a slot that is
// being read.
func TestWhereabouts_Found(t *testing.T) {
	w := Default()
	rapid.Check(t, func(t *rapid.T) {
		now := noon.Add(time.Duration(rapid.Int64Range(0, int64(400*24*time.Hour)).Draw(t, "now")))
		due := now.Add(time.Duration(rapid.Int64Range(0, int64(400*24*time.Hour)).Draw(t, "delay")))
		at := w.Place(now, due)
		read := w.Reads(at)
		if rapid.Bool().Draw(t, "moved") && due.Sub(now) <= w[len(w)-1].Reach {
			from := now
			if read.After(now) {
				from = read
			}
			if !from.Before(due) {
				return
			}
			now = from.Add(time.Duration(rapid.Int64Range(0, int64(due.Sub(from))).Draw(t, "later")))
			moved := from.Add(time.Duration(rapid.Int64Range(0, int64(now.Sub(from))).Draw(t, "moved at")))
			at = w.Place(moved, due)
		}
		if !w.opens(at).After(now) {
			return // it is being read
		}
		for _, turn := range w.Whereabouts(now, read, due) {
			if turn == at {
				return
			}
		}
		t.Fatalf("now %v, due %v, in %+v, listed %+v", now, due, at, w.Whereabouts(now, read, due))
	})
}
