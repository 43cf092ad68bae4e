package topology

import (
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
)

func TestAPlanInPrint(t *testing.T) {
	p := Plan{
		Markers:   []Exchange{{Name: "p", Kind: "fanout", Alternate: "p:1s"}},
		Exchanges: []Exchange{{Name: "p.in", Kind: "direct"}, {Name: "p.gate", Kind: "direct", Alternate: "p.in", AutoDelete: true}},
		Queues: []Queue{{Name: "p.wait", Args: amqp091.Table{
			"x-queue-type": "classic", "x-message-ttl": int64(1000), "x-overflow": "reject-publish", "x-dead-letter-exchange": "p.in",
		}}},
		Bindings: []Binding{{Source: "p.in", Key: "a>b", Target: "p.wait"}, {Source: "p.in", Target: "p", ToExchange: true}},
	}
	var text, definitions strings.Builder
	require.NoError(t, p.WriteText(&text))
	require.Equal(t, `exchange  p  fanout  alternate-exchange=p:1s
exchange  p.in  direct
exchange  p.gate  direct  auto_delete  alternate-exchange=p.in
queue     p.wait  x-dead-letter-exchange=p.in  x-message-ttl=1000  x-overflow=reject-publish  x-queue-type=classic
binding   p.in -> queue p.wait  "a>b"
binding   p.in -> exchange p  ""
`, text.String())
	require.NoError(t, p.WriteDefinitions(&definitions, "/v"))
	require.JSONEq(t, `{
		"exchanges": [
			{"name": "p", "vhost": "/v", "type": "fanout", "durable": true, "auto_delete": false, "internal": false, "arguments": {"alternate-exchange": "p:1s"}},
			{"name": "p.in", "vhost": "/v", "type": "direct", "durable": true, "auto_delete": false, "internal": false, "arguments": {}},
			{"name": "p.gate", "vhost": "/v", "type": "direct", "durable": true, "auto_delete": true, "internal": false, "arguments": {"alternate-exchange": "p.in"}}
		],
		"queues": [
			{"name": "p.wait", "vhost": "/v", "durable": true, "auto_delete": false,
			 "arguments": {"x-queue-type": "classic", "x-message-ttl": 1000, "x-overflow": "reject-publish", "x-dead-letter-exchange": "p.in"}}
		],
		"bindings": [
			{"source": "p.in", "vhost": "/v", "destination": "p.wait", "destination_type": "queue", "routing_key": "a>b", "arguments": {}},
			{"source": "p.in", "vhost": "/v", "destination": "p", "destination_type": "exchange", "routing_key": "", "arguments": {}}
		]}`, definitions.String())
}
