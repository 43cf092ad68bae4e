package satellites_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	rabbitmq "github.com/wagslane/go-rabbitmq"

	"github.com/delayer-go/delayer/gorabbitmq"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/retry"
)

// quiet is a logger for go-rabbitmq that says nothing.
type quiet struct{}

func (quiet) Fatalf(string, ...any) {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Infof(string, ...any)  {}
func (quiet) Debugf(string, ...any) {}

func TestGoRabbitMQ(t *testing.T) {
	t.Parallel()
	s := newService(t, ladder())
	s.cfg.Policy.Intervals = []time.Duration{short}
	r, err := retry.Open(t.Context(), s.d, s.cfg)
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.Close()) }()
	conn, err := rabbitmq.NewConn(s.cfg.URL, rabbitmq.WithConnectionOptionsLogger(quiet{}))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	consumer, err := rabbitmq.NewConsumer(conn, s.cfg.Queue,
		rabbitmq.WithConsumerOptionsQueueNoDeclare, rabbitmq.WithConsumerOptionsLogger(quiet{}))
	require.NoError(t, err)
	defer consumer.Close()

	calls := make(chan call, 100)
	seen := map[string]int{}
	handler := gorabbitmq.RetryHandler(context.WithoutCancel(t.Context()), r, func(d rabbitmq.Delivery) rabbitmq.Action {
		calls <- call{at: time.Now(), d: d.Delivery}
		switch seen[d.MessageId]++; d.MessageId {
		case "discard":
			return rabbitmq.NackDiscard
		case "manual":
			return rabbitmq.Manual
		case "requeue":
			if seen[d.MessageId] == 1 {
				return rabbitmq.NackRequeue
			}
		}
		return rabbitmq.Ack
	})
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(handler) }()

	s.publish("requeue", nil)
	first, again := rabbittest.Next(t, calls), rabbittest.Next(t, calls)
	assert.GreaterOrEqual(t, again.at.Sub(first.at), short)
	assert.Equal(t, visible(first.d), visible(again.d))
	s.publish("discard", nil)
	d, state := s.parked()
	assert.Equal(t, "discard", d.MessageId)
	assert.Equal(t, "the error is permanent", state.Reason)
	rabbittest.Next(t, calls)
	s.publish("manual", nil)
	d, state = s.parked()
	assert.Equal(t, "manual", d.MessageId)
	assert.Contains(t, state.LastError(), "Manual")
}
