// Package broker_test tests package broker on a real broker, and what is near it: packages
// amqpclient, brokertime, delivery, engine, objects, undelivered and rabbitworld. To start another
// broker for each would take longer.
package broker_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

const patience = rabbittest.Patience

const waitForAnswer = false

// within bounds a test's waiting; it is far longer than anything here takes.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func options(t testing.TB, url string) broker.Options {
	return broker.Options{URL: url, Name: t.Name(), Backend: "test", Logger: slog.New(slog.DiscardHandler)}
}

func open(t testing.TB, url string, onReset func()) (*broker.Publisher, *broker.Control) {
	t.Helper()
	o := options(t, url)
	publish, err := broker.Dial(within(t), o)
	require.NoError(t, err)
	p := broker.NewPublisher("test", onReset, publish)
	t.Cleanup(p.Close)
	conn, err := broker.Dial(within(t), o)
	require.NoError(t, err)
	c := broker.NewControl(conn)
	t.Cleanup(c.Close)
	return p, c
}

func declare(t testing.TB, c *broker.Control, args amqp091.Table) string {
	t.Helper()
	name := rabbittest.Prefix(t)
	require.NoError(t, c.Do(within(t), func(ch *amqp091.Channel) error {
		_, err := ch.QueueDeclare(name, true, false, false, false, args)
		return err
	}))
	t.Cleanup(func() {
		_ = c.Do(within(t), func(ch *amqp091.Channel) error {
			_, err := ch.QueueDelete(name, false, false, false)
			return err
		})
	})
	return name
}

func to(queue string) broker.Publishing {
	return broker.Publishing{Key: queue, Message: message.Seal(amqp091.Publishing{Body: []byte("x")}, message.NewEnvelope(time.Now(), 0, ""), nil)}
}
