package broker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/amqpclient"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

const nobody = "amqp://guest:s3cret@127.0.0.1:1/" // no broker listens there

func TestDial_ErrorsWithoutPassword(t *testing.T) {
	t.Parallel()
	for url, kind := range map[string]error{
		nobody:                           delayer.ErrUnavailable,
		"amqp://guest:s3cret@host:port/": delayer.ErrConfig,
	} {
		_, err := amqpclient.Dial(t.Context(), url, "test")
		require.ErrorIs(t, err, kind)
		assert.NotContains(t, err.Error(), "s3cret")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := amqpclient.Dial(ctx, nobody, "test")
	require.ErrorIs(t, err, context.Canceled)
}

func client(t *testing.T, o amqpclient.Options) *amqpclient.Client {
	t.Helper()
	o.URLs, o.Name = append(o.URLs, rabbittest.Broker(t).URL()), t.Name()
	c, err := amqpclient.Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func TestOpen_NextURL(t *testing.T) {
	t.Parallel()
	_, err := amqpclient.Open(t.Context(), amqpclient.Options{URLs: []string{nobody}})
	require.ErrorIs(t, err, delayer.ErrUnavailable)
	client(t, amqpclient.Options{URLs: []string{nobody}})
}

func TestDo_Retry(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	refuse := func(tries *int) func(*amqp091.Channel) error {
		return func(*amqp091.Channel) error {
			if *tries++; *tries < 3 {
				return refused
			}
			return nil
		}
	}
	var once, again int
	require.ErrorIs(t, client(t, amqpclient.Options{}).Do(t.Context(), refuse(&once)), refused)
	assert.Equal(t, 1, once)

	everything := func(error) bool { return true }
	require.NoError(t, client(t, amqpclient.Options{Retry: everything}).Do(t.Context(), refuse(&again)))
	assert.Equal(t, 3, again)

	ctx, cancel := context.WithCancel(t.Context())
	err := client(t, amqpclient.Options{Retry: everything}).Do(ctx, func(*amqp091.Channel) error {
		cancel()
		return refused
	})
	require.ErrorIs(t, err, refused)
	require.ErrorIs(t, err, context.Canceled)
}

func TestConsume_QueueDeletedAndDeclaredAgain(t *testing.T) {
	t.Parallel()
	c, queue := client(t, amqpclient.Options{Retry: func(error) bool { return true }}), rabbittest.Prefix(t)
	arrived := make(chan string, 1)
	take := func(d amqp091.Delivery, _ time.Time) { arrived <- string(d.Body) }

	declareOn(t, c, queue)
	stop, err := c.Consume(t.Context(), queue, take)
	require.NoError(t, err)
	require.NoError(t, c.Do(t.Context(), func(ch *amqp091.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	}))
	declareOn(t, c, queue)
	send(t, c, queue, "taken")
	assert.Equal(t, "taken", <-arrived)

	stop()
	require.Eventually(t, func() bool { return consumers(t, c, queue) == 0 }, patience, 10*time.Millisecond)
	send(t, c, queue, "left")
	stop, err = c.Consume(t.Context(), queue, take)
	require.NoError(t, err)
	defer stop()
	assert.Equal(t, "left", <-arrived, "what arrived while nobody consumed")
}

func TestConsume_NoQueue(t *testing.T) {
	t.Parallel()
	_, err := client(t, amqpclient.Options{}).Consume(t.Context(), rabbittest.Prefix(t), nil)
	var refused *amqp091.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, amqp091.NotFound, refused.Code)
}

func declareOn(t *testing.T, c *amqpclient.Client, queue string) {
	t.Helper()
	require.NoError(t, c.Do(t.Context(), func(ch *amqp091.Channel) error {
		const durable, autoDelete, exclusive, noWait = true, false, false, false
		_, err := ch.QueueDeclare(queue, durable, autoDelete, exclusive, noWait, nil)
		return err
	}))
}

func send(t *testing.T, c *amqpclient.Client, queue, body string) {
	t.Helper()
	require.NoError(t, c.Do(t.Context(), func(ch *amqp091.Channel) error {
		const mandatory, immediate = true, false
		return ch.PublishWithContext(t.Context(), "", queue, mandatory, immediate, amqp091.Publishing{Body: []byte(body)})
	}))
}

func consumers(t *testing.T, c *amqpclient.Client, queue string) (n int) {
	t.Helper()
	require.NoError(t, c.Do(t.Context(), func(ch *amqp091.Channel) error {
		const durable, autoDelete, exclusive, noWait = true, false, false, false
		q, err := ch.QueueDeclarePassive(queue, durable, autoDelete, exclusive, noWait, nil)
		n = q.Consumers
		return err
	}))
	return n
}
