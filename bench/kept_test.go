package bench

import (
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestWhatIsKeptIsCounted(t *testing.T) {
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	s := &trial{env: Env{URL: rabbittest.Broker(t).URL(), Prefix: rabbittest.Prefix(t)}}
	assert.Zero(t, s.kept(t.Context()), "no such queue")
	conn, err := amqp091.Dial(s.env.URL)
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the test is over
	ch, err := conn.Channel()
	require.NoError(t, err)
	require.NoError(t, ch.Confirm(noWait))
	q, err := ch.QueueDeclare(s.env.Prefix+".unroutable", durable, autoDelete, exclusive, noWait, nil)
	require.NoError(t, err)
	defer ch.QueueDelete(q.Name, false, false, noWait) //nolint:errcheck // the test is over
	confirm, err := ch.PublishWithDeferredConfirm("", q.Name, true, false, amqp091.Publishing{})
	require.NoError(t, err)
	require.True(t, confirm.Wait())
	assert.Equal(t, 1, s.kept(t.Context()))
}
