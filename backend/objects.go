package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/format"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

// A Problem is one thing that the broker holds otherwise than [Open] declares it.
type Problem struct {
	Kind   string `json:"kind"`   // missing, differs, surplus, policy, or unknown: it could not be looked at
	Object string `json:"object"` // as in: queue "delayer.discard"
	Detail string `json:"detail"`
}

// String is a sentence.
func (p Problem) String() string { return p.Object + ": " + p.Detail }

// Verify asks the management API of the configuration for what [Open] declares. It returns a
// Problem for each queue, exchange or binding that is missing or has other arguments, for each
// binding of our objects that no Delayer has made, for each that leads around delayer serve, and for
// each policy that would make messages early, lose them or misroute them. Bindings that Delayers make
// when they first need them may be missing, except with Passive.
//
// The error is ErrConfig without an address in Management, and ErrUnavailable or ErrAccess where
// the API does not answer.
func Verify(ctx context.Context, cfg Config) ([]Problem, error) {
	cfg, err := Choose(ctx, cfg)
	if err != nil {
		return nil, err
	}
	settings, p, err := cfg.plan()
	if err != nil {
		return nil, err
	}
	api, vhost, err := settings.API()
	if err != nil {
		return nil, err
	}
	onUse := cfg
	onUse.Passive = true // lists them all
	_, whole, err := onUse.plan()
	if err != nil {
		return nil, err
	}
	actual, err := objects.Read(ctx, api, vhost, p)
	if err != nil {
		return nil, err
	}
	around, err := objects.Around(ctx, api, vhost, settings.Prefix)
	if err != nil {
		around = []objects.Difference{{Kind: objects.IsUnknown, Object: "bindings that go around delayer serve", Detail: err.Error()}}
	}
	harm, err := settings.Problems(ctx, p)
	if err != nil {
		return nil, err
	}
	lacks := cfg.connected(ctx, func(c *engine.Connected, s engine.Settings, p topology.Plan) error {
		return objects.Of(c.Control(), s.Backend).Features(ctx, p)
	})
	switch {
	case errors.Is(lacks, delayer.ErrNotFound):
		harm = append(harm, objects.Difference{Kind: objects.IsMissing, Object: objects.Feature, Detail: lacks.Error()})
	case lacks != nil:
		harm = append(harm, objects.Difference{Kind: objects.IsUnknown, Object: objects.Feature, Detail: lacks.Error()})
	}
	want := objects.Wanted{Prefix: settings.Prefix, Plan: p, OnUse: whole.Bindings, Leads: settings.Stage().Leads}
	problems := []Problem{}
	for _, d := range slices.Concat(objects.Compare(want, actual), around, harm) {
		problems = append(problems, Problem(d))
	}
	return problems, nil
}

// Apply declares what [Topology] returns: what [Open] declares, with Passive all bindings that
// a Delayer may ever use, and for fixedtiers the queues that administrators bind. It returns the
// names of the exchanges and queues that did not exist before, and is safe to repeat. Errors are
// those of [Open].
func Apply(ctx context.Context, cfg Config) (created []string, err error) {
	if cfg, err = Choose(ctx, cfg); err != nil {
		return nil, err
	}
	err = cfg.connected(ctx, func(c *engine.Connected, s engine.Settings, p topology.Plan) error {
		ours := objects.Of(c.Control(), s.Backend)
		if created, err = ours.Missing(ctx, p); err != nil {
			return err
		}
		return ours.Apply(ctx, p)
	})
	return created, err
}

// Remove deletes the queues and exchanges that [Topology] returns. Other backends of the same
// prefix lose the queues for misrouted and unroutable messages as well.
//
// If messages are in one of the queues, or if a Delayer or a controller consumes one, the error is
// ErrConflict and nothing is deleted. With force the messages are deleted too. Close all Delayers of
// the prefix first: those that are open declare the topology again.
//
// Only the management API tells what waits in queues of native: without its address in Management
// the error is ErrConfig. It lags, and Remove then takes about twenty seconds. Other errors are
// those of [Open].
func Remove(ctx context.Context, cfg Config, force bool) error {
	return cfg.connected(ctx, func(c *engine.Connected, s engine.Settings, p topology.Plan) error {
		ours := objects.Of(c.Control(), s.Backend)
		if !force {
			says, err := used(ctx, ours, p)
			if err == nil && says == "" {
				says, err = hiding(ctx, ours, s, p)
			}
			if err != nil {
				return err
			}
			if says != "" {
				return &delayer.Error{
					Op: "remove", Backend: s.Backend, Object: "topology of prefix " + s.Prefix, Kind: delayer.ErrConflict,
					Cause: errors.New(says),
					Hint:  "wait until nothing waits, and close the Delayers and controllers of the prefix; or, to delete what waits too: delayer topology remove --force --prefix " + s.Prefix,
				}
			}
		}
		return ours.Remove(ctx, p)
	})
}

