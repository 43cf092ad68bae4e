package broker

import (
	"errors"
	"fmt"
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
