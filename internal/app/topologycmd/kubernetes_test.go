package topologycmd

import (
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/delayer-go/delayer/topology"
)

// TestWriteKubernetes: version 1.20 of the operator's CustomResourceDefinitions has these fields.
func TestWriteKubernetes(t *testing.T) {
	p := topology.Plan{
		Exchanges: []topology.Exchange{{Name: "p.in", Kind: topology.Direct, Alternate: "p.unroutable"}},
		Queues: []topology.Queue{{Name: "p.wait.1m", Args: amqp091.Table{
			"x-queue-type": "quorum", "x-message-ttl": int64(60_000), "x-dead-letter-exchange": "p.in",
		}}},
		Bindings: []topology.Binding{{Source: "p.in", Key: `a: "b" >#`, Target: "p.wait.1m"}},
	}
	var text strings.Builder
	require.NoError(t, writeKubernetes(&text, p, "/v", "rabbit", "messaging"))
	require.Equal(t, `apiVersion: rabbitmq.com/v1beta1
kind: Exchange
metadata:
    name: p.in
    namespace: messaging
spec:
    name: p.in
    vhost: /v
    type: direct
    durable: true
    arguments:
        alternate-exchange: p.unroutable
    rabbitmqClusterReference:
        name: rabbit
---
apiVersion: rabbitmq.com/v1beta1
kind: Queue
metadata:
    name: p.wait.1m
    namespace: messaging
spec:
    name: p.wait.1m
    vhost: /v
    type: quorum
    durable: true
    deletionPolicy: retain
    arguments:
        x-dead-letter-exchange: p.in
        x-message-ttl: 60000
        x-queue-type: quorum
    rabbitmqClusterReference:
        name: rabbit
---
apiVersion: rabbitmq.com/v1beta1
kind: Binding
metadata:
    name: `+bindingName(p.Bindings[0])+`
    namespace: messaging
spec:
    vhost: /v
    source: p.in
    destination: p.wait.1m
    destinationType: queue
    routingKey: 'a: "b" >#'
    rabbitmqClusterReference:
        name: rabbit
`, text.String())
}

func TestResourceName(t *testing.T) {
	require.Equal(t, "delayer.ladder.wait.1m", resourceName("delayer.ladder.wait.1m"))
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.StringMatching(`[A-Za-z.:_-]{1,255}`).Draw(t, "b")
		for _, name := range []string{
			resourceName(a), resourceName(b), bindingName(topology.Binding{Source: a}), bindingName(topology.Binding{Source: b}),
		} {
			if !subdomain.MatchString(name) || len(name) > 253 {
				t.Fatalf("%q is no name of Kubernetes", name)
			}
		}
		if a != b && resourceName(a) == resourceName(b) {
			t.Fatalf("%q and %q become the same", a, b)
		}
	})
}
