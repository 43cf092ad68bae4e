package broker

import (
	"errors"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// TestProof goes through every transition of what is known.
func TestProof(t *testing.T) {
	sized := func(size int) *Publishing { return &Publishing{Message: amqp091.Publishing{Body: make([]byte, size)}} }
	var p proof
	require.True(t, p.covers(0), "an empty body is no larger than any")
	require.False(t, p.covers(1))
	p.taken(2)
	require.True(t, p.covers(2))
	require.False(t, p.covers(3))
	p.taken(1)
	require.True(t, p.covers(2), "a smaller one takes nothing back")
	p.learn(&delayer.Error{Kind: delayer.ErrUnknown, Cause: errors.New("EOF")})
	_, is := p.oversize(sized(5))
	require.False(t, is)
	p.learn(&delayer.Error{Kind: delayer.ErrUnknown, Cause: plain(&amqp091.Error{
		Code: 406, Reason: "PRECONDITION_FAILED - message size 5 is larger than configured max size 4", Server: true,
	})})
	limit, is := p.oversize(sized(5))
	require.True(t, is)
	require.EqualValues(t, 4, limit)
	_, is = p.oversize(sized(4))
	require.False(t, is)

	p.reset()
	require.False(t, p.covers(1))
	_, is = p.oversize(sized(5))
	require.False(t, is)
}
