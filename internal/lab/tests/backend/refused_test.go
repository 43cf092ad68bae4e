package backend_test

import (
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestPublish_RefusedByOneQueue: a nack says that one of several queues refuses the message.
// Another may have it.
func TestPublish_RefusedByOneQueue(t *testing.T) {
	t.Parallel()
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	d := rabbittest.Open(t, config(t))
	full := r.Queue("full", amqp091.Table{"x-max-length": int64(0), "x-overflow": "reject-publish"})
	good := r.Queue("good", nil)
	fanout := r.Exchange("fanout", "fanout", nil)
	r.Bind(full, "", fanout, nil)
	r.Bind(good, "", fanout, nil)
	in := r.Consume(good)

	for id, m := range map[string]delayer.Message{
		"fanout": {Exchange: fanout},
		"cc":     {Key: full, Publishing: amqp091.Publishing{Headers: amqp091.Table{"CC": []any{good}}}},
		"bcc":    {Key: full, Publishing: amqp091.Publishing{Headers: amqp091.Table{"BCC": []any{good}}}},
	} {
		m.Publishing.MessageId = id
		for how, publish := range map[string]func() error{
			"Publish":      func() error { return d.Publish(within(t), m.Exchange, m.Key, 0, m.Publishing) },
			"PublishBatch": func() error { return d.PublishBatch(within(t), []delayer.Message{m})[0] },
		} {
			err := publish()
			require.ErrorIs(t, err, delayer.ErrRefused)
			require.Equal(t, id, rabbittest.Next(t, in).MessageId, "the other queue has it")
			require.False(t, delayer.SafeToRetry(err), "%s %s: sent again it comes twice: %v", how, id, err)
			require.ErrorIs(t, err, delayer.ErrUnknown)
		}
	}
}
