package retry_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/retry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const url, queue = "amqp://guest:guest@localhost:5672/", "notifications"

// notify fails at first.
func notify(attempt int) error {
	if attempt < 3 {
		return errors.New("503 Service Unavailable")
	}
	return nil
}

// A worker whose messages come again after a second, and then after two.
func Example() {
	ctx, stop := context.WithCancel(context.Background()) // a service takes signal.NotifyContext
	defer stop()
	d, err := backend.Open(ctx, backend.Config{Options: delayer.Options{URL: url}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	err = retry.Consume(ctx, d, retry.Config{
		URL: url, Queue: queue,
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
