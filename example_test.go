package delayer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/rabbit"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

// url is the broker's; orders is the exchange that the examples publish to.
var url, orders = "amqp://guest:guest@localhost:5672/", "orders"

// TestExamples runs the examples' code on a real broker: one that is only started when it is needed, which
// examples of their own could not ask for.
func TestExamples(t *testing.T) {
	url, orders = rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	t.Setenv("DELAYER_URL", url)
	conn, err := amqp091.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	const durable, autoDelete, exclusive, internal, noWait, autoAck, noLocal = true, true, true, true, true, true, true
	if err := ch.ExchangeDeclare(orders, "topic", durable, !autoDelete, !internal, !noWait, nil); err != nil {
		t.Fatal(err)
	}
	defer ch.ExchangeDelete(orders, false, false)
	q, err := ch.QueueDeclare(orders, durable, !autoDelete, !exclusive, !noWait, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ch.QueueDelete(q.Name, false, false, false)
	if err := ch.QueueBind(q.Name, "order.*", orders, !noWait, nil); err != nil {
		t.Fatal(err)
	}
	in, err := ch.Consume(q.Name, "", autoAck, !exclusive, !noLocal, !noWait, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, example := range []func(){Example, ExampleSafeToRetry} {
		start := time.Now()
		example()
		m := <-in
		if took := time.Since(start); took < delay || string(m.Body) != "order 42" || m.RoutingKey != "order.expired" {
			t.Errorf("%q came with key %s after %v, want order 42 with order.expired after %v", m.Body, m.RoutingKey, took, delay)
		}
	}
	d, err := backend.Open(context.Background(), backend.Config{Options: delayer.Options{URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.(delayer.TopologyRemover).RemoveTopology(context.Background()); err != nil {
		t.Fatal(err)
	}
}

const delay = 2 * time.Second

// A message that arrives later: where the code said ch.PublishWithContext, it says d.Publish with a delay.
func Example() {
	ctx := context.Background()
	d, err := backend.Open(ctx, backend.Config{Options: delayer.Options{URL: url}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	err = d.Publish(ctx, orders, "order.expired", delay, amqp091.Publishing{Body: []byte("order 42")})
	if err != nil {
		log.Fatal(err)
	}
}

// Publishing again after an error that leaves it open whether the message was stored may deliver it twice.
func ExampleSafeToRetry() {
	ctx := context.Background()
	d, err := backend.Open(ctx, backend.Config{Options: delayer.Options{URL: os.Getenv("DELAYER_URL")}})
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()

	for {
		err = d.Publish(ctx, orders, "order.expired", delay, amqp091.Publishing{Body: []byte("order 42")})
		if err == nil || !delayer.SafeToRetry(err) {
			break
		}
		fmt.Println("not stored, once more:", err)
	}
}
