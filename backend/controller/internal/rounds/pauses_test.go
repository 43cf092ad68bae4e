package rounds

import (
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller/internal/stamp"
)

func forQueue(name string) stamp.Message {
	return stamp.Message{
		Delivery: &amqp091.Delivery{RoutingKey: name}, Stamp: stamp.Stamp{To: []any{"~d:=" + name}},
	}
}

// TestPauses_Grow: each pause is twice as long as the one before, until a message is taken.
func TestPauses_Grow(t *testing.T) {
	p, now, full := newPauses(), time.Now(), forQueue("full")
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 16} {
		try := p.begin(full, now)
		require.Zero(t, try.wait)
		require.Equal(t, want*time.Second, p.end(try, delayer.ErrRefused, now))
		require.Zero(t, p.begin(forQueue("other"), now).wait, "others go on")
		if want > 1 {
			require.Equal(t, want*time.Second/2, p.begin(full, now.Add(want*time.Second/2)).wait)
		}
		now = now.Add(want*time.Second - 1)
		require.Equal(t, shortestLeft, p.begin(full, now).wait, "not less")
		now = now.Add(1)
	}
	require.Zero(t, p.end(p.begin(full, now), nil, now))
	for range 10 {
		require.Zero(t, p.begin(full, now).wait, "all follow the one that was taken")
	}
	require.Equal(t, time.Second, p.end(p.begin(full, now), delayer.ErrRefused, now), "it begins anew")
}

// TestPauses_OneAfterAPause: the others wait until it is known what became of it.
func TestPauses_OneAfterAPause(t *testing.T) {
	p, now, full := newPauses(), time.Now(), forQueue("full")
	p.end(p.begin(full, now), delayer.ErrRefused, now)
	now = now.Add(time.Second)
	first := p.begin(full, now)
	require.Zero(t, first.wait)
	require.Equal(t, shortestLeft, p.begin(full, now).wait)
	require.Zero(t, p.end(first, delayer.ErrUnknown, now))
	require.Zero(t, p.begin(full, now).wait, "the consumer of the first was lost: another is")
}

// TestPauses_AtTheSameTime: what was on its way when the first was refused is one refusal, and says
// nothing if it was taken.
func TestPauses_AtTheSameTime(t *testing.T) {
	p, now, full := newPauses(), time.Now(), forQueue("full")
	a, b, c := p.begin(full, now), p.begin(full, now), p.begin(full, now)
	require.Equal(t, time.Second, p.end(a, delayer.ErrRefused, now))
	require.Zero(t, p.end(b, nil, now))
	now = now.Add(time.Second / 4)
	require.Equal(t, time.Second, p.end(c, delayer.ErrRefused, now), "not less")
	now = now.Add(3 * time.Second / 4)
	require.Zero(t, p.begin(full, now).wait, "and the pause is the first's")
}

// TestPauses_Many: what comes for one destination comes back spread, and most of it after the
// longest pause.
func TestPauses_Many(t *testing.T) {
	p, now, full := newPauses(), time.Now(), forQueue("full")
	p.end(p.begin(full, now), delayer.ErrRefused, now)
	back := map[time.Duration]int{} // by whole seconds
	for range 20_000 {
		back[p.begin(full, now).wait.Truncate(time.Second)]++
	}
	for after, many := range back {
		if after < longestLeft {
			require.LessOrEqual(t, many, int(2*time.Second/apart), "%v", after)
		}
	}
	require.Greater(t, back[longestLeft], 10_000)
}

// TestPauses_Exchange: one of its queues may be full while the others have room.
func TestPauses_Exchange(t *testing.T) {
	p, now := newPauses(), time.Now()
	to := func(key string, bcc ...any) stamp.Message {
		return stamp.Message{
			Delivery: &amqp091.Delivery{RoutingKey: key}, Stamp: stamp.Stamp{To: []any{"~d:events"}, BCC: bcc},
		}
	}
	p.end(p.begin(to("a"), now), delayer.ErrRefused, now)
	require.NotZero(t, p.begin(to("a"), now).wait)
	require.Zero(t, p.begin(to("b"), now).wait)
	require.Zero(t, p.begin(to("a", "b"), now).wait)
}

func TestPauses_Bounded(t *testing.T) {
	p, now := newPauses(), time.Now()
	for i := range mostPausing {
		m := forQueue(fmt.Sprint(i))
		require.Equal(t, shortestLeft, p.end(p.begin(m, now), delayer.ErrRefused, now))
	}
	m := forQueue("one more")
	require.Equal(t, longestLeft, p.end(p.begin(m, now), delayer.ErrRefused, now))
	now = now.Add(rememberedFor + longestLeft)
	require.Equal(t, shortestLeft, p.end(p.begin(m, now), delayer.ErrRefused, now), "the others are forgotten")
	require.Len(t, p.of, 1)
}
