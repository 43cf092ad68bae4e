// Command expiry cancels orders that are not paid in time. Each order sends a message that arrives
// when its time is over. An order that was paid by then stays as it is.
//
//	DELAYER_URL=amqp://guest:guest@localhost:5672/ go run ./examples/expiry
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
)

const (
	queue     = "example-expiry"
	timeToPay = 2 * time.Second // 15 minutes, elsewhere
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	cfg, err := backend.FromEnv(backend.Config{}, os.Environ())
	if err != nil {
		return err
	}
	conn, err := amqp091.Dial(cfg.URL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	expired, err := consume(conn)
	if err != nil {
		return err
	}
	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()

	s := &shop{state: map[string]string{}, delayer: d}
	for _, id := range []string{"order 1", "order 2", "order 3"} {
		if err := s.place(ctx, id); err != nil {
			return err
		}
	}
	s.pay("order 2")
	for range 3 {
		m := <-expired
		s.expire(string(m.Body))
		if err := m.Ack(false); err != nil {
			return err
		}
	}
	return nil
}

// A shop keeps its orders in memory. For one with a database, which saves an order and its message
// in one transaction, see examples/notify.
type shop struct {
	delayer delayer.Delayer
	state   map[string]string
}

func (s *shop) place(ctx context.Context, id string) error {
	s.state[id] = "open"
	return s.delayer.Publish(ctx, "", queue, timeToPay, amqp091.Publishing{MessageId: id, Body: []byte(id)})
}

func (s *shop) pay(id string) { s.state[id] = "paid" }

// expire checks the state, so that a message that comes twice changes nothing.
func (s *shop) expire(id string) {
	if s.state[id] == "open" {
		s.state[id] = "expired"
	}
	fmt.Println(id, "is", s.state[id])
}

func consume(conn *amqp091.Connection) (<-chan amqp091.Delivery, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	const durable, autoDelete, exclusive, noWait, autoAck, noLocal = true, false, false, false, false, false
	if _, err := ch.QueueDeclare(queue, durable, autoDelete, exclusive, noWait, amqp091.Table{"x-queue-type": "quorum"}); err != nil {
		return nil, err
	}
	return ch.Consume(queue, "", autoAck, exclusive, noLocal, noWait, nil)
}
