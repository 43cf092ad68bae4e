package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
)

// A Step is how far the migration of an exchange is.
type Step string

// The steps.
const (
	Prepared  Step = "prepared"  // the exchange is the plugin's, the new topology is there
	Switching Step = "switching" // the exchange is about to change, or is half changed
	Switched  Step = "switched"  // the exchange is ours
	Restoring Step = "restoring" // the exchange is about to be the plugin's again, or is half so
	Restored  Step = "restored"  // the exchange is the plugin's again; what delayer serve needed is still there
)

// A Mode is how an exchange is switched.
type Mode string

// The modes.
const (
	InPlace Mode = "in-place" // the exchange becomes an ordinary one with its former bindings
	Serving Mode = "serve"    // the exchange leads to the queue of delayer serve
)

// A Record is the state of the migration of one exchange.
type Record struct {
	Number int64 // the newest has the highest
	Step   Step
	Mode   Mode                 // "" before the switch
	Former inventory.Definition // what a rollback makes of the exchange; bindings as last seen
	Since  map[Step]time.Time   // when each step was last begun

	// Target is the exchange that has the former bindings, where delayer serve passes messages on.
	// It is set from before the switch until what serve needs is removed; "" without serve.
	Target string
}

// Spec is the entry by which delayer serve passes on what is published to the exchange. Publishers
// may declare the exchange as they declared the plugin's, with the type that it routes by.
func (r Record) Spec() entry.Spec {
	kind := r.Former.DelayedType()
	if !slices.Contains(inventory.KnownTypes, kind) {
		kind = amqp091.ExchangeFanout
	}
	return entry.Spec{Name: r.Former.Name, Type: kind, To: r.Target, MoveBindings: true}
}

// To returns the record of the next step.
func (r Record) To(step Step, now time.Time) Record {
	since := map[Step]time.Time{step: now.UTC().Round(0)}
	for s, at := range r.Since {
		if s != step {
			since[s] = at
		}
	}
	r.Number, r.Step, r.Since = r.Number+1, step, since
	if step == Prepared {
		r.Mode = ""
	}
	return r
}

// format is the version of what JSON holds.
const format = 2

// The wire types are what a record is as JSON. Arguments carry their types, and names any bytes.
type (
	wire struct {
		Format int                `json:"format"`
		Number int64              `json:"number"`
		Step   Step               `json:"step"`
		Mode   Mode               `json:"mode,omitempty"`
		Former wireDefinition     `json:"former"`
		Since  map[Step]time.Time `json:"since"`
		Target messagejson.Text   `json:"target,omitempty"`
	}
	wireDefinition struct {
		Name       messagejson.Text    `json:"name"`
		Type       string              `json:"type"`
		Durable    bool                `json:"durable"`
		AutoDelete bool                `json:"auto_delete"`
		Internal   bool                `json:"internal"`
		Arguments  messagejson.Headers `json:"arguments"`
		Policy     messagejson.Text    `json:"policy,omitempty"`
		Out        []wireBinding       `json:"out"`
		In         []wireBinding       `json:"in"`
	}
	wireBinding struct {
		Source     messagejson.Text    `json:"source"`
		Target     messagejson.Text    `json:"target"`
		ToExchange bool                `json:"to_exchange,omitempty"`
		Key        messagejson.Text    `json:"key"`
		Arguments  messagejson.Headers `json:"arguments,omitempty"`
	}
)

// MarshalJSON keeps every byte and type.
func (r Record) MarshalJSON() ([]byte, error) {
	x := r.Former.Exchange
	return json.Marshal(wire{
		Format: format, Number: r.Number, Step: r.Step, Mode: r.Mode, Since: r.Since, Target: messagejson.Text(r.Target),
		Former: wireDefinition{
			Name: messagejson.Text(x.Name), Type: x.Type, Durable: x.Durable, AutoDelete: x.AutoDelete, Internal: x.Internal,
			Arguments: messagejson.Headers(x.Arguments), Policy: messagejson.Text(x.Policy),
			Out: toWire(r.Former.Out), In: toWire(r.Former.In),
		},
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (r *Record) UnmarshalJSON(raw []byte) error {
	var w wire
	switch err := json.Unmarshal(raw, &w); {
	case err != nil:
		return err
	case w.Format != format:
		return fmt.Errorf("format %d is not known to this version (use the delayer that began the migration)", w.Format)
	case w.Former.Name == "":
		return errors.New("it names no exchange")
	}
	d := w.Former
	*r = Record{
		Number: w.Number, Step: w.Step, Mode: w.Mode, Since: w.Since, Target: string(w.Target),
		Former: inventory.Definition{
			Exchange: inventory.Exchange{
				Name: string(d.Name), Type: d.Type, Durable: d.Durable, AutoDelete: d.AutoDelete, Internal: d.Internal,
				Arguments: amqp091.Table(d.Arguments), Policy: string(d.Policy),
			},
			Out: fromWire(d.Out), In: fromWire(d.In),
		},
	}
	return nil
}

func toWire(all []inventory.BindingInfo) []wireBinding {
	out := make([]wireBinding, 0, len(all))
	for _, b := range all {
		out = append(out, wireBinding{
			messagejson.Text(b.Source), messagejson.Text(b.Target), b.ToExchange, messagejson.Text(b.Key), messagejson.Headers(b.Arguments),
		})
	}
	return out
}

func fromWire(all []wireBinding) []inventory.BindingInfo {
	var out []inventory.BindingInfo
	for _, b := range all {
		out = append(out, inventory.BindingInfo{
			Source: string(b.Source), Target: string(b.Target), ToExchange: b.ToExchange, Key: string(b.Key), Arguments: amqp091.Table(b.Arguments),
		})
	}
	return out
}
