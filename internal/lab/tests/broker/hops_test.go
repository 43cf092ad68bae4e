package broker_test

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/message"
)

// TestValidate_LargestMessageIsConsumed sends messages with 60 keys in CC through 12 queues: the
// largest that Validate accepts arrives, and one that is a little larger closes the consumer's
// connection.
func TestValidate_LargestMessageIsConsumed(t *testing.T) {
	t.Parallel()
	const hops = 12
	url := rabbittest.Broker(t).URL()
	p, c := open(t, url, noReset)
	chain := declareChain(t, c, hops)
	frame, _, _ := c.Conn().Server()
	limits := message.Limits{FrameSize: frame, Growth: message.Growth{Hops: hops, Keys: hops, KeySize: len("12"), NameSize: len(chain.wait(hops))}}

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

	chain.publish(t, p, sized(largest))
	require.Len(t, received(t, url, chain.end, 1), 1, "the largest that is accepted")
	const near = 400
	chain.publish(t, p, sized(largest+near))
	require.Empty(t, received(t, url, chain.end, 1), "the bound is close to what a consumer can read")
}

// A chain is queues that dead-letter to one exchange, each by the next key in BCC.
type chain struct {
	exchange, end string
	hops          int
}

func (c chain) wait(hop int) string { return fmt.Sprintf("%s.wait.%02d", c.exchange, hop) }

func declareChain(t *testing.T, c *broker.Control, hops int) chain {
	t.Helper()
	made := chain{exchange: rabbittest.Prefix(t), end: declare(t, c, nil), hops: hops}
	const durable, autoDelete, internal, exclusive = true, false, false, false
	level := func(hop int) string { return fmt.Sprintf("%s.level.%02d", made.exchange, hop) }
	require.NoError(t, c.Do(within(t), func(ch *amqp091.Channel) error {
		for hop := range hops + 1 {
			if err := ch.ExchangeDeclare(level(hop), "direct", durable, autoDelete, internal, waitForAnswer, nil); err != nil {
				return err
			}
			queue := made.wait(hop)
			if hop == hops {
				queue = made.end
			} else if _, err := ch.QueueDeclare(queue, durable, autoDelete, exclusive, waitForAnswer, amqp091.Table{
				"x-message-ttl": int64(1), "x-dead-letter-exchange": level(hop + 1), "x-overflow": "reject-publish",
				"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once",
			}); err != nil {
				return err
			}
			if err := ch.QueueBind(queue, fmt.Sprint("~", hop), level(hop), waitForAnswer, nil); err != nil {
				return err
			}
		}
		return nil
	}))
	t.Cleanup(func() {
		_ = c.Do(within(t), func(ch *amqp091.Channel) error {
			for hop := range hops + 1 {
				_, _ = ch.QueueDelete(made.wait(hop), false, false, waitForAnswer)
				_ = ch.ExchangeDelete(level(hop), false, waitForAnswer)
			}
			return nil
		})
	})
	return made
}

// publish sends msg through all hops.
func (c chain) publish(t *testing.T, p *broker.Publisher, msg amqp091.Publishing) {
	t.Helper()
	sent := sealed("key", msg)
	sent.Exchange = fmt.Sprintf("%s.level.%02d", c.exchange, 0)
	var keys []any
	for hop := range c.hops + 1 {
		keys = append(keys, fmt.Sprint("~", hop))
	}
	sent.Message.Headers["BCC"] = keys
	require.NoError(t, p.Publish(within(t), sent))
}
