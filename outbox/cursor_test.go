package outbox

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCursor(t *testing.T) {
	start := time.UnixMicro(1_700_000_000_000_000)
	at := func(s int) place { return place{start.Add(time.Duration(s) * time.Second), int64(s)} }
	const poll = time.Minute
	var c cursor
	look := func() *look { return c.begin(start, poll) }

	first, second := look(), look()
	assert.Equal(t, place{}, first.after, "the beginning")
	c.end(second, at(20), 0)
	c.end(first, at(10), 0)
	assert.Equal(t, at(10), look().after, "each has read from the beginning: the earlier end counts")

	c.end(look(), at(30), 0)
	late := look()
	c.end(look(), at(40), 0)
	c.end(late, at(35), 0)
	assert.Equal(t, at(40), look().after, "an earlier look does not move it back")

	during := look()
	c.notified("1700000015000000")
	since := look()
	assert.Equal(t, place{at(15).at, math.MinInt64}, since.after, "where the transaction began")
	c.end(during, at(50), 0)
	assert.Equal(t, since.after, look().after, "what looked before the notification has not seen its rows")
	c.end(since, at(50), 0)
	assert.Equal(t, at(50), look().after)
	c.notified("1700000090000000")
	assert.Equal(t, at(50), look().after, "not forwards")

	for _, text := range []string{"", "now"} {
		c.notified(text)
		assert.Equal(t, place{}, look().after, "not ours: the beginning")
		c.end(look(), at(50), 0)
	}

	whole := c.begin(start.Add(poll), poll)
	assert.Equal(t, place{}, whole.after, "it is time")
	c.end(whole, at(50), poll)
	assert.Equal(t, at(50), c.begin(start.Add(3*poll), poll).after, "the last one took long")
	assert.Equal(t, place{}, c.begin(start.Add((1+wholeShare)*poll), poll).after)
}

func TestPlace(t *testing.T) {
	now := time.Now()
	assert.Nil(t, place{}.time())
	assert.Equal(t, now, *place{at: now}.time())
	assert.True(t, place{now, 1}.before(place{now, 2}))
	assert.False(t, place{now, 2}.before(place{now, 2}))
	assert.True(t, place{now, 2}.before(place{now.Add(1), 1}))
}
