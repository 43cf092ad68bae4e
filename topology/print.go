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

// WriteDefinitions writes the plan as a definitions file, which rabbitmqctl import_definitions and
// the management plugin import. The vhost must exist. Errors are those of w.
func (p Plan) WriteDefinitions(w io.Writer, vhost string) error {
	type object map[string]any
	exchanges, queues, bindings := []object{}, []object{}, []object{}
	for _, x := range p.AllExchanges() {
		exchanges = append(exchanges, object{
			"name": x.Name, "vhost": vhost, "type": x.Kind, "durable": true, "auto_delete": x.AutoDelete, "internal": false,
			"arguments": x.Args(),
		})
	}
	for _, q := range p.Queues {
		args := amqp091.Table{}
		maps.Copy(args, q.Args)
		queues = append(queues, object{
			"name": q.Name, "vhost": vhost, "durable": true, "auto_delete": false, "arguments": args,
		})
	}
	for _, b := range p.Bindings {
		bindings = append(bindings, object{
			"source": b.Source, "vhost": vhost, "destination": b.Target, "destination_type": b.TargetKind(),
			"routing_key": b.Key, "arguments": amqp091.Table{},
		})
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(object{"exchanges": exchanges, "queues": queues, "bindings": bindings})
}

// WriteText writes the plan for people, one object a line. Errors are those of w.
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
	return slices.Concat(p.Markers, p.Exchanges)
}

// TargetKind is what the binding leads to: "queue" or "exchange".
func (b Binding) TargetKind() string {
	if b.ToExchange {
		return "exchange"
	}
	return "queue"
}

// listArgs is in alphabetical order.
func listArgs(args amqp091.Table) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(args)) {
		fmt.Fprintf(&b, "  %s=%v", name, args[name])
	}
	return b.String()
}
