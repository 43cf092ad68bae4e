package topology

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// A Cluster is where resources of RabbitMQ's messaging topology operator belong.
type Cluster struct {
	Name      string // of the RabbitmqCluster
	Namespace string // of the resources and of that cluster; "" leaves it to kubectl
}

// WriteKubernetes writes the plan as resources Exchange, Queue and Binding of rabbitmq.com/v1beta1,
// in YAML. The vhost must exist.
//
// Queues have the deletion policy retain: to delete such a resource must not delete messages. That
// needs version 1.17 of the operator or a later one.
func (p Plan) WriteKubernetes(w io.Writer, vhost string, c Cluster) error {
	var b strings.Builder
	for _, x := range p.AllExchanges() {
		writeResource(&b, c, "Exchange", resourceName(x.Name), []line{
			{"name", x.Name}, {"vhost", vhost}, {"type", x.Kind}, {"durable", durable}, {"autoDelete", x.AutoDelete}, {"arguments", x.Args()},
		})
	}
	for _, q := range p.Queues {
		writeResource(&b, c, "Queue", resourceName(q.Name), []line{
			{"name", q.Name}, {"vhost", vhost}, {"type", q.Args["x-queue-type"]}, {"durable", durable}, {"autoDelete", queueAutoDelete},
			{"deletionPolicy", "retain"}, {"arguments", q.Args},
		})
	}
	for _, bind := range p.Bindings {
		writeResource(&b, c, "Binding", bindingName(bind), []line{
			{"vhost", vhost}, {"source", bind.Source}, {"destination", bind.Target}, {"destinationType", bind.targetKind()}, {"routingKey", bind.Key},
		})
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A line is a key of a resource's spec with its value: a string, a bool or a table.
type line struct {
	key   string
	value any
}

// writeResource writes one document.
func writeResource(b *strings.Builder, c Cluster, kind, name string, spec []line) {
	fmt.Fprintf(b, "---\napiVersion: rabbitmq.com/v1beta1\nkind: %s\nmetadata:\n  name: %s\n", kind, name)
	if c.Namespace != "" {
		fmt.Fprintf(b, "  namespace: %s\n", scalar(c.Namespace))
	}
	b.WriteString("spec:\n")
	for _, l := range spec {
		args, isTable := l.value.(amqp091.Table)
		switch {
		case l.value == nil || isTable && len(args) == 0:
		case isTable:
			fmt.Fprintf(b, "  %s:\n", l.key)
			for _, arg := range slices.Sorted(maps.Keys(args)) {
				fmt.Fprintf(b, "    %s: %s\n", arg, scalar(args[arg]))
			}
		default:
			fmt.Fprintf(b, "  %s: %s\n", l.key, scalar(l.value))
		}
	}
	fmt.Fprintf(b, "  rabbitmqClusterReference:\n    name: %s\n", scalar(c.Name))
}

// scalar is a value in YAML, which takes all of JSON.
func scalar(value any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return fmt.Sprintf("%q", fmt.Sprint(value)) // our arguments are strings and integers
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// mostOfName is the longest name of a resource, less what resourceName adds.
const mostOfName = 253 - 1 - 16

// resourceName is a name that Kubernetes takes, an RFC 1123 subdomain: lower case letters, digits,
// "-" and ".", each word between letters or digits. A name that is none gets a hash, so that no two
// become the same.
func resourceName(name string) string {
	words := strings.Split(strings.Map(allowed, strings.ToLower(name)), ".")
	for i, word := range words {
		words[i] = strings.Trim(word, "-")
	}
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	valid := strings.Join(words, ".")
	if valid == name && name != "" && len(name) <= mostOfName {
		return name
	}
	if len(valid) > mostOfName {
		valid = strings.TrimRight(valid[:mostOfName], "-.")
	}
	return strings.TrimPrefix(valid+"-"+nameHash(name), "-")
}

func allowed(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
		return r
	}
	return '-'
}

// bindingName is unique to the binding: a binding has no name of its own.
func bindingName(b Binding) string {
	source := resourceName(b.Source)
	if len(source) > mostOfName {
		source = strings.TrimRight(source[:mostOfName], "-.")
	}
	return source + "-" + nameHash(fmt.Sprintf("%q %q %q %t", b.Source, b.Key, b.Target, b.ToExchange))
}

func nameHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%.8x", sum[:8])
}
