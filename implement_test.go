package delayer_test

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

func TestPublishEach(t *testing.T) {
	var sent []delayer.Message
	publish := func(_ context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
		sent = append(sent, delayer.Message{Exchange: exchange, Key: key, Delay: delay, Publishing: msg})
		return map[string]error{"b": delayer.ErrRefused}[key]
	}
	messages := []delayer.Message{{Key: "a", Delay: time.Second}, {Exchange: "x", Key: "b"}, {Key: "c"}}
	require.Equal(t, []error{nil, delayer.ErrRefused, nil}, delayer.PublishEach(t.Context(), publish, messages))
	require.Equal(t, messages, sent)
	require.Empty(t, delayer.PublishEach(t.Context(), publish, nil))
	for _, m := range []delayer.Message{{Key: "a", ID: "id"}, {Key: "a", Due: time.Now()}} {
		err := delayer.PublishEach(t.Context(), publish, []delayer.Message{m})[0]
		require.ErrorIs(t, err, delayer.ErrInvalid)
		require.EqualError(t, err, `delayer: publish to queue "a": invalid message: a message of a batch has no ID and no Due (use Schedule)`)
	}
	require.Len(t, sent, len(messages))
}

func TestNoTickets(t *testing.T) {
	r := delayer.NoTickets{Backend: "mine"}
	scheduled, err := r.Schedule(t.Context(), delayer.Message{Key: "queue", Delay: time.Minute})
	require.Empty(t, scheduled)
	require.EqualError(t, err, "delayer: schedule mine: unsupported operation: its messages cannot be cancelled (use backend controller with wheel slots, its default)")
	postponed, again := r.Postpone(t.Context(), "ticket", time.Minute)
	require.Empty(t, postponed)
	named, none := r.Ticket("id", time.Now())
	require.Empty(t, named)
	for _, err := range []error{err, again, none, r.Cancel(t.Context(), "ticket")} {
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.True(t, delayer.SafeToRetry(err), "nothing was sent")
	}
}
