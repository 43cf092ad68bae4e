package satellites_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/retry"
)

// Where the example works.
var workURL, work string

// notify fails at first.
func notify(attempt int) error {
	if attempt < 3 {
		return errors.New("503 Service Unavailable")
	}
	return nil
}

// retryExample is that of package retry.
func retryExample() {
	ctx, stop := context.WithCancel(context.Background()) // a service takes signal.NotifyContext
	defer stop()
	d, err := backend.Open(ctx, backend.Config{Options: delayer.Options{URL: workURL}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	err = retry.Consume(ctx, d, retry.Config{
		URL: workURL, Queue: work,
		Policy: retry.Policy{Intervals: []time.Duration{time.Second, 2 * time.Second}},
	}, func(ctx context.Context, m amqp091.Delivery) error {
		attempt := retry.Info(ctx)
		if err := notify(attempt.Number); err != nil {
			return err
		}
		fmt.Printf("%s: sent at attempt %d of %d\n", m.Body, attempt.Number, attempt.Max)
		stop()
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// TestRetry_Example runs the example of package retry on a broker.
func TestRetry_Example(t *testing.T) {
	asShown(t, "retryExample", "retry", "Example", map[string]string{"workURL": "url", "work": "queue"})
	b := rabbittest.Broker(t)
	workURL, work = b.URL(), rabbittest.Prefix(t)
	ch := rabbittest.Channel(t, b)
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	_, err := ch.QueueDeclare(work, durable, autoDelete, exclusive, noWait, nil)
	require.NoError(t, err)
	require.NoError(t, ch.Publish("", work, true, false, amqp091.Publishing{Body: []byte("order 42")}))
	start := time.Now()
	retryExample()
	require.GreaterOrEqual(t, time.Since(start), 3*time.Second, "the third attempt is early")
	for _, name := range []string{work, work + ".parked"} {
		n, err := ch.QueueDelete(name, false, false, false)
		require.NoError(t, err, name)
		assert.Zero(t, n, "messages left in %s", name)
	}
	rabbittest.Remove(t, backend.Config{Options: delayer.Options{URL: workURL}})
}
