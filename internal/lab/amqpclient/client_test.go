package amqpclient

import (
	"errors"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestClosing: a connection that the broker has closed is closed.
func TestClosing(t *testing.T) {
	require.NoError(t, closing(nil))
	require.NoError(t, closing(amqp091.ErrClosed))
	require.NoError(t, closing(&amqp091.Error{Code: amqp091.InternalError, Server: true}))
	late := errors.New("no answer")
	require.ErrorIs(t, closing(late), late)
	require.Error(t, closing(&amqp091.Error{Code: amqp091.FrameError}), "the client's")
}
