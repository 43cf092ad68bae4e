package simulator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend/controller/internal/wheel"
)

// A bench is a broker whose intake is consumed by clients that only note what they get.
type bench struct {
	*world
	q *queue
}

func newBench() *bench {
	w := &world{rand: rand.New(rand.NewPCG(1, 0)), wheel: wheel.Default(), plan: plan{latency: time.Millisecond, destinations: 1}}
	w.account, w.clock = &account{w: w}, clock{w: w, begin: time.Unix(0, 0)}
	w.broker = newBroker(w)
	return &bench{w, w.broker.named[wheel.Intake]}
}

// client consumes with a prefetch.
func (b *bench) client(prefetch int) *channel {
	c := b.broker.connect(&process{w: b.world}, false, func() {})
	ch := b.broker.newChannel(c, wheel.Intake)
	ch.consume(prefetch)
	b.settle()
	return ch
}

func (b *bench) settle() { b.runUntil(b.now + 200*time.Millisecond) }

func (b *bench) store(ids ...string) {
	for _, id := range ids {
		b.q.store(&item{msg: wheel.Message{ID: id}}, func() {})
	}
	b.settle()
}

// has lists what a channel has not acknowledged.
func (ch *channel) has() (ids []string) {
	for _, u := range ch.unacked {
		ids = append(ids, fmt.Sprintf("%d%s", u.tag, u.msg.ID))
	}
	return ids
}

// TestBroker_OneIsActive: the oldest consumer has all, as many as its prefetch; then the next, and
// what was given back comes first, in its order.
func TestBroker_OneIsActive(t *testing.T) {
	b := newBench()
	first, second := b.client(2), b.client(10)
	b.store("a", "b", "c", "d")
	require.Equal(t, []string{"1a", "2b"}, first.has())
	require.Empty(t, second.has())
	ready, consumers := b.q.count()
	require.Equal(t, []int{2, 1}, []int{ready, consumers})

	first.ack(1, false)
	b.settle()
	require.Equal(t, []string{"2b", "3c"}, first.has())
	first.conn.close()
	require.Empty(t, second.has(), "the queue has not heard of it")
	b.settle()
	require.Equal(t, []string{"1b", "2c", "3d"}, second.has())
}

// TestBroker_ConsumesAnew: what is not acknowledged stays with the channel, and counts no more.
func TestBroker_ConsumesAnew(t *testing.T) {
	b := newBench()
	ch, other := b.client(2), b.client(2)
	b.store("a", "b", "c", "d", "e", "f")
	ch.consume(3)
	b.settle()
	require.Equal(t, []string{"1a", "2b"}, ch.has(), "another one is active now")
	require.Equal(t, []string{"1c", "2d"}, other.has())
	other.conn.close()
	b.settle()
	require.Equal(t, []string{"1a", "2b", "3c", "4d", "5e"}, ch.has())
	ch.ack(4, true)
	b.settle()
	require.Equal(t, []string{"5e", "6f"}, ch.has())
}

// TestBroker_LosesAcks: those under way when a channel is lost; not when it is closed.
func TestBroker_LosesAcks(t *testing.T) {
	b := newBench()
	ch := b.client(10)
	b.store("a", "b")
	b.broker.slow = time.Hour
	ch.ack(2, true)
	ch.conn.close()
	b.broker.slow = 0
	b.settle()
	require.Len(t, b.q.returned, 2)

	ch = b.client(10)
	ch.ack(2, true)
	ch.acks.send(0, ch.end)
	b.settle()
	require.Empty(t, b.q.returned)
}

// TestBroker_Crash: what was stored survives, what was not may or may not; all connections end.
func TestBroker_Crash(t *testing.T) {
	survived := map[int]bool{}
	for s := range uint64(50) {
		b := newBench()
		b.rand = rand.New(rand.NewPCG(s, 0))
		ch := b.client(1)
		b.store("a", "b")
		for range 3 {
			b.q.store(&item{}, func() {})
		}
		b.broker.crash()
		require.True(t, ch.gone)
		require.False(t, ch.conn.open)
		ready, consumers := b.q.count()
		require.GreaterOrEqual(t, ready, 2)
		require.Zero(t, consumers)
		survived[ready] = true
	}
	require.Len(t, survived, 4, "none, one, two or three of those that were not confirmed")
}

// TestBroker_Stuck: a queue without a majority neither stores nor delivers; an alarm stops who
// publishes.
func TestBroker_Stuck(t *testing.T) {
	b := newBench()
	ch := b.client(10)
	b.q.stuck = true
	b.store("a")
	require.Empty(t, ch.has())
	b.q.stuck = false
	b.q.log.pump()
	require.Len(t, ch.has(), 1)

	c, confirmed := b.broker.connect(&process{w: b.world}, true, func() {}), false
	b.broker.alarm = true
	c.publish(into(b.q, &item{}), func(wheel.Outcome) { confirmed = true })
	b.settle()
	require.Len(t, ch.has(), 1)
	b.broker.alarm = false
	c.up.pump()
	b.settle()
	require.Len(t, ch.has(), 2)
	require.True(t, confirmed)
}
