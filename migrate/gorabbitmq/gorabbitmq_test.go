package gorabbitmq_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/migrate/gorabbitmq"
)

// d is what backend.Open returns; this one prints.
var d delayer.Delayer = printer{}

// A service publishes as before, and the header becomes the delay.
func ExampleWrap() {
	publisher := gorabbitmq.Wrap(d)
	err := publisher.Publish([]byte("order 7 has not been paid"), []string{"order.expired"},
		rabbitmq.WithPublishOptionsExchange("orders"),
		rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table{"x-delay": 1_800_000, "order": "o-7"}))
	if err != nil {
		log.Fatal(err)
	}
	// Output: to orders with key order.expired in 30m0s: order 7 has not been paid, map[order:o-7]
}

type printer struct{ delayer.Delayer }

func (printer) Publish(_ context.Context, exchange, key string, delay time.Duration, msg amqp091.Publishing) error {
	fmt.Printf("to %s with key %s in %v: %s, %v\n", exchange, key, delay, msg.Body, msg.Headers)
	return nil
}

// failing fails for the key "bad".
type failing struct{ delayer.Delayer }

func (failing) Publish(_ context.Context, _, key string, _ time.Duration, _ amqp091.Publishing) error {
	if key == "bad" {
		return &delayer.Error{Op: "publish", Object: key, Kind: delayer.ErrRefused}
	}
	return nil
}

func TestPublisher_Errors(t *testing.T) {
	p := gorabbitmq.Wrap(failing{})
	err := p.PublishWithContext(t.Context(), nil, []string{"k"},
		rabbitmq.WithPublishOptionsHeaders(rabbitmq.Table{"x-delay": "soon"}))
	require.ErrorIs(t, err, delayer.ErrInvalid)
	assert.ErrorContains(t, err, `"soon"`)

	err = p.PublishWithContext(t.Context(), nil, []string{"k"}, rabbitmq.WithPublishOptionsMandatory)
	require.ErrorIs(t, err, delayer.ErrInvalid)

	err = p.Publish(nil, []string{"good", "bad"})
	var keys *gorabbitmq.KeysError
	require.ErrorAs(t, err, &keys)
	assert.Equal(t, []string{"good"}, keys.Stored)
	assert.False(t, delayer.SafeToRetry(err))
}
