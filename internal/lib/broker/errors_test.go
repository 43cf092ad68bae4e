package broker

import (
	"errors"
	"fmt"
	"io"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// TestAbsent: a queue whose node is down is not one that does not exist.
func TestAbsent(t *testing.T) {
	for reason, absent := range map[string]bool{
		"NOT_FOUND - home node 'rabbit@a' of durable queue 'q' in vhost '/' is down or inaccessible": true,
		"NOT_FOUND - queue 'q' in vhost '/' process is stopped by supervisor":                        true,
		"NOT_FOUND - failed to perform operation on queue 'q' in vhost '/' due to timeout":           true,
		"NOT_FOUND - no queue 'q' in vhost '/'":                                                      false,
		"NOT_FOUND - no exchange 'x' in vhost '/'":                                                   false,
	} {
		err := fmt.Errorf("wrapped: %w", &amqp091.Error{Code: amqp091.NotFound, Server: true, Reason: reason})
		require.Equal(t, absent, Absent(err), reason)
		require.Equal(t, !absent, Code(err) == amqp091.NotFound, reason)
		explained := Explain("declare", "", "queue q", err)
		require.Equal(t, absent, errors.Is(explained, delayer.ErrUnavailable), reason)
		require.Equal(t, !absent, errors.Is(explained, delayer.ErrUnroutable), reason)
	}
	require.False(t, Absent(errors.New("x")))
}

// TestLimited: what is one too many is neither a conflict nor a missing vhost.
func TestLimited(t *testing.T) {
	for reason, code := range map[string]int{
		"PRECONDITION_FAILED - cannot declare queue 'q': queue limit in vhost '/' (5) is reached":                    amqp091.PreconditionFailed,
		"PRECONDITION_FAILED - cannot declare queue 'q': queue limit in cluster (5) is reached":                      amqp091.PreconditionFailed,
		"PRECONDITION_FAILED - cannot declare exchange 'x' in vhost '/': exchange limit of 5 is reached":             amqp091.PreconditionFailed,
		"NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (1) is reached":                amqp091.NotAllowed,
		"NOT_ALLOWED - connection refused for user 'guest': user connection limit (1) is reached":                    amqp091.NotAllowed,
		"NOT_ALLOWED - connection refused for user 'guest': user connection limit 1 is reached":                      amqp091.NotAllowed,
		"NOT_ALLOWED - number of channels opened for user 'guest' has reached the maximum allowed user limit of (1)": amqp091.NotAllowed,
	} {
		err := fmt.Errorf("wrapped: %w", &amqp091.Error{Code: code, Server: true, Reason: reason})
		explained := Explain("declare", "", "queue q", err)
		require.ErrorIs(t, explained, delayer.ErrUnavailable, reason)
		require.ErrorContains(t, explained, "limit", reason)
		require.False(t, permanent(err), reason)
	}
	other := &amqp091.Error{
		Code: amqp091.PreconditionFailed, Server: true,
		Reason: "PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'queue limit' in vhost '/': received none but current is the value '5' of type 'long'",
	}
	require.ErrorIs(t, Explain("declare", "", "queue q", other), delayer.ErrConflict)
}

// TestConnectionLost: what the broker answers when it closes the connection concerns no call of it.
// The call is made again.
func TestConnectionLost(t *testing.T) {
	server := func(code int) error { return fmt.Errorf("wrapped: %w", &amqp091.Error{Code: code, Server: true}) }
	for err, lost := range map[error]bool{
		server(amqp091.ConnectionForced):   true,
		server(amqp091.InternalError):      true,
		server(amqp091.ChannelError):       true, // another channel of it was written to while the broker closed that
		server(amqp091.NotFound):           false,
		server(amqp091.PreconditionFailed): false,
		server(amqp091.NotAllowed):         false,
		amqp091.ErrClosed:                  true,
		io.EOF:                             true,
		errors.New("x"):                    false,
	} {
		require.Equal(t, lost, connectionLost(err), "%v", err)
	}
}
