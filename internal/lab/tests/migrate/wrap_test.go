package migrate_test

import (
	"math"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/xdelay"
)

// TestXDelay_BesideThePlugin holds what package xdelay says of the plugin. A message that the
// plugin delivers at once arrives before one that is published after it.
func TestXDelay_BesideThePlugin(t *testing.T) {
	const atOnce, later, fails = "at once", "later", "fails"
	c := newCrossing(t, topicOrFanout(t))
	deliveries := c.Consume(c.queue)
	recent := c.broker.Conn().From(3, 13) // the first with message containers
	either := func(before, since string) string {
		if recent {
			return since
		}
		return before
	}
	for name, x := range map[string]struct {
		value  any
		plugin string
		ours   any // a delay, or nil for an error
	}{
		"nil":            {nil, either(atOnce, fails), 0 * time.Second},
		"zero":           {int32(0), atOnce, 0 * time.Second},
		"negative":       {int32(-60_000), atOnce, 0 * time.Second},
		"int32":          {int32(60_000), later, time.Minute},
		"int64":          {int64(60_000), later, time.Minute},
		"int16":          {int16(30_000), later, 30 * time.Second},
		"longest":        {int64(math.MaxUint32), later, xdelay.Max},
		"above":          {int64(math.MaxUint32) + 1, atOnce, nil},
		"text":           {"60000", later, time.Minute},
		"signed text":    {"+60000", later, time.Minute},
		"negative text":  {"-60000", atOnce, 0 * time.Second},
		"text above":     {"4294967296", atOnce, nil},
		"words":          {"soon", fails, nil},
		"empty":          {"", fails, nil},
		"text fraction":  {"60000.5", fails, nil},
		"float":          {60_000.7, later, 60_001 * time.Millisecond},
		"float above":    {1e12, atOnce, nil},
		"negative float": {-0.5, atOnce, 0 * time.Second},
		"bytes":          {[]byte("60000"), either(atOnce, later), time.Minute},
		"bool":           {true, atOnce, nil},
		"time":           {time.Unix(1_700_000_000, 0), atOnce, nil},
	} {
		t.Run(name, func(t *testing.T) {
			delay, err := xdelay.Of(amqp091.Table{"x-delay": x.value})
			if x.ours == nil {
				assert.Error(t, err)
			} else {
				assert.NoError(t, err)
				assert.Equal(t, x.ours, delay)
			}
			ch := rabbittest.NewRig(t, c.Broker).Ch
			require.NoError(t, ch.Confirm(false))
			send := func(id string, headers amqp091.Table) bool {
				confirm, err := ch.PublishWithDeferredConfirm(c.name, "order.new", false, false, amqp091.Publishing{MessageId: id, Headers: headers})
				return err == nil && confirm.Wait()
			}
			if !send(name, amqp091.Table{"x-delay": x.value}) {
				assert.Equal(t, fails, x.plugin)
				return
			}
			require.True(t, send("sentinel", nil))
			first := rabbittest.Next(c, deliveries).MessageId
			if first == name {
				assert.Equal(t, "sentinel", rabbittest.Next(c, deliveries).MessageId)
				assert.Equal(t, atOnce, x.plugin)
				return
			}
			assert.Equal(t, "sentinel", first)
			assert.Equal(t, later, x.plugin)
		})
	}
}
