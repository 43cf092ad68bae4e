package delayertest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/delayertest"
)

// The conformance suite runs on it in package conformance. Here is what a test can do beside.

func text(s string) amqp091.Publishing { return amqp091.Publishing{Body: []byte(s)} }

func bodies(deliveries []amqp091.Delivery) (list []string) {
	for _, m := range deliveries {
		list = append(list, string(m.Body))
	}
	return list
}

func TestAdvance_Order(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	start := d.Now()
	for i, delay := range []time.Duration{3, 1, 2, 1, 0} {
		require.NoError(t, d.Publish(t.Context(), "", "q", delay*time.Second, text(fmt.Sprint(i))))
	}
	assert.Empty(t, d.Published()[4].Delay)
	assert.Equal(t, []string{"4"}, bodies(d.Advance(0)))
	assert.Equal(t, []string{"1", "3", "2"}, bodies(d.Advance(2500*time.Millisecond)))
	require.Len(t, d.Waiting(), 1)
	assert.Equal(t, 500*time.Millisecond, d.Waiting()[0].Delay)
	assert.Equal(t, []string{"0"}, bodies(d.Advance(time.Hour)))
	assert.Equal(t, start.Add(time.Hour+2500*time.Millisecond), d.Now())
	assert.Len(t, d.Published(), 5)
	assert.Panics(t, func() { d.Advance(-1) })
}

func TestFailNext(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	d.FailNext(nil, delayer.ErrRefused, delayer.ErrUnknown)
	messages := []delayer.Message{{Key: "a"}, {Exchange: "x", Key: "b", Delay: time.Second}, {Key: "c"}, {Key: "d"}}
	results := d.PublishBatch(t.Context(), messages)
	assert.NoError(t, results[0])
	assert.EqualError(t, results[1], `delayer: publish delayertest to exchange "x" with key "b": refused by the broker`)
	assert.True(t, delayer.SafeToRetry(results[1]))
	assert.ErrorIs(t, results[2], delayer.ErrUnknown)
	assert.False(t, delayer.SafeToRetry(results[2]))
	assert.NoError(t, results[3])
	assert.Equal(t, []delayer.Message{messages[0], messages[2], messages[3]}, d.Published())

	d.FailNext(delayer.ErrRefused)
	err := d.Publish(t.Context(), "x", "b", 0, text("x"))
	assert.EqualError(t, err, `delayer: publish delayertest to exchange "x" with key "b": refused by the broker: nack: outcome unknown`)
	assert.False(t, delayer.SafeToRetry(err), "without a delay another queue of the exchange may have it")
	assert.Len(t, d.Published(), 3)

	d.FailNext(delayer.ErrUnknown, delayer.ErrNotSent, delayer.ErrUnknown, delayer.ErrUnknown)
	ticket, err := d.Schedule(t.Context(), delayer.Message{Key: "q", Delay: time.Hour, Publishing: text("x")})
	require.ErrorIs(t, err, delayer.ErrUnknown)
	require.NotEmpty(t, ticket)
	assert.ErrorIs(t, d.Cancel(t.Context(), ticket), delayer.ErrNotSent)
	later, err := d.Postpone(t.Context(), ticket, 2*time.Hour)
	assert.ErrorIs(t, err, delayer.ErrUnknown)
	assert.Empty(t, later)
	assert.Equal(t, 2*time.Hour, d.Waiting()[len(d.Waiting())-1].Delay)
	assert.ErrorIs(t, d.Cancel(t.Context(), ticket), delayer.ErrUnknown)
	assert.Len(t, d.Waiting(), 3)
	assert.NoError(t, d.Cancel(t.Context(), ticket))
}

// TestFailNext_Refused: a call that sends nothing uses no answer up.
func TestFailNext_Refused(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	d.FailNext(delayer.ErrAccess)
	assert.ErrorIs(t, d.Publish(t.Context(), "", "q", -1, text("x")), delayer.ErrOutOfRange)
	assert.ErrorIs(t, d.Publish(t.Context(), "", "", 0, text("x")), delayer.ErrInvalid)
	assert.ErrorIs(t, d.Cancel(t.Context(), "no ticket"), delayer.ErrTicket)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := d.Publish(ended, "", "q", 0, text("x"))
	assert.ErrorIs(t, err, delayer.ErrNotSent)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorIs(t, d.Publish(t.Context(), "", "q", 0, text("x")), delayer.ErrAccess)
	assert.Empty(t, d.Published())
}

// TestID: the ticket of an id and a due time counts before there is a message, and after ErrUnknown
// the message is scheduled again.
func TestID(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
	due := d.Now().Add(time.Hour)
	order := func(id string) (delayer.Message, delayer.Ticket) {
		ticket, err := d.Ticket(id, due)
		require.NoError(t, err)
		return delayer.Message{Key: id, ID: id, Due: due}, ticket
	}
	m, ticket := order("twice")
	d.FailNext(delayer.ErrUnknown)
	got, err := d.Schedule(t.Context(), m)
	require.ErrorIs(t, err, delayer.ErrUnknown)
	assert.Equal(t, ticket, got)
	got, err = d.Schedule(t.Context(), m)
	require.NoError(t, err)
	assert.Equal(t, ticket, got)
	assert.Equal(t, []delayer.Message{m}, d.Published())

	m, ticket = order("cancelled before")
	require.NoError(t, d.Cancel(t.Context(), ticket))
	_, err = d.Schedule(t.Context(), m)
	require.NoError(t, err)

	m, ticket = order("postponed before")
	_, err = d.Postpone(t.Context(), ticket, 2*time.Hour)
	require.NoError(t, err)
	_, err = d.Schedule(t.Context(), m)
	require.NoError(t, err)

	keys := func(list []amqp091.Delivery) (keys []string) {
		for _, m := range list {
			keys = append(keys, m.RoutingKey)
		}
		return keys
	}
	assert.Equal(t, []string{"twice"}, keys(d.Advance(time.Hour+time.Millisecond)))
	assert.Equal(t, []string{"postponed before"}, keys(d.Advance(time.Hour)))
}
