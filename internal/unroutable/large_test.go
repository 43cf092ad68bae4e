package unroutable

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/message"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
)

// TestHeadersLargerThanAFrame: the broker lets x-death grow beyond its own limit, and the connection of whoever consumes
// such a message is closed with 501. It is read here, not sent, and can be removed.
func TestHeadersLargerThanAFrame(t *testing.T) {
	c := filled(t, 1)
	conn, err := amqp091.Dial(rabbittest.Broker(t).URL())
	require.NoError(t, err)
	defer conn.Close() //nolint:errcheck // the test's end
	ch, err := conn.Channel()
	require.NoError(t, err)
	wait := c.Queue() + ".wait"
	require.NoError(t, ch.ExchangeDeclare(wait, "fanout", durable, !autoDelete, false, waitForAnswer, nil))
	defer func() {
		_ = ch.ExchangeDelete(wait, false, waitForAnswer)
		_, _ = ch.QueueDelete(wait, false, false, waitForAnswer)
	}()
	require.NoError(t, ch.QueueBind(c.Queue(), "", wait, waitForAnswer, nil))
	_, err = ch.QueueDeclare(wait, durable, !autoDelete, !exclusive, waitForAnswer, amqp091.Table{
		"x-message-ttl": int64(0), "x-dead-letter-exchange": wait,
	})
	require.NoError(t, err)
	var copies []any
	for i := range 200 {
		copies = append(copies, fmt.Sprintf("%0250d", i))
	}
	require.NoError(t, ch.PublishWithContext(t.Context(), "", wait, true, false, amqp091.Publishing{Headers: amqp091.Table{
		delayer.Header: message.Envelope{ID: "large", Due: time.Unix(0, 0), Exchange: "amq.topic"}.String(),
		"CC":           copies, "pad": strings.Repeat("x", 70<<10),
	}}))
	await(t, c, 2)
	s, err := c.Sender(t.Context())
	require.NoError(t, err)
	defer s.Close()
	r, total, err := c.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, total)
	var unfit []string
	for {
		m, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if m.Ours {
			unfit = append(unfit, s.unfit(m, time.Now()))
			require.NoError(t, m.Remove())
		}
	}
	r.Close()
	require.Len(t, unfit, 1)
	require.Contains(t, unfit[0], "larger than a frame")
	await(t, c, 1)
}
