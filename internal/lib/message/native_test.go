package message

import (
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

// TestNativeDelay: a time that has passed by the broker's own clock is removed, any other refused.
func TestNativeDelay(t *testing.T) {
	due := time.Now().Truncate(time.Second).Add(700 * time.Millisecond)
	died := func(at time.Time) amqp091.Table {
		return amqp091.Table{NativeDelay: due.UnixMilli(), "x-death": []any{amqp091.Table{"reason": "expired", "time": at}}}
	}
	for name, c := range map[string]struct {
		headers amqp091.Table
		valid   bool
	}{
		"delivered":                      {died(due.Truncate(time.Second)), true}, // in whole seconds
		"delivered late":                 {died(due.Add(time.Hour)), true},
		"set after a delivery":           {died(due.Add(-time.Second)), false},
		"never delivered":                {amqp091.Table{NativeDelay: due.UnixMilli()}, false},
		"never delivered, and it passed": {amqp091.Table{NativeDelay: due.Add(-time.Hour).UnixMilli()}, false},
		"a text":                         {amqp091.Table{NativeDelay: "5"}, false},
	} {
		msg := amqp091.Publishing{Headers: c.headers}
		err := Validate("", "q", &msg, Limits{})
		if !c.valid {
			require.ErrorContains(t, err, "would delay the message in each queue", name)
			continue
		}
		require.NoError(t, err, name)
		require.NotContains(t, Seal(msg, Envelope{ID: "x"}, nil).Headers, NativeDelay, name)
	}
}
