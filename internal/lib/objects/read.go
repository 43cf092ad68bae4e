package objects

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/topology"
)

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
	into[name] = Object{Kind: o.Type, Transient: !o.Durable, AutoDelete: o.AutoDelete, Internal: o.Internal, Args: o.Arguments.Table()}
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
