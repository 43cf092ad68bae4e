package topology

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// durable are all exchanges and queues of a plan.
const durable = true

// definitions is a part of RabbitMQ's definitions file.
type definitions struct {
	Exchanges []definedExchange `json:"exchanges"`
	Queues    []definedQueue    `json:"queues"`
	Bindings  []definedBinding  `json:"bindings"`
}

type definedExchange struct {
	Name       string        `json:"name"`
	Vhost      string        `json:"vhost"`
	Type       string        `json:"type"`
	Durable    bool          `json:"durable"`
	AutoDelete bool          `json:"auto_delete"`
	Internal   bool          `json:"internal"`
	Arguments  amqp091.Table `json:"arguments"`
}

type definedQueue struct {
	Name       string        `json:"name"`
	Vhost      string        `json:"vhost"`
	Durable    bool          `json:"durable"`
	AutoDelete bool          `json:"auto_delete"`
	Arguments  amqp091.Table `json:"arguments"`
}

type definedBinding struct {
	Source      string        `json:"source"`
	Vhost       string        `json:"vhost"`
	Destination string        `json:"destination"`
	Kind        string        `json:"destination_type"`
	Key         string        `json:"routing_key"`
	Arguments   amqp091.Table `json:"arguments"`
}

// WriteDefinitions writes the plan as a definitions file, which rabbitmqctl import_definitions and
// the management plugin import. The vhost must exist.
func (p Plan) WriteDefinitions(w io.Writer, vhost string) error {
	d := definitions{Exchanges: []definedExchange{}, Queues: []definedQueue{}, Bindings: []definedBinding{}}
	for _, x := range p.AllExchanges() {
		d.Exchanges = append(d.Exchanges, definedExchange{
			Name: x.Name, Vhost: vhost, Type: x.Kind, Durable: durable, AutoDelete: x.AutoDelete, Arguments: orEmpty(x.Args()),
		})
	}
	for _, q := range p.Queues {
		d.Queues = append(d.Queues, definedQueue{Name: q.Name, Vhost: vhost, Durable: durable, Arguments: orEmpty(q.Args)})
	}
	for _, b := range p.Bindings {
		d.Bindings = append(d.Bindings, definedBinding{
			Source: b.Source, Vhost: vhost, Destination: b.Target, Kind: b.TargetKind(), Key: b.Key, Arguments: amqp091.Table{},
		})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

// WriteText writes the plan for people, one object a line.
func (p Plan) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, x := range p.AllExchanges() {
		auto := ""
		if x.AutoDelete {
			auto = "  auto_delete"
		}
		fmt.Fprintf(&b, "exchange  %s  %s%s%s\n", x.Name, x.Kind, auto, listArgs(x.Args()))
	}
	for _, q := range p.Queues {
		fmt.Fprintf(&b, "queue     %s%s\n", q.Name, listArgs(q.Args))
	}
	for _, bind := range p.Bindings {
		fmt.Fprintf(&b, "binding   %s -> %s %s  %q\n", bind.Source, bind.TargetKind(), bind.Target, bind.Key)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// AllExchanges returns the exchanges of the plan, including markers.
func (p Plan) AllExchanges() []Exchange {
	var out []Exchange
	for _, m := range p.Markers {
		out = append(out, m.Exchange())
	}
	return append(out, p.Exchanges...)
}

// TargetKind is what the binding leads to: "queue" or "exchange".
func (b Binding) TargetKind() string {
	if b.ToExchange {
		return "exchange"
	}
	return "queue"
}

func orEmpty(args amqp091.Table) amqp091.Table {
	if args == nil {
		return amqp091.Table{}
	}
	return args
}

// listArgs is in alphabetical order.
func listArgs(args amqp091.Table) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(args)) {
		fmt.Fprintf(&b, "  %s=%v", name, args[name])
	}
	return b.String()
}
