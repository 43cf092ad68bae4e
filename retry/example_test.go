package retry_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/retry"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

// url and queue are those of the examples.
var url, queue = "amqp://guest:guest@localhost:5672/", "notifications"

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

	err = retry.Consume(ctx, retry.Config{
		Delayer: d, URL: url, Queue: queue,
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

// A policy in one line, as an environment variable would have it.
func ExampleParsePolicy() {
	p, err := retry.ParsePolicy("first=1s, factor=2, cap=10m, jitter=0.2, max_attempts=12, max_age=1h")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.First, p.Factor, p.Cap, p.MaxAttempts)
	// Output: 1s 2 10m0s 12
}

// TestExample runs the example's code on a broker.
func TestExample(t *testing.T) {
	b := rabbittest.Broker(t)
	url, queue = b.URL(), rabbittest.Prefix(t)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ch := rabbittest.Channel(t, b)
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	if _, err := ch.QueueDeclare(queue, durable, autoDelete, exclusive, noWait, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Publish("", queue, true, false, amqp091.Publishing{Body: []byte("order 42")}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	Example()
	if took := time.Since(start); took < 3*time.Second {
		t.Errorf("the third attempt succeeded after %v, want 3s at least", took)
	}
	for _, name := range []string{queue, queue + ".parked"} {
		if n, err := ch.QueueDelete(name, false, false, false); err != nil || n != 0 {
			t.Errorf("queue %s: %d messages are left (%v)", name, n, err)
		}
	}
	d, err := backend.Open(t.Context(), backend.Config{Options: delayer.Options{URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.(delayer.TopologyRemover).RemoveTopology(t.Context()); err != nil {
		t.Fatal(err)
	}
}
