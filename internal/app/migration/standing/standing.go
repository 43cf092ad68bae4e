// Package standing says where the migration of each exchange stands, and what is next: for delayer
// migrate status, and for the page of delayer serve.
package standing

import (
	"context"
	"slices"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// An Exchange is one that is migrated, or could be.
type Exchange struct {
	Exchange string      `json:"exchange"`
	Step     record.Step `json:"step"` // "" for one of the plugin without a record
	Mode     record.Mode `json:"mode,omitempty"`
	Since    *time.Time  `json:"since,omitempty"`
	Busy     bool        `json:"busy,omitempty"`         // a tool works on it
	Pending  *int        `json:"pending,omitempty"`      // in the plugin, on all nodes that were asked
	Serve    *int        `json:"serve_queued,omitempty"` // messages in the queues of delayer serve
	Target   string      `json:"target,omitempty"`       // the exchange where delayer serve passes messages on
	Next     string      `json:"next"`

	queue string // of the record
}

// Waits is what is next while the plugin still holds messages.
const Waits = "drain or evacuate, then retire"

// Read lists the exchanges whose migration has begun: those with a record under a prefix.
func Read(ctx context.Context, conn *broker.Conn, api *inventory.API, prefix string) ([]*Exchange, error) {
	queues, err := api.QueuesNamed(ctx, record.Names(prefix))
	if err != nil {
		return nil, err
	}
	entries, err := record.List(ctx, conn, prefix, queues)
	if err != nil {
		return nil, err
	}
	all := []*Exchange{}
	for _, e := range entries {
		x, err := of(ctx, conn, prefix, e)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// With returns those whose migration has begun, and after them those of the plugin's exchanges
// whose migration has not.
func With(begun []*Exchange, prefix string, delayed []inventory.Exchange) []*Exchange {
	all := slices.Clone(begun)
	for _, x := range delayed {
		queue := record.Queue(prefix, x.Name)
		switch i := slices.IndexFunc(begun, func(e *Exchange) bool { return e.queue == queue }); {
		case i < 0:
			all = append(all, &Exchange{Exchange: x.Name, Next: "prepare", queue: queue})
		case begun[i].Busy:
			named := *begun[i]
			named.Exchange, all[i] = x.Name, &named
		}
	}
	return all
}

func of(ctx context.Context, conn *broker.Conn, prefix string, e record.Entry) (*Exchange, error) {
	if e.Held {
		return &Exchange{Exchange: "queue " + e.Queue, Busy: true, Next: "wait: a tool works on it", queue: e.Queue}, nil
	}
	r := e.Record
	since := r.Since[r.Step]
	x := &Exchange{Exchange: r.Former.Name, Step: r.Step, Mode: r.Mode, Since: &since, Next: next(r), queue: e.Queue}
	if x.Target = r.Target; r.Target == "" {
		return x, nil
	}
	s := &swap.Swapper{Prefix: prefix, Exchange: r.Former.Name}
	depths, err := s.ServeDepths(ctx, swap.Wire{Conn: conn})
	total, consumers := 0, 0
	for _, d := range depths {
		total += d.Messages
		consumers += d.Consumers
	}
	x.Serve = &total
	if consumers == 0 && r.Step == record.Switched {
		x.Next = "delayer serve: it is not running for this exchange. Then " + x.Next
	}
	return x, err
}

func next(r record.Record) string {
	switch r.Step {
	case record.Prepared:
		return "switch"
	case record.Switching:
		return "switch --mode " + string(r.Mode) + " again, or rollback: it was interrupted"
	case record.Restoring:
		return "rollback again: it was interrupted"
	case record.Restored:
		return "rollback again, once serve's queues are empty and it does not serve the exchange: it removes them"
	}
	return Waits
}

// Commands are those that are next, for a shell, in which R is how rabbitmqctl is run. There are
// none while a tool works on the exchange.
func (x Exchange) Commands() []string {
	if x.Busy {
		return nil
	}
	run := func(step, more string) string {
		return "delayer migrate " + step + " --config delayer.yaml --exchange=" + cli.Quote(x.Exchange) + more
	}
	const control = ` --rabbitmqctl "$R"`
	mode := ""
	if x.Mode != "" {
		mode = " --mode " + string(x.Mode)
	}
	switch x.Step {
	case "":
		return []string{"delayer migrate assess --config delayer.yaml" + control, run("prepare", "")}
	case record.Prepared:
		return []string{run("switch", control+" --mode "+string(record.InPlace))}
	case record.Switching:
		return []string{run("switch", control+mode)}
	case record.Restoring, record.Restored:
		return []string{run("rollback", control)}
	}
	return []string{run("drain", control), run("retire", control)}
}
