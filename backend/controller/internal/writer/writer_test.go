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
			ids := ""
			for _, r := range e.Bundle.Records {
				ids += r.ID
			}
			all = append(all, fmt.Sprintf("send %d:%s", e.ID, ids))
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
	const ms = time.Millisecond
	var next time.Duration
	step := func(now time.Duration, e Event) string {
		var todo []Effect
		todo, next = w.Step(now, e)
		return said(todo)
	}
	c := record("c", 10)
	require.Equal(t, "send 1:a", step(1*ms, Submit{record("a", 10)}))
	require.Equal(t, "send 2:b", step(1*ms, Submit{record("b", 10)}))
	require.Empty(t, step(2*ms, Submit{c}))
	require.Empty(t, step(2*ms, Submit{record("d", 10)}))
	require.Empty(t, step(2*ms, Submit{record("e", 10)}))
	require.Equal(t, "c 1", step(2*ms, Withdraw{c}))
	require.Equal(t, "a 0, send 3:de", step(3*ms, Confirmed{1, Stored}))
	require.Equal(t, "b 2", step(3*ms, Confirmed{2, Unknown}))
	require.Empty(t, step(4*ms, Submit{record("f", 10)}))
	require.Equal(t, 7*ms, next)
	require.Equal(t, "send 4:f", step(7*ms, Tick{}))
	require.Empty(t, step(8*ms, Withdraw{c}), "it is settled")
	require.Equal(t, "d 0, e 0", step(8*ms, Confirmed{3, Stored}))
	require.Equal(t, "send 5:g", step(9*ms, Submit{record("g", 10)}), "the last was alone")
}

// TestWriter_Order: all are settled once, sent in their order, in bundles that can be read, and a
// large one is alone.
func TestWriter_Order(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, now := New("w"), time.Duration(0)
		var submitted, sent, flying []string
		settled := map[string]int{}
		step := func(e Event) {
			todo, _ := w.Step(now, e)
			for _, e := range todo {
				switch e := e.(type) {
				case Send:
					b, err := bundle.Read(e.Bundle.Append(nil))
					require.NoError(t, err)
					for _, r := range b.Records {
						sent = append(sent, r.ID)
						require.True(t, len(b.Records) == 1 || len(r.Payload) < bundle.LoneSize)
					}
					flying = append(flying, fmt.Sprint(e.ID))
					require.LessOrEqual(t, len(flying), mostUnconfirmed)
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
			"confirm": func(*rapid.T) {
				if len(flying) > 0 {
					var id uint64
					_, _ = fmt.Sscan(flying[0], &id)
					flying = flying[1:]
					step(Confirmed{ID: id})
				}
			},
			"wait": func(*rapid.T) { now += gatherFor; step(Tick{}) },
		})
		require.Equal(t, submitted[:len(sent)], sent)
		for id, times := range settled {
			require.Equal(t, 1, times, id)
		}
	})
}
