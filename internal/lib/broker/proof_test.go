package broker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// TestProof goes through every transition of what is known.
func TestProof(t *testing.T) {
	ours := func(size int) Publishing { return Publishing{Message: amqp091.Publishing{Body: make([]byte, size)}} }
	theirs := Publishing{Exchange: "x", Direct: true}
	closed := func(code int, reason string) error {
		return &delayer.Error{Kind: delayer.ErrUnknown, Cause: plain(&amqp091.Error{Code: code, Reason: reason, Server: true})}
	}
	synctest.Test(t, func(t *testing.T) {
		var p proof
		require.True(t, p.covers(ours(0)), "an empty body is no larger than any")
		require.False(t, p.covers(ours(1)))
		for _, taken := range []error{nil, &delayer.Error{Kind: delayer.ErrRefused}, &delayer.Error{Kind: delayer.ErrUnroutable, Cause: ErrReturned}} {
			p.reset()
			p.learn(ours(2), taken)
			require.True(t, p.covers(ours(2)))
			require.False(t, p.covers(ours(3)))
		}
		p.learn(ours(1), nil)
		require.True(t, p.covers(ours(2)), "a smaller one takes nothing back")
		p.learn(ours(5), &delayer.Error{Kind: delayer.ErrUnknown, Cause: errors.New("EOF")})
		require.False(t, p.covers(ours(5)))
		_, is := p.oversize(ours(5))
		require.False(t, is)
		p.learn(ours(5), closed(406, "PRECONDITION_FAILED - message size 5 is larger than configured max size 4"))
		limit, is := p.oversize(ours(5))
		require.True(t, is)
		require.EqualValues(t, 4, limit)
		_, is = p.oversize(ours(4))
		require.False(t, is)

		require.False(t, p.covers(theirs))
		p.learn(theirs, nil)
		require.True(t, p.covers(theirs))
		p.learn(theirs, closed(403, "ACCESS_REFUSED"))
		require.False(t, p.covers(theirs))
		time.Sleep(doubtedFor / 2)
		p.learn(theirs, nil)
		require.False(t, p.covers(theirs), "it may refuse some keys and take others")
		time.Sleep(doubtedFor)
		require.False(t, p.covers(theirs))
		p.learn(theirs, nil)
		require.True(t, p.covers(theirs))

		p.reset()
		require.False(t, p.covers(theirs))
		require.False(t, p.covers(ours(1)))
		_, is = p.oversize(ours(5))
		require.False(t, is)
	})
}
