package broker_test

import (
	"context"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestPublish_BrokerDown: who waits is told why when ctx ends, and who waits longer is served.
func TestPublish_BrokerDown(t *testing.T) {
	b := rabbittest.Alone(t)
	var log rabbittest.Logbook
	o := options(t, b.URL())
	o.Logger = log.Logger()
	p, c := openWith(t, o, noReset)
	queue := declare(t, c, nil)
	require.NoError(t, b.Stop(within(t)))

	err := p.Publish(short(t), to(queue))
	for !delayer.SafeToRetry(err) { // one that was on its way while the broker went is unknown
		require.ErrorIs(t, err, delayer.ErrUnknown)
		err = p.Publish(short(t), to(queue))
	}
	require.ErrorIs(t, err, delayer.ErrNotSent)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "while there is no connection: ")
	require.NotContains(t, err.Error(), "\n")

	err = c.Do(short(t), func(ch *amqp091.Channel) error { return ch.Qos(1, 0, false) })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "while there is no connection: ")

	published := make(chan error, 1)
	go func() { published <- p.Publish(within(t), to(queue)) }()
	require.NoError(t, b.Run(within(t)))
	require.NoError(t, <-published)
	require.NoError(t, c.Do(within(t), func(ch *amqp091.Channel) error { return ch.Qos(1, 0, false) }))
	require.Equal(t, 2, strings.Count(log.String(), "connection lost"), "one line for each connection:\n%s", &log)
	require.Equal(t, 2, strings.Count(log.String(), "connected again"))
	require.NotContains(t, log.String(), "channel lost")
}
