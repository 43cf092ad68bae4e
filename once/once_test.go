package once_test

import (
	"context"
	"errors"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/once"
)

var errFailed = errors.New("failed")

func TestID(t *testing.T) {
	sealed := amqp091.Table{delayer.Header: "abc1 1700000000000 1000 orders"}
	for name, c := range map[string]struct {
		d    amqp091.Delivery
		want string
	}{
		"its own":        {amqp091.Delivery{MessageId: "m", Headers: sealed}, "m"},
		"ours":           {amqp091.Delivery{Headers: sealed}, "x-delayer abc1"},
		"none":           {amqp091.Delivery{}, ""},
		"not a string":   {amqp091.Delivery{Headers: amqp091.Table{delayer.Header: 7}}, ""},
		"not understood": {amqp091.Delivery{Headers: amqp091.Table{delayer.Header: "abc"}}, ""},
	} {
		id, err := once.ID(c.d)
		assert.Equal(t, c.want, id, name)
		assert.Equal(t, c.want == "", errors.Is(err, once.ErrNoID), name)
	}
}

// store is one whose marks are in a map.
type store map[string]bool

func (s store) Do(ctx context.Context, id string, f func(context.Context, int) error) error {
	if s[id] {
		return nil
	}
	err := f(ctx, len(s))
	s[id] = err == nil
	return err
}

func TestHandler(t *testing.T) {
	runs, outcome := 0, errFailed
	h := once.Handler(store{}, func(context.Context, int, amqp091.Delivery) error {
		runs++
		return outcome
	})
	d := amqp091.Delivery{MessageId: "m"}
	require.ErrorIs(t, h(t.Context(), d), errFailed)
	outcome = nil
	require.NoError(t, h(t.Context(), d), "after a failure it runs again")
	require.NoError(t, h(t.Context(), d))
	assert.Equal(t, 2, runs)
	err := h(t.Context(), amqp091.Delivery{Exchange: "orders", RoutingKey: "paid"})
	require.ErrorIs(t, err, once.ErrNoID)
	require.ErrorContains(t, err, `from exchange "orders" with key "paid"`)
	require.ErrorContains(t, err, "set MessageId")
	assert.Equal(t, 2, runs)
}
