package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/format"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/message"
	"github.com/delayer-go/delayer/topology"
)

// Wanted is what the broker must and may hold.
type Wanted struct {
	Prefix string
	Plan   topology.Plan
	OnUse  []topology.Binding // that a Delayer makes when it first needs them, for keys of any number of words

	// Leads reports whether a binding may be one that leads to a destination.
	Leads func(topology.Binding) bool
}

// Actual is what the broker holds.
type Actual struct {
	Exchanges, Queues map[string]Object
	Bindings          []Bound // of the whole vhost
}

// An Object is a queue or an exchange: its arguments, whose integers are int64, and as if they were
// arguments its durability and the like.
type Object amqp091.Table

func object(kind string, autoDelete bool, args amqp091.Table) Object {
	o := Object{"type": kind, "durable": true, "auto_delete": autoDelete, "internal": false}
	maps.Copy(o, args)
	return o
}

// A Bound is a binding as the broker has it.
type Bound struct {
	topology.Binding
	Args amqp091.Table
}

// Compare returns all differences, in the order of the plan: first of the objects, then of the
// bindings.
func Compare(want Wanted, got Actual) (found []Difference) {
	// The objects that Open does not declare must be there if one of them is.
	optional := slices.ContainsFunc(want.Plan.Exchanges, func(x topology.Exchange) bool {
		return got.Exchanges[x.Name] != nil && x.Optional
	}) || slices.ContainsFunc(want.Plan.Queues, func(q topology.Queue) bool {
		return got.Queues[q.Name] != nil && q.Optional
	})
	compare := func(kind, name string, is, wanted Object, needed bool) {
		if is == nil && needed {
			found = append(found, Difference{IsMissing, describe(kind, name), "it does not exist"})
		} else if text := differences(wanted, is); is != nil && text != "" {
			found = append(found, Difference{IsOther, describe(kind, name), text})
		}
	}
	exchanges, queues := map[string]bool{}, map[string]bool{} // that nobody else may bind
	for _, x := range want.Plan.AllExchanges() {
		compare("exchange", x.Name, got.Exchanges[x.Name], object(x.Kind, x.AutoDelete, x.Args()), optional || !x.Optional)
		exchanges[x.Name] = !x.Optional
	}
	for _, q := range want.Plan.Queues {
		compare("queue", q.Name, got.Queues[q.Name], object("", false, q.Args), optional || !q.Optional)
		queues[q.Name] = !q.Optional
	}

	there, planned, onUse := map[topology.Binding]bool{}, map[topology.Binding]bool{}, map[topology.Binding]bool{}
	for _, b := range got.Bindings {
		there[b.Binding] = true
	}
	for _, b := range want.OnUse {
		b.Key = message.Unpad(b.Key)
		onUse[b] = true
	}
	for _, b := range want.Plan.Bindings {
		planned[b] = true
		targets := got.Queues
		if b.ToExchange {
			targets = got.Exchanges
		}
		if !there[b] && got.Exchanges[b.Source] != nil && targets[b.Target] != nil { // without its ends the binding is not the news
			found = append(found, Difference{IsMissing, describeBinding(b), "it does not exist"})
		}
	}
	surplus := slices.DeleteFunc(slices.Clone(got.Bindings), func(b Bound) bool {
		unpadded := b.Binding
		unpadded.Key = message.Unpad(b.Key)
		known := planned[b.Binding] || onUse[unpadded] || want.Leads(b.Binding)
		targets := queues
		if b.ToExchange {
			targets = exchanges
		}
		ours := exchanges[b.Source] || targets[b.Target] && b.Source != "" &&
			!strings.HasPrefix(b.Source, want.Prefix+".") // what another backend of the prefix leads there
		clock := strings.HasPrefix(b.Target, want.Prefix+".clock.") // a queue that a running Delayer has for itself
		gate := strings.HasPrefix(b.Key, message.ProvedKey)         // of a running Delayer, or of one that was killed
		return !ours || clock || (known || gate) && len(b.Args) == 0
	})
	slices.SortFunc(surplus, func(a, b Bound) int {
		return cmp.Compare(describeBinding(a.Binding), describeBinding(b.Binding))
	})
	for _, b := range surplus {
		detail := "no Delayer has made it"
		if len(b.Args) > 0 {
			detail += fmt.Sprintf("; its arguments are %v", b.Args)
		}
		found = append(found, Difference{IsSurplus, describeBinding(b.Binding), detail})
	}
	return found
}

