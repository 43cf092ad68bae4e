package broker_test

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// TestValidate_LargestMessageIsConsumed sends messages with 60 keys in CC through 12 queues, each
// of which dead-letters by the next key in BCC. The largest that Validate accepts arrives, and one
// that is a little larger closes the consumer's connection.
func TestValidate_LargestMessageIsConsumed(t *testing.T) {
	t.Parallel()
	const hops = 12
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	p, c := open(t, r.Broker.URL(), noReset)
	end := r.Queue("end", nil)
	var levels []string
	var keys []any
	for hop := range hops + 1 {
		levels = append(levels, r.Exchange(fmt.Sprintf("level.%02d", hop), "direct", nil))
		keys = append(keys, fmt.Sprint("~", hop))
	}
	for hop := range hops {
		r.Declare(levels[hop], amqp091.Table{
			"x-message-ttl": int64(1), "x-dead-letter-exchange": levels[hop+1], "x-overflow": "reject-publish",
			"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once",
		})
		r.Bind(levels[hop], keys[hop].(string), levels[hop], nil)
	}
	r.Bind(end, keys[hops].(string), levels[hops], nil)

	frame, _, _ := c.Conn().Server()
	limits := message.Limits{FrameSize: frame, Growth: message.Growth{Hops: hops, Keys: hops, KeySize: len("12"), NameSize: len(levels[0])}}
	cc := make([]any, 60)
	for i := range cc {
		cc[i] = strings.Repeat("k", 100)
	}
	sized := func(n int) amqp091.Publishing {
		return amqp091.Publishing{Headers: amqp091.Table{"CC": cc, "filler": strings.Repeat("x", n)}}
	}
	largest := sort.Search(frame, func(n int) bool {
		msg := sized(n)
		return message.Validate("end", "key", &msg, limits) != nil
	}) - 1
	require.Positive(t, largest)
	arrives := func(n int) bool {
		msg := sealed("key", sized(n))
		msg.Exchange, msg.Message.Headers["BCC"] = levels[0], keys
		require.NoError(t, p.Publish(within(t), msg))
		conn, err := amqp091.Dial(r.Broker.URL())
		require.NoError(t, err)
		defer conn.Close() //nolint:errcheck // it may be closed
		ch, err := conn.Channel()
		require.NoError(t, err)
		in, err := ch.Consume(end, "", true, false, false, false, nil)
		require.NoError(t, err)
		_, ok := <-in
		return ok
	}
	require.True(t, arrives(largest), "the largest that is accepted")
	const near = 500
	require.False(t, arrives(largest+near), "the bound is close to what a consumer can read")
}
