package acks

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAcks(t *testing.T) {
	const within = 100 * time.Millisecond
	for name, c := range map[string]struct {
		done   []uint64
		over   []uint64
		since  time.Duration // each is done
		upTo   uint64
		single []uint64
		wait   int
	}{
		"nothing is done":              {},
		"all are done":                 {done: []uint64{2, 1, 3}, upTo: 3},
		"the first is not done":        {done: []uint64{2, 3}, wait: 2},
		"the first takes long":         {done: []uint64{3, 2}, since: within, single: []uint64{2, 3}},
		"one in the middle takes long": {done: []uint64{1, 4, 2}, since: within, upTo: 2, single: []uint64{4}},
		"the first was given back":     {done: []uint64{2, 3}, over: []uint64{1}, upTo: 3},
		"the last was given back":      {done: []uint64{1, 2}, over: []uint64{3}, upTo: 2},
	} {
		a := New(1)
		for _, tag := range c.done {
			a.Done(tag, time.Minute-c.since)
		}
		for _, tag := range c.over {
			a.Over(tag)
		}
		require.Equal(t, c.upTo, a.UpTo(), name)
		require.Equal(t, c.single, a.Overdue(time.Minute, within), name)
		require.Equal(t, c.wait, a.Waiting(), name)
		require.Len(t, a.order, c.wait, name)
	}
}

// TestAcks_AnyOrder: the broker gets an acknowledgement of each message once, and of none that is
// not done.
func TestAcks_AnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Duration(0)
		next := uint64(rapid.IntRange(1, 5).Draw(t, "first"))
		a := New(next)
		unacked, done, underway := map[uint64]bool{}, map[uint64]bool{}, []uint64{} // what the broker knows; what is stored
		ack := func(tag uint64, multiple bool) {
			require.True(t, unacked[tag], "the broker closes the channel over %d", tag)
			for known := range unacked {
				if known == tag || multiple && known < tag {
					require.True(t, done[known], "%d is not done", known)
					delete(unacked, known)
				}
			}
		}
		one := func() (tag uint64) {
			i := rapid.IntRange(0, len(underway)-1).Draw(t, "which")
			tag = underway[i]
			underway = append(underway[:i], underway[i+1:]...)
			return tag
		}
		finish := func() {
			tag := one()
			done[tag] = true
			a.Done(tag, now)
		}
		t.Repeat(map[string]func(*rapid.T){
			"deliver": func(*rapid.T) {
				unacked[next], underway = true, append(underway, next)
				next++
			},
			"finish": func(*rapid.T) {
				if len(underway) > 0 {
					finish()
				}
			},
			"give back": func(*rapid.T) {
				if len(underway) > 0 {
					tag := one()
					delete(unacked, tag)
					a.Over(tag)
				}
			},
			"up to": func(*rapid.T) {
				if tag := a.UpTo(); tag > 0 {
					ack(tag, true)
				}
			},
			"overdue": func(t *rapid.T) {
				now += time.Duration(rapid.IntRange(0, 60).Draw(t, "ms")) * time.Millisecond
				for _, tag := range a.Overdue(now, 100*time.Millisecond) {
					ack(tag, false)
				}
			},
			"": func(t *rapid.T) {
				waiting := 0
				for tag := range unacked {
					if done[tag] {
						waiting++
					}
				}
				require.Equal(t, waiting, a.Waiting(), "what is done is acknowledged in the end")
			},
		})
		for len(underway) > 0 {
			finish()
		}
		if tag := a.UpTo(); tag > 0 {
			ack(tag, true)
		}
		require.Empty(t, unacked)
	})
}
