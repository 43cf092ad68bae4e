package broker

import (
	"errors"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// TestWithdraw: a caller either takes its message back, or the writer has a copy of its body.
func TestWithdraw(t *testing.T) {
	body := []byte("body")
	pending := func() *Pending {
		return &Pending{leaves: true, msg: Publishing{Message: amqp091.Publishing{Body: body}}}
	}
	m := pending()
	require.True(t, m.withdraw())
	_, ok := m.take(nil)
	require.False(t, ok)

	m = pending()
	_, ok = m.take(nil)
	require.True(t, ok)
	require.False(t, m.withdraw())
	copy(body, "....")
	require.Equal(t, "body", string(m.msg.Message.Body))
}

// TestProof goes through every transition of what is known.
func TestProof(t *testing.T) {
	var p proof
	require.True(t, p.covers(0), "an empty body is no larger than any")
	require.False(t, p.covers(1))
	p.taken(2)
	require.True(t, p.covers(2))
	require.False(t, p.covers(3))
	p.taken(1)
	require.True(t, p.covers(2), "a smaller one takes nothing back")
	p.learn(&delayer.Error{Kind: delayer.ErrUnknown, Cause: errors.New("EOF")})
	require.Zero(t, p.limit.Load())
	p.learn(&delayer.Error{Kind: delayer.ErrUnknown, Cause: plain(&amqp091.Error{
		Code: 406, Reason: "PRECONDITION_FAILED - message size 5 is larger than configured max size 4", Server: true,
	})})
	require.EqualValues(t, 4, p.limit.Load())

	p.reset()
	require.False(t, p.covers(1))
	require.Zero(t, p.limit.Load())
}
