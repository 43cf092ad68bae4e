package broker

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

func TestClockTellsTheBrokersTime(t *testing.T) {
	b := rabbittest.Broker(t)
	_, control := open(t, b.URL(), func() {})
	exchange := rabbittest.Prefix(t)
	require.NoError(t, control.Do(within(t), func(ch *amqp091.Channel) error {
		return ch.ExchangeDeclare(exchange, "direct", true, false, false, false, nil)
	}))
	defer func() {
		_ = control.Do(within(t), func(ch *amqp091.Channel) error { return ch.ExchangeDelete(exchange, false, false) })
	}()
	conn, err := Dial(within(t), options(t, b.URL()))
	require.NoError(t, err)
	defer conn.Close()
	clock := NewClock(conn, exchange, exchange+".clock")
	first, err := clock.Now(within(t))
	require.NoError(t, err)
	if b.Owned() { // and so on this machine, with its clock
		require.False(t, first.After(time.Now()))
		require.WithinDuration(t, time.Now(), first, 3*time.Second)
	}
	second, err := clock.Now(within(t))
	require.NoError(t, err)
	require.False(t, second.Before(first))
	clock.at = clock.at.Add(-knownFor) // it is old: the broker is asked again
	third, err := clock.Now(within(t))
	require.NoError(t, err)
	require.False(t, third.Before(first))
	require.Zero(t, third.Nanosecond(), "fresh from the broker")
}

func TestClockWithoutItsExchangeSaysSo(t *testing.T) {
	conn, err := Dial(within(t), options(t, rabbittest.Broker(t).URL()))
	require.NoError(t, err)
	defer conn.Close()
	clock := NewClock(conn, rabbittest.Prefix(t), rabbittest.Prefix(t))
	_, err = clock.Now(within(t))
	require.ErrorContains(t, err, "NOT_FOUND")
	_, err = clock.Now(within(t))
	require.ErrorIs(t, err, errNoAnswer, "not asked again for a while")
}
