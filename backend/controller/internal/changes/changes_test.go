package changes

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func drawFate(t *rapid.T) Fate {
	due := rapid.Int64Range(1, 20).Draw(t, "due")
	return Fate{
		Cancelled: rapid.IntRange(0, 4).Draw(t, "cancelled") == 0,
		Revision:  rapid.Int64Range(0, 3).Draw(t, "revision"),
		Due:       due, Since: rapid.Int64Range(1, 5).Draw(t, "since"),
		Last: due + rapid.Int64Range(0, 3).Draw(t, "later"), First: rapid.Int64Range(1, 5).Draw(t, "first"),
	}
}

// TestSet_IsASet: in whatever order changes are read, and how often, what is known is the same.
func TestSet_IsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var entries []Entry
		for i := range rapid.IntRange(1, 8).Draw(t, "changes") {
			entries = append(entries, Entry{Written: int64(i), Changes: map[string]Fate{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"): drawFate(t)}})
		}
		var one, other Set
		for _, e := range entries {
			one.Add(e)
		}
		for _, e := range rapid.Permutation(slices.Concat(entries, entries[:len(entries)/2])).Draw(t, "order") {
			other.Add(e)
		}
		if fmt.Sprint(one.known) != fmt.Sprint(other.known) {
			t.Fatalf("%v\n%v", one.known, other.known)
		}
		for _, e := range one.Entries(one.Old(1<<60), 9) { // what it writes says the same as what it has read
			parsed, ok := Parse(e.Body())
			if !ok {
				t.Fatalf("%s", e.Body())
			}
			other.Add(parsed)
		}
		for _, id := range []string{"a", "b"} {
			x, _ := one.Of(id)
			if y, _ := other.Of(id); x != y {
				t.Fatalf("%v\n%v", x, y)
			}
		}
	})
}

func TestFate(t *testing.T) {
	first := Fate{Revision: 1, Due: 30, Since: 1, Last: 30, First: 1}
	second := Fate{Revision: 2, Due: 20, Since: 5, Last: 30, First: 5}
	got := first.with(second)
	require.Equal(t, Fate{Revision: 1, Due: 30, Since: 1, Last: 30, First: 1}, got, "the latest counts, also by an older ticket")
	require.Equal(t, got, second.with(first))
	same := Fate{Revision: 2, Due: 25, Since: 4, Last: 25, First: 4}
	require.EqualValues(t, 25, second.with(same).Due, "of two by one ticket the later")
	cancel := Fate{Cancelled: true, Due: 10, Since: 1, Last: 10, First: 1}
	require.True(t, second.with(cancel).Cancelled, "by an old ticket too")
	require.True(t, cancel.with(second).Cancelled)
}

func TestParse(t *testing.T) {
	for _, body := range []string{"", "x", "[]", `{"changes":3}`, `{"changes":{"a":{"due":"x"}}}`} {
		_, ok := Parse([]byte(body))
		require.False(t, ok, body)
	}
	e, ok := Parse([]byte(`{"mark":"m","other":1,"changes":{"":{"due":1},"` + strings.Repeat("x", 65) + `":{"due":1},"a":{"due":1}}}`))
	require.True(t, ok)
	require.Equal(t, Entry{Mark: "m", Changes: map[string]Fate{"a": {Due: 1}}}, e)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"mark":"m","written":5,"changes":{"a":{"cancelled":true,"due":1}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, ok := Parse(body)
		if !ok {
			return
		}
		again, ok := Parse(e.Body())
		require.True(t, ok)
		require.Len(t, again.Changes, len(e.Changes))
		var s Set
		s.Add(e)
		require.Equal(t, len(e.Changes), s.Len())
	})
}

func TestSet_Forget(t *testing.T) {
	began := time.UnixMilli(0)
	shows := func(due, _ int64) time.Time { return time.UnixMilli(due) }
	var s Set
	s.Add(Entry{Changes: map[string]Fate{
		"past":      {Due: 1000, Last: 1000},
		"moved":     {Due: 1000, Last: time.Hour.Milliseconds()},
		"to come":   {Due: 1 << 50, Last: 1 << 50},
		"long past": {Due: -1 << 40, Last: -1 << 40},
	}})
	s.Forget(began.Add(KeptFor-1), began, shows)
	require.Equal(t, 3, s.Len(), "messages of before may still come to light")
	s.Forget(began.Add(KeptFor+2*time.Second), began, shows)
	require.Equal(t, 2, s.Len())
	s.Forget(began.Add(KeptFor+2*time.Hour), began, shows)
	require.Equal(t, 1, s.Len())
	_, ok := s.Of("to come")
	require.True(t, ok)
}

func TestSet_WritesAgain(t *testing.T) {
	var s Set
	s.Read()
	many := map[string]Fate{}
	for i := range 250 {
		many[fmt.Sprint(i)] = Fate{Due: int64(i)}
	}
	s.Add(Entry{Written: 10, Changes: many})
	s.Add(Entry{Written: 20, Changes: map[string]Fate{"new": {Due: 7}}})
	require.Empty(t, s.Old(10))
	require.Empty(t, s.Lacking())
	old := s.Entries(s.Old(11), 30)
	require.Len(t, old, 2)
	require.Len(t, old[0].Changes, 200)
	require.Len(t, old[1].Changes, 50)
	for _, e := range old {
		require.EqualValues(t, 30, e.Written)
		s.Add(e)
	}
	require.Empty(t, s.Old(11), "who reads it does not write it again")
	s.Read() // another stream
	s.Add(old[1])
	require.Len(t, s.Lacking(), 201)
	require.Len(t, s.Entries(s.Lacking(), 40)[1].Changes, 1)
}
