package topologycmd

import (
	"crypto/sha256"
	"fmt"
	"io"
	"regexp"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"go.yaml.in/yaml/v3"

	"github.com/delayer-go/delayer/topology"
)

// A resource is one of RabbitMQ's messaging topology operator.
type resource struct {
	Version  string `yaml:"apiVersion"`
	Kind     string
	Metadata struct {
		Name      string
		Namespace string `yaml:",omitempty"` // "" leaves it to kubectl
	}
	Spec resourceSpec
}

// A resourceSpec has the fields of exchanges, queues and bindings that are needed.
type resourceSpec struct {
	Name            string `yaml:",omitempty"`
	Vhost           string
	Type            string                `yaml:",omitempty"`
	Durable         bool                  `yaml:",omitempty"`
	AutoDelete      bool                  `yaml:"autoDelete,omitempty"`
	DeletionPolicy  string                `yaml:"deletionPolicy,omitempty"`
	Arguments       amqp091.Table         `yaml:",omitempty"`
	Source          string                `yaml:",omitempty"`
	Destination     string                `yaml:",omitempty"`
	DestinationType string                `yaml:"destinationType,omitempty"`
	RoutingKey      string                `yaml:"routingKey,omitempty"`
	Cluster         struct{ Name string } `yaml:"rabbitmqClusterReference"`
}

// writeKubernetes writes a plan as resources Exchange, Queue and Binding of rabbitmq.com/v1beta1,
// in YAML, for a RabbitmqCluster. The vhost must exist.
//
// Queues have the deletion policy retain: to delete such a resource must not delete messages. That
// needs version 1.17 of the operator or a later one.
func writeKubernetes(w io.Writer, p topology.Plan, vhost, cluster, namespace string) error {
	const durable = true
	enc := yaml.NewEncoder(w)
	write := func(kind, name string, spec resourceSpec) error {
		r := resource{Version: "rabbitmq.com/v1beta1", Kind: kind, Spec: spec}
		r.Metadata.Name, r.Metadata.Namespace = name, namespace
		r.Spec.Vhost, r.Spec.Cluster.Name = vhost, cluster
		return enc.Encode(r)
	}
	for _, x := range p.AllExchanges() {
		if err := write("Exchange", resourceName(x.Name), resourceSpec{
			Name: x.Name, Type: x.Kind, Durable: durable, AutoDelete: x.AutoDelete, Arguments: x.Args(),
		}); err != nil {
			return err
		}
	}
	for _, q := range p.Queues {
		kind, _ := q.Args["x-queue-type"].(string)
		if err := write("Queue", resourceName(q.Name), resourceSpec{
			Name: q.Name, Type: kind, Durable: durable, DeletionPolicy: "retain", Arguments: q.Args,
		}); err != nil {
			return err
		}
	}
	for _, b := range p.Bindings {
		if err := write("Binding", bindingName(b), resourceSpec{
			Source: b.Source, Destination: b.Target, DestinationType: b.TargetKind(), RoutingKey: b.Key,
		}); err != nil {
			return err
		}
	}
	return enc.Close()
}

// subdomain is RFC 1123's, which names of resources are, of 253 characters at most.
var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// resourceName is the name, if Kubernetes takes that. Another gets a hash, so that no two become the
// same.
func resourceName(name string) string {
	if subdomain.MatchString(name) && len(name) <= 253 {
		return name
	}
	return hashed(name, name)
}

// bindingName is unique to the binding: a binding has no name of its own.
func bindingName(b topology.Binding) string {
	return hashed(b.Source, fmt.Sprintf("%q %q %q %t", b.Source, b.Key, b.Target, b.ToExchange))
}

// hashed is the letters and digits of a name, as far as there is room, and the hash of a text.
func hashed(name, text string) string {
	readable := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-"), "-")
	sum := sha256.Sum256([]byte(text))
	const most = 200
	return strings.TrimPrefix(fmt.Sprintf("%s-%.8x", readable[:min(len(readable), most)], sum[:8]), "-")
}
