package writer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer/internal/lib/bundle"
)

func record(id string, size int) *Record {
	return &Record{Record: bundle.Record{ID: id, Due: 1, To: "q", Payload: make([]byte, size)}}
}

// ids are those of records.
func ids(records []*Record) (all string) {
	for _, r := range records {
		all += r.ID
	}
	return all
}

// taken are the ids of the records of a bundle.
func taken(b *bundle.Bundle) (all string) {
	for _, r := range b.Records {
		all += r.ID
	}
	return all
}

// TestWriter: the first is sent at once, and the second; the others together; and once several have
// come together, the next is gathered.
func TestWriter(t *testing.T) {
	w := New("w")
	const ms = time.Millisecond
	submit := func(now time.Duration, id string) uint64 {
		w.Submit(now, record(id, 10))
		number, _ := w.Reserve(now)
		return number
	}
	reserve := func(now time.Duration) []any {
		id, next := w.Reserve(now)
		return []any{id, next}
	}
	require.Equal(t, uint64(1), submit(1*ms, "a"))
	require.Equal(t, "a", taken(w.Take(1)))
	require.Equal(t, uint64(2), submit(1*ms, "b"))
	require.Equal(t, "b", taken(w.Take(2)))
	c := record("c", 10)
	w.Submit(2*ms, c)
	require.Zero(t, submit(2*ms, "d"))
	require.Zero(t, submit(2*ms, "e"))
	require.True(t, w.Withdraw(c))
	require.Equal(t, "a", ids(w.Confirmed(1)))
	require.Equal(t, []any{uint64(3), 0 * ms}, reserve(3*ms))
	require.Equal(t, "de", taken(w.Take(3)))
	require.Equal(t, "b", ids(w.Confirmed(2)))
	require.Zero(t, submit(4*ms, "f"))
	require.Equal(t, []any{uint64(0), 7 * ms}, reserve(4*ms))
	require.Equal(t, []any{uint64(4), 0 * ms}, reserve(7*ms))
	require.Equal(t, "f", taken(w.Take(4)))
	require.False(t, w.Withdraw(c), "it is settled")
	require.Equal(t, "de", ids(w.Confirmed(3)))
	require.Equal(t, uint64(5), submit(9*ms, "g"), "the last was alone")
}

// TestWriter_Take: until a bundle is taken records join it, and are withdrawn from it.
func TestWriter_Take(t *testing.T) {
	w := New("w")
	submit := func(r *Record) uint64 {
		w.Submit(time.Second, r)
		id, _ := w.Reserve(time.Second)
		return id
	}
	a, b := record("a", 10), record("b", 10)
	require.Equal(t, uint64(1), submit(a))
	require.Zero(t, submit(b))
	require.True(t, w.Withdraw(a))
	require.Zero(t, submit(record("c", 10)))
	require.Nil(t, w.Take(2), "it is not reserved")
	require.Equal(t, "bc", taken(w.Take(1)))
	require.Nil(t, w.Take(1), "it is taken")
	require.False(t, w.Withdraw(b), "it is taken")

	d := record("d", 10)
	require.Zero(t, submit(d))
	id, _ := w.Reserve(2 * time.Second)
	require.Equal(t, uint64(2), id)
	require.True(t, w.Withdraw(d))
	require.Nil(t, w.Take(2), "nothing is left")

	require.Zero(t, submit(record("e", 10)))
	id, _ = w.Reserve(2 * time.Second)
	require.Equal(t, uint64(3), id)
	lost, waiting := w.End()
	require.Equal(t, []string{"bc", "e"}, []string{ids(lost), ids(waiting)}, "what is not taken is stored nowhere")
	require.Nil(t, w.Take(3))
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
		reserve := func() {
			if id, _ := w.Reserve(now); id > 0 {
				require.Empty(t, reserved, "one is not taken")
				reserved = append(reserved, id)
				require.LessOrEqual(t, len(flying)+len(reserved), mostUnconfirmed)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				r := record(fmt.Sprint(len(submitted)), rapid.IntRange(0, 2*bundle.LoneSize).Draw(t, "size"))
				r.User = rapid.SampledFrom([]string{"", "", "", "u"}).Draw(t, "user")
				submitted = append(submitted, r.ID)
				w.Submit(now, r)
				reserve()
			},
			"take": func(*rapid.T) {
				if len(reserved) == 0 {
					return
				}
				b, err := bundle.Read(w.Take(reserved[0]).Bytes())
				require.NoError(t, err)
				for _, r := range b.Records {
					sent = append(sent, r.ID)
					require.True(t, len(b.Records) == 1 || len(r.Payload) < bundle.LoneSize && r.User == "")
				}
				flying, reserved = append(flying, reserved[0]), nil
				reserve()
			},
			"confirm": func(*rapid.T) {
				if len(flying) > 0 {
					id := flying[0]
					flying = flying[1:]
					for _, r := range w.Confirmed(id) {
						settled[r.ID]++
					}
					reserve()
				}
			},
			"wait": func(*rapid.T) { now += gatherFor; reserve() },
		})
		require.Equal(t, strings.Join(submitted[:len(sent)], " "), strings.Join(sent, " "))
		for id, times := range settled {
			require.Equal(t, 1, times, id)
		}
	})
}
