package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestRepairs_OncePerGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r repairs
		a, b := gap{"wait.01", 1}, gap{"wait.01", 2}
		require.True(t, r.due(a, time.Now()))
		require.True(t, r.due(b, time.Now()), "keys of another number of words need bindings of their own")
		require.False(t, r.due(a, time.Now()))
		time.Sleep(mendEvery)
		require.True(t, r.due(a, time.Now()))
	})
}

func TestLastQueue(t *testing.T) {
	require.Empty(t, lastQueue(nil))
	require.Empty(t, lastQueue(amqp091.Table{"x-death": "forged"}))
	require.Equal(t, "wait.01", lastQueue(amqp091.Table{"x-death": []any{
		amqp091.Table{"queue": "wait.01"}, amqp091.Table{"queue": "wait.03"},
	}}))
}
