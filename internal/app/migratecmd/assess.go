package migratecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/assess"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// assessCmd is `delayer migrate assess`.
type assessCmd struct {
	commonFlags
	Longest time.Duration `placeholder:"720h" help:"The longest x-delay that your code uses, if you know it."`
	Finest  time.Duration `placeholder:"500ms" help:"The x-delay with the finest step that your code uses, if you know it, such as 1.5s."`
	cli.Format
}

// Help says what a script needs.
func (c *assessCmd) Help() string {
	return "The exit status is 0 if nothing stands in the way, and 1 if something does, or if the broker could not be asked."
}

func (c *assessCmd) Validate() error {
	for flag, delay := range map[string]time.Duration{"--longest": c.Longest, "--finest": c.Finest} {
		if delay < 0 || delay%time.Millisecond != 0 || delay > assess.PluginMax {
			return fmt.Errorf("%s: %v is no x-delay: those are whole milliseconds up to %s", flag, assess.Span(delay), assess.Span(assess.PluginMax))
		}
	}
	return c.commonFlags.Validate()
}

// Run prints the assessment, and fails if something stands in the way.
func (c *assessCmd) Run(ctx context.Context, s cli.Streams) error {
	show := cli.NewDisplay(s.Err)
	if show.Live() {
		show.Draw("asking the broker, which counts what waits …")
	}
	a, err := c.assess(ctx)
	show.End()
	switch {
	case err != nil:
		return err
	case c.JSON():
		err = cli.WriteJSON(s.Out, a)
	default:
		err = writeAssessment(s.Out, a)
	}
	if err == nil && !a.Ready {
		blockers := slices.DeleteFunc(slices.Clone(a.Findings), func(f assess.Finding) bool { return f.Level != assess.Blocker })
		err = fmt.Errorf("%s in the way (each says what to do)", cli.Count(len(blockers), "obstacle"))
	}
	return err
}

func (c *assessCmd) assess(ctx context.Context) (a assess.Assessment, err error) {
	cfg, err := c.Load()
	if err != nil {
		return a, err
	}
	q := assess.Question{
		Longest: c.Longest, Finest: c.Finest, Prefix: cmp.Or(cfg.Prefix, backend.Default().Prefix), Declares: cfg.Declare.Enabled(),
	}
	if q.Topology, err = backend.Topology(cfg); err != nil {
		return a, err
	}
	if q.Candidates, err = candidates(cfg); err != nil {
		return a, err
	}
	if err := c.look(ctx, cfg, &q); err != nil {
		return a, err
	}
	return assess.Assess(q), nil
}

// look asks the broker: the management API, and rabbitmqctl if there is a command for it.
func (c *assessCmd) look(ctx context.Context, cfg backend.Config, q *assess.Question) error {
	api, err := c.api(cfg)
	if err != nil {
		return err
	}
	user, err := broker.User(cfg.URL)
	if err != nil {
		return err
	}
	reaching, cancel := c.Within(ctx)
	defer cancel()
	if err := api.Reachable(reaching); err != nil {
		return err
	}
	// The broker counts what waits: two seconds for each exchange of the plugin and 100,000
	// messages.
	if q.Inventory, err = api.Look(ctx, user, append(assess.OtherQueues(), q.Prefix)); err != nil {
		return err
	}
	if c.Rabbitmqctl == "" || len(q.Delayed) == 0 {
		return nil
	}
	return c.askNodes(ctx, q)
}

func (c *assessCmd) askNodes(ctx context.Context, q *assess.Question) error {
	control, err := node.New(c.Rabbitmqctl)
	if err != nil {
		return err
	}
	tables, err := control.Pending(ctx)
	if errors.Is(err, node.ErrUnreached) {
		q.Inventory.Unseen = append(q.Inventory.Unseen, inventory.Unseen{What: "what waits on every node", Why: err.Error()})
	} else if err != nil {
		return err
	}
	q.Asked = true
	for _, t := range tables {
		for _, w := range t.Exchanges {
			if w.Vhost == q.Vhost {
				q.Waiting = append(q.Waiting, assess.Waiting{
					Node: t.Node, Exchange: w.Exchange, Messages: w.Rows, Latest: max(0, t.Clock.Until(w.Latest.UnixMilli())),
				})
			}
		}
	}
	return nil
}

// candidates are the configured backend and those that a migration may take instead, the best
// first.
func candidates(cfg backend.Config) ([]assess.Candidate, error) {
	ladder := func(c binaryladder.Config) backend.Config {
		return backend.Config{Options: cfg.Options, Backend: binaryladder.Name, BinaryLadder: c}
	}
	exact, settings := backend.Config{Options: cfg.Options, Backend: controller.Name}, ""
	if cfg.QueueType == delayer.Classic { // and slots are quorum queues
		exact.Controller.Wheel, settings = controller.Rounds, "controller: {wheel: rounds}"
	}
	type proposal struct {
		cfg      backend.Config
		settings string
	}
	proposals := []proposal{
		{cfg, ""},
		{ladder(binaryladder.Config{}), ""},
		// As far as the plugin's longest delay, with few hops.
		{ladder(binaryladder.Config{Tick: time.Millisecond}),
			"binaryladder: {tick: 1ms}"},
		{exact, settings},
	}
	for _, name := range backend.Names() {
		other := backend.Config{Options: cfg.Options, Backend: name}
		known := slices.ContainsFunc(proposals, func(p proposal) bool { return cmp.Or(p.cfg.Backend, backend.Default().Backend) == name })
		if _, err := backend.Limits(other); err == nil && !known && name != assess.Leaving {
			proposals = append(proposals, proposal{other, ""})
		}
	}
	var list []assess.Candidate
	for i, c := range proposals {
		candidate := assess.Candidate{Backend: cmp.Or(c.cfg.Backend, backend.Default().Backend)}
		var err error
		if candidate.Limits, err = backend.Limits(c.cfg); err != nil { // asks no broker
			return nil, err
		}
		if candidate.About, err = backend.About(candidate.Backend); err != nil {
			return nil, err
		}
		if i > 0 && reflect.DeepEqual(candidate, list[0]) {
			continue // what is configured
		}
		candidate.Settings = c.settings
		list = append(list, candidate)
	}
	list[0].Configured = true
	return list, nil
}
