package broker

import (
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestWithdraw: a caller either takes its message back, or the writer has a copy of all that it
// reads.
func TestWithdraw(t *testing.T) {
	body, header := []byte("body"), []byte("header")
	list := []any{"x", header, amqp091.Table{"n": int64(1), "bytes": header}}
	given := amqp091.Table{"list": list, "text": "t"}
	req := func() *request {
		return &request{copied: true, msg: Publishing{Message: amqp091.Publishing{Body: body, Headers: given}}}
	}
	r := req()
	require.True(t, r.withdraw())
	_, ok := r.take(nil)
	require.False(t, ok)

	r = req()
	_, ok = r.take(nil)
	require.True(t, ok)
	require.False(t, r.withdraw())
	copy(body, "....")
	copy(header, "......")
	require.Equal(t, "body", string(r.msg.Message.Body))
	require.Equal(t, amqp091.Table{
		"list": []any{"x", []byte("header"), amqp091.Table{"n": int64(1), "bytes": []byte("header")}}, "text": "t",
	}, r.msg.Message.Headers)
	require.Equal(t, "......", string(list[1].([]byte)), "the caller's headers stay as they are")
}
