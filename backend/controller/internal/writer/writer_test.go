package writer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer/backend/controller/internal/bundle"
)

func record(id string, size int) *Record {
	return &Record{Record: bundle.Record{ID: id, Due: 1, To: "q", Payload: make([]byte, size)}}
}

// said tells effects in short.
func said(todo []Effect) string {
	var all []string
	for _, e := range todo {
		switch e := e.(type) {
		case Send:
			all = append(all, fmt.Sprintf("send %d", e.ID))
		case Settle:
			all = append(all, fmt.Sprintf("%s %d", e.Record.ID, e.Outcome))
		}
	}
	return strings.Join(all, ", ")
}

// TestWriter: the first is sent at once, and the second; the others together; and once several have
// come together, the next is gathered.
func TestWriter(t *testing.T) {
	w := New("w")
	take := func(id uint64) string { return ids(w.Take(id)) }
	const ms = time.Millisecond
	var next time.Duration
	step := func(now time.Duration, e Event) string {
		var todo []Effect
		todo, next = w.Step(now, e)
		return said(todo)
	}
	c := record("c", 10)
	require.Equal(t, "send 1", step(1*ms, Submit{record("a", 10)}))
	require.Equal(t, "a", take(1))
	require.Equal(t, "send 2", step(1*ms, Submit{record("b", 10)}))
	require.Equal(t, "b", take(2))
	require.Empty(t, step(2*ms, Submit{c}))
	require.Empty(t, step(2*ms, Submit{record("d", 10)}))
	require.Empty(t, step(2*ms, Submit{record("e", 10)}))
	require.Equal(t, "c 1", step(2*ms, Withdraw{c}))
	require.Equal(t, "a 0, send 3", step(3*ms, Confirmed{1, Stored}))
	require.Equal(t, "de", take(3))
	require.Equal(t, "b 2", step(3*ms, Confirmed{2, Unknown}))
	require.Empty(t, step(4*ms, Submit{record("f", 10)}))
	require.Equal(t, 7*ms, next)
	require.Equal(t, "send 4", step(7*ms, Tick{}))
	require.Equal(t, "f", take(4))
	require.Empty(t, step(8*ms, Withdraw{c}), "it is settled")
	require.Equal(t, "d 0, e 0", step(8*ms, Confirmed{3, Stored}))
	require.Equal(t, "send 5", step(9*ms, Submit{record("g", 10)}), "the last was alone")
}

// TestWriter_Take: until a bundle is taken records join it, and are withdrawn from it.
func TestWriter_Take(t *testing.T) {
	w := New("w")
	step := func(e Event) string {
		todo, _ := w.Step(time.Second, e)
		return said(todo)
	}
	a, b := record("a", 10), record("b", 10)
	require.Equal(t, "send 1", step(Submit{a}))
	require.Empty(t, step(Submit{b}))
	require.Equal(t, "a 1", step(Withdraw{a}))
	require.Empty(t, step(Submit{record("c", 10)}))
	require.Nil(t, w.Take(2), "it is not reserved")
	require.Equal(t, "bc", ids(w.Take(1)))
	require.Nil(t, w.Take(1), "it is taken")
	require.Empty(t, step(Withdraw{b}), "it is taken")

	d := record("d", 10)
	require.Empty(t, step(Submit{d}))
	todo, _ := w.Step(2*time.Second, Tick{})
	require.Equal(t, "send 2", said(todo))
	require.Equal(t, "d 1", step(Withdraw{d}))
	require.Nil(t, w.Take(2), "nothing is left")
	require.Equal(t, "b 0, c 0", step(Confirmed{1, Stored}))

	require.Empty(t, step(Submit{record("e", 10)}))
	todo, _ = w.Step(2*time.Second, Tick{})
	require.Equal(t, "send 3", said(todo))
	require.Equal(t, "e 1", said(w.End()), "it is not taken, so it is stored nowhere")
	require.Nil(t, w.Take(3))
}

// ids are those of the records of a bundle.
func ids(b *bundle.Bundle) (all string) {
	for _, r := range b.Records {
		all += r.ID
	}
	return all
}

// TestWriter_Order: all are settled once, sent in their order, in bundles that can be read, and a
// large one is alone.
func TestWriter_Order(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, now := New("w"), time.Duration(0)
		var submitted, sent []string
		var reserved []uint64 // and not taken
		var flying []uint64
		settled := map[string]int{}
		step := func(e Event) {
			todo, _ := w.Step(now, e)
			for _, e := range todo {
				switch e := e.(type) {
				case Send:
					require.Empty(t, reserved, "one is not taken")
					reserved = append(reserved, e.ID)
					require.LessOrEqual(t, len(flying)+len(reserved), mostUnconfirmed)
				case Settle:
					settled[e.Record.ID]++
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				r := record(fmt.Sprint(len(submitted)), rapid.IntRange(0, 2*bundle.LoneSize).Draw(t, "size"))
				r.Alone = rapid.IntRange(0, 9).Draw(t, "alone") == 0
				submitted = append(submitted, r.ID)
				step(Submit{r})
			},
			"take": func(*rapid.T) {
				if len(reserved) == 0 {
					return
				}
				b, err := bundle.Read(w.Take(reserved[0]).Append(nil))
				require.NoError(t, err)
				for _, r := range b.Records {
					sent = append(sent, r.ID)
					require.True(t, len(b.Records) == 1 || len(r.Payload) < bundle.LoneSize)
				}
				flying, reserved = append(flying, reserved[0]), nil
				step(Tick{})
			},
			"confirm": func(*rapid.T) {
				if len(flying) > 0 {
					id := flying[0]
					flying = flying[1:]
					step(Confirmed{ID: id})
				}
			},
			"wait": func(*rapid.T) { now += gatherFor; step(Tick{}) },
		})
		require.Equal(t, strings.Join(submitted[:len(sent)], " "), strings.Join(sent, " "))
		for id, times := range settled {
			require.Equal(t, 1, times, id)
		}
	})
}
