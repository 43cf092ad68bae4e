package remarks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/status"
)

// TestOf_Counting: why a number of messages in slots is not exact, or old.
func TestOf_Counting(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	number := func(n int) *int { return &n }
	counted := func(ago time.Duration) *time.Time { at := noon.Add(-ago); return &at }
	for name, c := range map[string]struct {
		b     status.Backend
		about string
		want  []string
	}{
		"exact": {status.Backend{Unread: number(0), Counted: counted(time.Minute), Controllers: number(1)}, "", nil},
		"old": {
			status.Backend{Unread: number(0), Counted: counted(3 * time.Minute), Controllers: number(1)}, "",
			[]string{"controller: counted 3m 0s ago, and not since: a controller counts once a minute at least"},
		},
		"no controller": {
			status.Backend{Unread: number(2), Waiting: number(2), Counted: counted(5 * time.Second), Controllers: number(0)}, "about ",
			[]string{
				"controller: 2 bundles not read by a controller yet: each has one message, or up to some hundred",
				"controller: counted 5s ago, and not since: a controller counts once a minute at least",
			},
		},
		"no controller, and nothing waits": {
			status.Backend{Unread: number(0), Waiting: number(0), Counted: counted(5 * time.Second), Controllers: number(0)}, "", nil,
		},
		"changes": {
			status.Backend{Unread: number(0), Changes: 1}, "about ",
			[]string{"controller: 1 change in slots for messages that wait there: up to as many are cancelled, or due later"},
		},
		"lost": {
			status.Backend{Inexact: true}, "about ",
			[]string{"controller: a controller was lost, or has ended, before it had counted all: the number of messages is about right"},
		},
		"of another kind": {status.Backend{}, "", nil},
	} {
		require.Equal(t, c.about, About(c.b), name)
		c.b.Name = "controller"
		var got []string
		for _, remark := range Of(status.Status{Time: noon, Backends: []status.Backend{c.b}}) {
			require.False(t, remark.Wrong, name)
			got = append(got, remark.Text)
		}
		require.Equal(t, c.want, got, name)
	}
}
