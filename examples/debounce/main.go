// Command debounce indexes a document once it has not been edited for a while, however often it was
// edited before. Each edit sends a delayed message with the document's version. If the version is
// still the same when the message arrives, nobody has edited the document since.
//
//	DELAYER_URL=amqp://guest:guest@localhost:5672/ go run ./examples/debounce
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
)

const (
	queue = "example-debounce"
	quiet = 2 * time.Second // how long nobody may edit
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
	messages, err := consume(conn)
	if err != nil {
		return err
	}
	d, err := backend.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()

	doc := &document{}
	const edits = 5
	for range edits {
		if err := doc.edit(ctx, d); err != nil {
			return err
		}
	}
	for range edits {
		m := <-messages
		doc.settled(string(m.Body))
		if err := m.Ack(false); err != nil {
			return err
		}
	}
	return nil
}

// A document keeps its version in memory. A real one has it in a column of its row.
type document struct{ version int }

func (doc *document) edit(ctx context.Context, d delayer.Delayer) error {
	doc.version++
	fmt.Println("edited: version", doc.version)
	return d.Publish(ctx, "", queue, quiet, amqp091.Publishing{Body: []byte(strconv.Itoa(doc.version))})
}

// settled handles the message of an edit.
func (doc *document) settled(version string) {
	if version == strconv.Itoa(doc.version) {
		fmt.Println("indexed: version", version)
	}
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
