package ticket

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer"
)

func draw(t *rapid.T) Ticket {
	due := rapid.Int64Range(1, Latest).Draw(t, "due")
	return Ticket{
		ID:       rapid.StringMatching(`[A-Z0-9a-z]{1,48}`).Draw(t, "id"),
		Due:      due,
		Since:    rapid.Int64Range(1, due).Draw(t, "since"),
		From:     rapid.Int64Range(1, Latest).Draw(t, "from"),
		Read:     rapid.Int64Range(1, Latest).Draw(t, "read"),
		Revision: rapid.Int64Range(0, MaxRevision).Draw(t, "revision"),
	}
}

func TestTicket_ComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := draw(t)
		text := want.Write("p")
		got, err := Read(text, "p")
		if err != nil || got != want {
			t.Fatalf("%+v, %v; want %+v", got, err, want)
		}
		if len(text) > 120 || strings.Trim(string(text), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			t.Fatalf("%q", text)
		}
		if _, err := Read(text, "q"); !errors.Is(err, ErrPrefix) {
			t.Fatalf("another prefix: %v", err)
		}
	})
}

// TestTicket_Mistyped: one letter that is wrong, missing or twice.
func TestTicket_Mistyped(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(draw(t).Write("p"))
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		other := rapid.StringMatching(`[A-Za-z0-9_-]`).Draw(t, "other")
		for _, wrong := range []string{text[:at] + other + text[at+1:], text[:at] + text[at+1:], text[:at] + text[at:at+1] + text[at:]} {
			if _, err := Read(delayer.Ticket(wrong), "p"); wrong != text && !errors.Is(err, ErrDamaged) {
				t.Fatalf("%q for %q: %v", wrong, text, err)
			}
		}
	})
}

func TestTicket_Garbage(t *testing.T) {
	good := Ticket{ID: "A1", Due: 2_000_000, Since: 1_000_000, From: 2_000_000, Read: 1_990_000}
	text := string(good.Write("p"))
	for _, garbage := range []string{"", "d1.", "d2" + text[2:], text + "\n", " " + text, strings.ToUpper(text), "d1.AAAAAAAAAAA", strings.Repeat("x", 1<<16)} {
		_, err := Read(delayer.Ticket(garbage), "p")
		require.ErrorIs(t, err, ErrDamaged, "%.80q", garbage)
	}
	for _, impossible := range []Ticket{
		{}, {ID: "A1"}, {ID: "A1", Due: Latest + 1, Since: 1}, {ID: strings.Repeat("x", 49), Due: 1, Since: 1},
		{ID: "A1", Due: 1, Since: 1, Revision: -1}, {ID: "A1", Due: -5, Since: 1},
	} {
		_, err := Read(impossible.Write("p"), "p")
		require.ErrorIs(t, err, ErrDamaged, "%+v", impossible)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(string(Ticket{ID: "A1", Due: 2_000_000, Since: 1_000_000, From: 2_000_000, Read: 1_990_000, Revision: 3}.Write("p")))
	f.Add("d1.AAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Read(delayer.Ticket(text), "p")
		if err == nil {
			require.Equal(t, text, string(got.Write("p")), "a ticket has one text")
			require.True(t, got.valid())
		}
	})
}
