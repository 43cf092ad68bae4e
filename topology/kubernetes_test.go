package topology

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

// A resource has the fields that version 1.20 of the operator's CustomResourceDefinitions knows of
// queues, exchanges and bindings. An unknown field is an error.
type resource struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"metadata"`
	Spec yaml.Node `yaml:"spec"`
}

type reference struct {
	Name      string `yaml:"name"`
	Namespace string `yaml:"namespace"`
}

type queueSpec struct {
	Name           string         `yaml:"name"`
	Vhost          string         `yaml:"vhost"`
	Type           string         `yaml:"type"`
	Durable        bool           `yaml:"durable"`
	AutoDelete     bool           `yaml:"autoDelete"`
	DeleteIfEmpty  bool           `yaml:"deleteIfEmpty"`
	DeleteIfUnused bool           `yaml:"deleteIfUnused"`
	DeletionPolicy string         `yaml:"deletionPolicy"`
	Arguments      map[string]any `yaml:"arguments"`
	Cluster        reference      `yaml:"rabbitmqClusterReference"`
}

type exchangeSpec struct {
	Name       string         `yaml:"name"`
	Vhost      string         `yaml:"vhost"`
	Type       string         `yaml:"type"`
	Durable    bool           `yaml:"durable"`
	AutoDelete bool           `yaml:"autoDelete"`
	Arguments  map[string]any `yaml:"arguments"`
	Cluster    reference      `yaml:"rabbitmqClusterReference"`
}

type bindingSpec struct {
	Vhost       string         `yaml:"vhost"`
	Source      string         `yaml:"source"`
	Destination string         `yaml:"destination"`
	Kind        string         `yaml:"destinationType"`
	Key         string         `yaml:"routingKey"`
	Arguments   map[string]any `yaml:"arguments"`
	Cluster     reference      `yaml:"rabbitmqClusterReference"`
}

// subdomain is RFC 1123's, as Kubernetes checks names.
var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// read checks each document against the schemas, and returns the plan that they describe.
func read(t *testing.T, text string, c Cluster) Plan {
	t.Helper()
	var p Plan
	names := map[string]bool{}
	for dec := yaml.NewDecoder(strings.NewReader(text)); ; {
		dec.KnownFields(true)
		var r resource
		err := dec.Decode(&r)
		if errors.Is(err, io.EOF) {
			return p
		}
		require.NoError(t, err)
		require.Equal(t, "rabbitmq.com/v1beta1", r.APIVersion)
		require.Equal(t, c.Namespace, r.Metadata.Namespace)
		require.Regexp(t, subdomain, r.Metadata.Name)
		require.LessOrEqual(t, len(r.Metadata.Name), 253)
		require.False(t, names[r.Kind+r.Metadata.Name], "two %s %s", r.Kind, r.Metadata.Name)
		names[r.Kind+r.Metadata.Name] = true
		spec, err := yaml.Marshal(&r.Spec)
		require.NoError(t, err)
		p = p.Add(readSpec(t, r.Kind, string(spec), c))
	}
}

func readSpec(t *testing.T, kind, text string, c Cluster) (p Plan) {
	t.Helper()
	dec := yaml.NewDecoder(strings.NewReader(text))
	dec.KnownFields(true)
	switch kind {
	case "Queue":
		var q queueSpec
		require.NoError(t, dec.Decode(&q))
		require.Equal(t, []any{"/v", true, false, "retain", c.Name}, []any{q.Vhost, q.Durable, q.AutoDelete, q.DeletionPolicy, q.Cluster.Name})
		require.Equal(t, q.Arguments["x-queue-type"], q.Type)
		p.Queues = []Queue{{Name: q.Name, Args: table(q.Arguments)}}
	case "Exchange":
		var x exchangeSpec
		require.NoError(t, dec.Decode(&x))
		require.Equal(t, []any{"/v", true, false, c.Name}, []any{x.Vhost, x.Durable, x.AutoDelete, x.Cluster.Name})
		alternate, _ := x.Arguments["alternate-exchange"].(string)
		delayed, _ := x.Arguments["x-delayed-type"].(string)
		p.Exchanges = []Exchange{{Name: x.Name, Kind: x.Type, Alternate: alternate, DelayedKind: delayed}}
	case "Binding":
		var b bindingSpec
		require.NoError(t, dec.Decode(&b))
		require.Equal(t, []any{"/v", c.Name}, []any{b.Vhost, b.Cluster.Name})
		require.Contains(t, []string{"queue", "exchange"}, b.Kind)
		p.Bindings = []Binding{{Source: b.Source, Key: b.Key, Target: b.Destination, ToExchange: b.Kind == "exchange"}}
	default:
		require.Fail(t, "the operator has no kind "+kind)
	}
	return p
}

// table has int64 where YAML has int.
func table(args map[string]any) amqp091.Table {
	t := amqp091.Table{}
	for name, value := range args {
		if n, ok := value.(int); ok {
			value = int64(n)
		}
		t[name] = value
	}
	return t
}

func waiting(name, kind string) Queue {
	return Queue{Name: name, Args: amqp091.Table{"x-queue-type": kind, "x-message-ttl": int64(60_000), "x-dead-letter-exchange": "p.in"}}
}

func TestWriteKubernetes(t *testing.T) {
	p := Plan{
		Exchanges: []Exchange{
			{Name: "p.in", Kind: Direct, Alternate: "p.unroutable"}, {Name: "P.in", Kind: Fanout}, {Name: "p.plugin", Kind: "x-delayed-message", DelayedKind: Fanout},
			{Name: strings.Repeat("ü.", 80), Kind: Topic}, {Name: `a "name": - #`, Kind: Topic},
		},
		Queues: []Queue{waiting("p.wait.1m", "quorum"), waiting("p.wait.2m", "classic")},
		Bindings: []Binding{
			{Source: "p.in", Key: "~d:1s>end..", Target: "p.wait.1m"}, {Source: "p.in", Key: "~d:1s>end.", Target: "p.wait.1m"},
			{Source: "p.in", Key: "", Target: "p.wait.1m"}, {Source: "p.in", Key: "", Target: "p.wait.1m", ToExchange: true},
		},
	}
	for _, c := range []Cluster{{Name: "rabbit"}, {Name: "rabbit", Namespace: "messaging"}} {
		var text strings.Builder
		require.NoError(t, p.WriteKubernetes(&text, "/v", c))
		require.Equal(t, p, read(t, text.String(), c))
	}
}

func TestResourceName(t *testing.T) {
	require.Equal(t, "delayer.ladder.wait.1m", resourceName("delayer.ladder.wait.1m"))
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.StringMatching(`[A-Za-z.:_-]{1,255}`).Draw(t, "b")
		for _, name := range []string{resourceName(a), resourceName(b), bindingName(Binding{Source: a}), bindingName(Binding{Source: b})} {
			if !subdomain.MatchString(name) || len(name) > 253 {
				t.Fatalf("%q is no name of Kubernetes", name)
			}
		}
		if a != b && resourceName(a) == resourceName(b) {
			t.Fatalf("%q and %q become the same", a, b)
		}
	})
}