// differences is a list such as: x-message-ttl is 5, want 6.
func differences(want, got Object) string {
	all := maps.Clone(want)
	maps.Copy(all, got)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if is, should := shown(got[name]), shown(want[name]); is != should {
			list = append(list, fmt.Sprintf("%s is %s, want %s", name, is, should))
		}
	}
	return strings.Join(list, "; ")
}

// shown is a value as text: the broker has numbers of several types.
func shown(value any) string {
	switch value := value.(type) {
	case nil:
		return "not set"
	case string:
		return fmt.Sprintf("%q", value)
	default:
		return fmt.Sprint(value)
	}
}

func describeBinding(b topology.Binding) string {
	return fmt.Sprintf("binding from exchange %q to %s %q with key %q", b.Source, b.TargetKind(), b.Target, b.Key)
}

// A Difference is one thing that a broker holds otherwise than a plan says.
type Difference struct {
	Kind   string
	Object string // as in: queue "delayer.discard"
	Detail string
}

// The kinds of differences.
const (
	IsMissing = "missing"
	IsOther   = "differs" // another type, or other arguments
	IsSurplus = "surplus" // a binding that no Delayer has made
	IsHarmed  = "policy"  // a policy does harm
	IsUnknown = "unknown" // it could not be looked at
)

func (d Difference) String() string { return d.Object + ": " + d.Detail }

// Summary lists the first few differences as sentences: one policy may harm every queue.
func Summary(list []Difference) string {
	const most = 3
	var says []string
	for _, d := range list {
		says = append(says, d.String())
	}
	return format.Some(says, most, "; ")
}

// Read asks the management API for the objects of a plan and for the bindings of the vhost.
//
// Objects are asked for one by one. A list of exchanges would count what waits in those of the
// plugin, message by message (plugin issue 228).
func Read(ctx context.Context, api *management.Client, vhost string, p topology.Plan) (Actual, error) {
	a := Actual{Exchanges: map[string]Object{}, Queues: map[string]Object{}}
	if err := api.Get(ctx, management.Request{Op: "look at", Path: management.Path("bindings", vhost)}, &a.Bindings); err != nil {
		return a, err
	}
	for _, x := range p.AllExchanges() {
		if err := read(ctx, api, a.Exchanges, "exchanges", vhost, x.Name); err != nil {
			return a, err
		}
	}
	for _, q := range p.Queues {
		if err := read(ctx, api, a.Queues, "queues", vhost, q.Name); err != nil {
			return a, err
		}
	}
	return a, nil
}

func read(ctx context.Context, api *management.Client, into map[string]Object, kind, vhost, name string) error {
	var o struct {
		Type       string               `json:"type"`
		Durable    bool                 `json:"durable"`
		AutoDelete bool                 `json:"auto_delete"`
		Internal   bool                 `json:"internal"`
		Arguments  management.Arguments `json:"arguments"`
	}
	err := api.Get(ctx, management.Request{
		Op: "look at", Path: management.Path(kind, vhost, name), Query: url.Values{"columns": {"type,durable,auto_delete,internal,arguments"}},
	}, &o)
	if errors.Is(err, delayer.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if kind == "queues" {
		o.Type = "" // it is among the arguments
	}
	into[name] = Object{"type": o.Type, "durable": o.Durable, "auto_delete": o.AutoDelete, "internal": o.Internal}
	maps.Copy(into[name], o.Arguments)
	return nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (b *Bound) UnmarshalJSON(text []byte) error {
	var raw struct {
		Source    string               `json:"source"`
		Target    string               `json:"destination"`
		Kind      string               `json:"destination_type"`
		Key       string               `json:"routing_key"`
		Arguments management.Arguments `json:"arguments"`
	}
	err := json.Unmarshal(text, &raw)
	b.Binding = topology.Binding{Source: raw.Source, Key: raw.Key, Target: raw.Target, ToExchange: raw.Kind == "exchange"}
	b.Args = raw.Arguments.Table()
	return err
}
