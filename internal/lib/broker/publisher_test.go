package broker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// newTestPool returns a pool of channels that are never open, and how many of them are not closed.
func newTestPool(t *testing.T, most int) (p *pool, open func() int) {
	t.Helper()
	var all []*publisherChannel
	p = &pool{lent: map[destination]*publisherChannel{}, most: func() int { return most }}
	p.open = func() *publisherChannel {
		c := &publisherChannel{pool: p, done: make(chan struct{})}
		c.ctx, c.cancel = context.WithCancel(context.Background())
		close(c.done)
		all = append(all, c)
		return c
	}
	t.Cleanup(func() {
		for _, c := range p.close() {
			c.cancel()
		}
		p.retired.Wait()
	})
	return p, func() (n int) {
		for _, c := range all {
			if c.ctx.Err() == nil {
				n++
			}
		}
		return n
	}
}

func queueNamed(i int) destination { return destination{queue: fmt.Sprint(i)} }

func TestPool_Lends(t *testing.T) {
	p, open := newTestPool(t, 3)
	take := func(i int) *publisherChannel {
		c, err := p.take(t.Context(), queueNamed(i))
		require.NoError(t, err)
		return c
	}
	one, two := take(1), take(2)
	require.NotSame(t, one, two)
	require.Same(t, one, take(1), "all messages to a destination share a channel")
	one.accepts.Store(true)
	p.put(one)
	require.NotSame(t, one, take(3), "one of them is unconfirmed yet")
	p.put(one)
	p.put(two)
	require.Same(t, one, take(1), "a destination gets back the channel that it had")
	require.True(t, one.accepts.Load())
	p.put(one)
	require.Same(t, one, take(4), "any other takes the one that was used last")
	require.False(t, one.accepts.Load(), "that proves nothing")
	require.Equal(t, 3, open())
}

func TestPool_Bound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, open := newTestPool(t, 2)
		one, err := p.take(t.Context(), queueNamed(1))
		require.NoError(t, err)
		_, err = p.take(t.Context(), queueNamed(2))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.take(ctx, queueNamed(3))
		require.ErrorIs(t, err, delayer.ErrNotSent)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "2 destinations have not confirmed")

		var three *publisherChannel
		go func() { three, _ = p.take(t.Context(), queueNamed(3)) }()
		synctest.Wait()
		require.Nil(t, three)
		p.put(one)
		synctest.Wait()
		require.Same(t, one, three)
		require.Equal(t, 2, open())

		go func() { _, err = p.take(t.Context(), queueNamed(4)) }()
		synctest.Wait()
		p.close()
		synctest.Wait()
		require.ErrorIs(t, err, delayer.ErrClosed)
	})
}

func TestPool_Shrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, open := newTestPool(t, 1000)
		const many = 50
		var lent []*publisherChannel
		for i := range many {
			c, err := p.take(t.Context(), queueNamed(i))
			require.NoError(t, err)
			lent = append(lent, c)
		}
		for _, c := range lent[1:] {
			p.put(c)
		}
		require.Equal(t, many, open(), "more messages may come soon")
		time.Sleep(freeFor)
		p.put(lent[0])
		require.Equal(t, keptFree, open())
	})
}

// TestWithdraw: a message that its caller takes back is not written.
func TestWithdraw(t *testing.T) {
	m := &Pending{leaves: true, msg: Publishing{Message: amqp091.Publishing{Body: []byte("body")}}}
	require.True(t, m.withdraw())
	o := &openChannel{ch: &amqp091.Channel{}, gathering: newGathering(&wire{})}
	(&publisherChannel{}).write(o, m)
	require.Zero(t, o.sent.Load())

	m = &Pending{state: taken}
	require.False(t, m.withdraw())
}

// TestReturned: a return is told from others by our header. Of messages without it that are alike,
// as many are returned as the broker says.
func TestReturned(t *testing.T) {
	returns := make(chan amqp091.Return, 5)
	o := &openChannel{returns: returns}
	message := func(key string, headers amqp091.Table) *Publishing {
		return &Publishing{Key: key, Message: amqp091.Publishing{MessageId: "m", Headers: headers, Body: []byte("body")}}
	}
	ours, others := amqp091.Table{delayer.Header: "ours"}, amqp091.Table{delayer.Header: "another's"}
	for _, m := range []*Publishing{message("a", nil), message("a", ours), message("b", nil), message("a", nil)} {
		returns <- amqp091.Return{RoutingKey: m.Key, MessageId: m.Message.MessageId, Headers: m.Message.Headers, Body: m.Message.Body}
	}
	var answers []bool
	for _, m := range []*Publishing{
		message("c", nil), message("b", nil), message("a", nil), message("a", others), message("a", nil), message("a", nil), message("a", ours),
	} {
		_, returned := o.returned(m)
		answers = append(answers, returned)
	}
	require.Equal(t, []bool{false, true, true, false, true, false, true}, answers)
	require.Empty(t, o.waiting)
}

// TestCovers: what a larger body has proved is true of smaller ones.
func TestCovers(t *testing.T) {
	var p Publisher
	require.True(t, p.Covers(0), "an empty body is no larger than any")
	require.False(t, p.Covers(1))
	p.accepted(2)
	require.True(t, p.Covers(2))
	require.False(t, p.Covers(3))
	p.accepted(1)
	require.True(t, p.Covers(2), "a smaller one takes nothing back")
}

// TestServe_KeepsOrder: a channel is replaced while messages wait for it. The next one has them in
// the order in which they came, whichever of the two is noticed first.
func TestServe_KeepsOrder(t *testing.T) {
	for range 100 {
		c := &publisherChannel{
			conn: &Conn{changed: make(chan struct{})}, submitted: make(chan *Pending, 3), ctx: t.Context(),
		}
		for i := range cap(c.submitted) {
			c.submitted <- &Pending{msg: Publishing{Key: fmt.Sprint(i)}}
		}
		renew := make(chan struct{})
		close(renew)
		o := &openChannel{ch: &amqp091.Channel{}, closed: make(chan struct{}), renew: renew, gathering: newGathering(&wire{})}
		require.True(t, c.serve(o), "it lives")
		var left []string
		if c.first != nil {
			left = append(left, c.first.msg.Key)
		}
		for len(c.submitted) > 0 {
			left = append(left, (<-c.submitted).msg.Key)
		}
		require.Equal(t, []string{"0", "1", "2"}, left)
	}
}