// hiding says what waits in queues that hide it, or "".
func hiding(ctx context.Context, ours objects.Live, s engine.Settings, p topology.Plan) (says string, err error) {
	p.Queues = slices.DeleteFunc(slices.Clone(p.Queues), func(q topology.Queue) bool { return q.Role != role.Hidden })
	exist, err := ours.Look(ctx, p)
	if err != nil || len(exist) == 0 {
		return "", err
	}
	api, vhost, err := s.API()
	if err != nil {
		return "", err
	}
	for _, pause := range [...]time.Duration{0, objects.HiddenLag} { // what came last is counted then
		if err := pace.Sleep(ctx, pause); err != nil {
			return "", err
		}
		counts, err := objects.Hidden(ctx, api, vhost, p)
		if err != nil {
			return "", err
		}
		total := 0
		for _, n := range counts {
			total += n
		}
		if total > 0 {
			return fmt.Sprintf("messages: %d, in the queues of native, which hide them", total), nil
		}
		if err := objects.Uncounted(p, exist, counts); err != nil && pause > 0 {
			return "", &delayer.Error{
				Op: "remove", Backend: s.Backend, Object: "topology of prefix " + s.Prefix, Kind: delayer.ErrUnavailable, Cause: err,
				Hint: "try again; or, if you know that nothing waits, remove with force",
			}
		}
	}
	return "", nil
}

// used says which queues hold messages or are consumed, or "". A count of 0 is not believed before
// the queue has answered otherwise: see [objects.Holds].
func used(ctx context.Context, ours objects.Live, p topology.Plan) (says string, err error) {
	inUse := topology.Plan{Queues: slices.DeleteFunc(slices.Clone(p.Queues), func(q topology.Queue) bool {
		return q.Role == role.Clock || q.Role == role.Counts
	})}
	look := func() (string, error) {
		states, err := ours.Look(ctx, p)
		var holding, consumed []string
		what, total, counted := "messages", 0, false
		for _, q := range p.Queues {
			if q.Role == role.Counts { // of a controller with slots
				what, counted = "messages, or bundles of them", states[q.Name].Messages > 0
			}
		}
		for _, q := range inUse.Queues {
			n := states[q.Name].Messages
			if counted && q.Role == role.Intake {
				n-- // a controller that has ended leaves a bundle without messages
			}
			if n > 0 {
				holding = append(holding, fmt.Sprintf("%s (%d)", q.Name, n))
				total += n
			}
			if states[q.Name].Consumers > 0 {
				consumed = append(consumed, q.Name)
			}
		}
		const most = 5
		var says []string
		if total > 0 {
			says = append(says, fmt.Sprintf("%s: %d, in %s", what, total, format.Some(holding, most, ", ")))
		}
		if consumed != nil {
			says = append(says, "a Delayer or a controller consumes "+format.Some(consumed, most, ", "))
		}
		return strings.Join(says, "; "), err
	}
	for {
		if says, err := look(); err != nil || says != "" {
			return says, err
		}
		holding, err := ours.Holding(ctx, inUse)
		if err != nil {
			return "", err
		}
		if holding == nil {
			return look() // at those that nobody else may read, and that answer now
		}
	}
}

func (c Config) connected(ctx context.Context, f func(*engine.Connected, engine.Settings, topology.Plan) error) error {
	settings, p, err := c.plan()
	if err != nil {
		return err
	}
	conn, err := engine.Connect(ctx, settings)
	if err != nil {
		return err
	}
	defer conn.Close()
	return f(conn, settings, p)
}

// plan returns the settings of a configuration, and what Open declares.
func (c Config) plan() (settings engine.Settings, p topology.Plan, err error) {
	r, err := c.row()
	if err != nil {
		return settings, p, err
	}
	settings, err = engine.Resolve(c.Options, r.name)
	if err != nil {
		return settings, p, err
	}
	p, err = r.topology(c)
	return settings, p, err
}
