package delivery

import (
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/message"
)

// FuzzKeysOfOneDestinationLeadToNoOther: whatever a message's names, keys and headers are, if they
// are accepted, then none of its own keys is one of ours, and the key that we give it is that of
// its destination alone.
func FuzzKeysOfOneDestinationLeadToNoOther(f *testing.F) {
	f.Add("orders", "a.b", "q", "c.c", "x", "orders")
	f.Add("", "queue", "xqueue", "", "", "queue")
	f.Add("", "~d:=", "~d:>0", "~d", "", "qorders")
	f.Add("x", "", "\x00", "a..b", "", "")
	f.Add("qorders", "xorders", "~", "d:=", "xorders", "orders")
	f.Fuzz(func(t *testing.T, exchange, key, cc, bcc, otherExchange, otherQueue string) {
		msg := amqp091.Publishing{Headers: amqp091.Table{"CC": []any{cc}, "BCC": []any{bcc}}}
		if message.Validate(exchange, key, &msg, message.Limits{FrameSize: 131072, MaxPriority: 255}) != nil {
			return
		}
		for _, own := range append(message.Copies(msg.Headers), key) {
			if strings.HasPrefix(own, message.Reserved) {
				t.Errorf("%q is accepted, and has the form of a key of ours", own)
			}
		}
		words := message.Words(key)
		mine := Key(exchange, queueOf(exchange, key), words)
		sealed := message.Seal(msg, message.Envelope{ID: "i", Exchange: exchange}, nil, mine)
		keys := sealed.Headers["BCC"].([]any)
		for _, k := range keys[:len(keys)-1] {
			if strings.HasPrefix(k.(string), message.Reserved) {
				t.Errorf("BCC has %q beside ours", k)
			}
		}
		if keys[len(keys)-1] != mine || !strings.HasPrefix(mine, message.Reserved) || len(mine) > 255 {
			t.Errorf("our key %q is not last in %q, or not ours", mine, keys)
		}
		same := otherExchange == exchange && (exchange != "" || otherQueue == key)
		if other := Key(otherExchange, queueOf(otherExchange, otherQueue), words); !same && other == mine {
			t.Errorf("%q %q and %q %q have one key %q", exchange, key, otherExchange, otherQueue, mine)
		}
	})
}
