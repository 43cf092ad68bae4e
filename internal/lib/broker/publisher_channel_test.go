package broker

import (
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

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

// TestWrite_DecidedBefore: what was decided before a connection was made is not sent over it.
func TestWrite_DecidedBefore(t *testing.T) {
	made := time.Now()
	c := &publisherChannel{}
	o := &openChannel{ch: &amqp091.Channel{}, gathering: newGathering(&wire{made: made})}
	m := &Pending{publisher: &Publisher{}, msg: Publishing{Decided: made.Add(-time.Second)}, written: make(chan struct{}, 1)}
	c.write(o, m)
	require.ErrorIs(t, m.err, ErrStale)
	require.Zero(t, o.sent.Load())
}
