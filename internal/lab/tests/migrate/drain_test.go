package migrate_test

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/migration/evacuate"
)

// TestDrain_Nodes ends once the plugin has delivered its last message, and knows when that is.
func TestDrain_Nodes(t *testing.T) {
	t.Parallel()
	d := newDelayed(t, topicOrFanout(t))
	const delay = 20 * time.Second
	d.publish("key", delay, amqp091.Publishing{})
	due := time.Now().Add(delay)
	j := evacuate.Job{Nodes: d.control, Vhost: "/", Exchanges: []string{d.exchange}}
	var states []evacuate.DrainState
	err := evacuate.Drain{
		Count:    j.Left,
		Progress: func(s evacuate.DrainState) { states = append(states, s) },
	}.Run(t.Context())
	require.NoError(t, err)
	assert.False(t, time.Now().Before(due), "it is not empty before")
	assert.Equal(t, 1, states[0].Rows)
	assert.WithinDuration(t, due, states[0].Latest, time.Minute)
	d.receive(d.Consume(d.queue), 1)
}

// TestInventory_Pending: the management API counts too.
func TestInventory_Pending(t *testing.T) {
	t.Parallel()
	d := newDelayed(t, "topic")
	d.publish("key", time.Hour, amqp091.Publishing{})
	pending, err := inventoryOf(t, management(t, d.Broker), "/").Pending(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, pending[d.exchange])
}
