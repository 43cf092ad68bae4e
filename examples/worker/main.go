// Command worker handles the messages of a queue until it is interrupted. A message that fails
// comes again after 3 s, then after 10 s, and is then parked. It serves metrics. docs/start.md
// shows it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/metrics"
	"github.com/delayer-go/delayer/retry"
)

const queue = "jobs"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	cfg, err := backend.FromEnv(backend.Config{}, os.Environ()) // DELAYER_URL, and any other key
	if err != nil {
		return err
	}
	cfg.Observer = serveMetrics()
	if err := declare(cfg.URL); err != nil {
		return err
	}
	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return retry.Consume(ctx, d, retry.Config{
		URL: cfg.URL, Queue: queue, Observer: cfg.Observer,
		Policy: retry.Policy{Intervals: []time.Duration{3 * time.Second, 10 * time.Second}},
	}, handle)
}

// handle fails at first, and always if the body is "bad".
func handle(ctx context.Context, m amqp091.Delivery) error {
	attempt := retry.Info(ctx)
	fmt.Printf("%s: attempt %d of %d\n", m.Body, attempt.Number, attempt.Max)
	if attempt.Number == 1 || string(m.Body) == "bad" {
		return errors.New("503 Service Unavailable")
	}
	return nil
}

// serveMetrics serves metrics for Prometheus at localhost:2112/metrics, and returns their Observer.
func serveMetrics() delayer.Observer {
	m := metrics.New()
	prometheus.MustRegister(m)
	http.Handle("/metrics", promhttp.Handler())
	go func() { log.Fatal(http.ListenAndServe("localhost:2112", nil)) }()
	return m.Observer()
}

// declare declares the queue. A service has its own by then.
func declare(url string) error {
	conn, err := amqp091.Dial(url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	_, err = ch.QueueDeclare(queue, durable, autoDelete, exclusive, noWait, amqp091.Table{"x-queue-type": "quorum"})
	return err
}
