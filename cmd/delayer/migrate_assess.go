package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/migration/assess"
	"github.com/delayer-go/delayer/internal/migration/inventory"
	"github.com/delayer-go/delayer/internal/migration/node"
	"github.com/delayer-go/delayer/internal/topology"
)

// migrateAssessCmd is `delayer migrate assess`.
type migrateAssessCmd struct {
	migrateFlags
	Longest time.Duration `placeholder:"720h" help:"The longest x-delay that your code uses, if you know it."`
	Finest  time.Duration `placeholder:"500ms" help:"The x-delay with the finest step that your code uses, if you know it, such as 1.5s."`
	outputFlag
}

// Help says what a script needs.
func (c *migrateAssessCmd) Help() string {
	return "The exit status is 0 if nothing stands in the way, and 1 if something does, or if the broker could not be asked."
}

// Validate makes a value that cannot be right a usage error.
func (c *migrateAssessCmd) Validate() error {
	for flag, delay := range map[string]time.Duration{"--longest": c.Longest, "--finest": c.Finest} {
		if delay < 0 || delay%time.Millisecond != 0 || delay > assess.PluginMax {
			return fmt.Errorf("%s: %v is no x-delay: those are whole milliseconds up to %s", flag, assess.Span(delay), assess.Span(assess.PluginMax))
		}
	}
	return c.migrateFlags.Validate()
}

// Run prints the assessment, and fails if something stands in the way.
func (c *migrateAssessCmd) Run(ctx context.Context, s streams) error {
	show := cli.NewDisplay(s.err)
	if show.Live() {
		show.Draw("asking the broker, which counts what waits …")
	}
	a, err := c.assess(ctx)
	show.End()
	if err == nil {
		err = c.print(a, s)
	}
	if err == nil && !a.Ready {
		err = fmt.Errorf("%s in the way (each says what to do)", count(len(withLevel(a, assess.Blocker)), "obstacle"))
	}
	if err != nil {
		return cli.InterruptedOr(ctx, failure("migrate assess", err))
	}
	return nil
}

func (c *migrateAssessCmd) print(a assess.Assessment, s streams) error {
	if c.json() {
		return writeJSON(s.out, a)
	}
	return writeAssessment(s.out, a)
}

func (c *migrateAssessCmd) assess(ctx context.Context) (assess.Assessment, error) {
	cfg, err := c.load()
	if err != nil {
		return assess.Assessment{}, err
	}
	q, err := c.question(cfg)
	if err != nil {
		return assess.Assessment{}, err
	}
	if err := c.look(ctx, cfg, &q); err != nil {
		return assess.Assessment{}, err
	}
	return assess.Assess(q), nil
}

// question is what the configuration and the flags say.
func (c *migrateAssessCmd) question(cfg backend.Config) (assess.Question, error) {
	q := assess.Question{Longest: c.Longest, Finest: c.Finest, Prefix: cfg.Prefix, Declares: cfg.Declare.Enabled()}
	if q.Prefix == "" {
		q.Prefix = backend.Default().Prefix
	}
	t, err := backend.Topology(cfg)
	if err != nil {
		return q, err
	}
	q.Topology = t.(topology.Plan)
	q.Candidates, err = candidates(cfg)
	return q, err
}

// look asks the broker: the management API, and rabbitmqctl if there is a command for it.
func (c *migrateAssessCmd) look(ctx context.Context, cfg backend.Config, q *assess.Question) error {
	api, err := c.api(cfg)
	if err != nil {
		return err
	}
	user, err := broker.User(cfg.URL)
	if err != nil {
		return err
	}
	reaching, cancel := c.within(ctx)
	defer cancel()
	if err := api.Reachable(reaching); err != nil {
		return err
	}
	// The broker counts what waits: two seconds for each exchange of the plugin and 100,000 messages.
	if q.Inventory, err = api.Look(ctx, user, append(assess.OtherQueues(), q.Prefix)); err != nil {
		return err
	}
	if c.Rabbitmqctl == "" || len(q.Delayed) == 0 {
		return nil
	}
	return c.askNodes(ctx, q)
}

// askNodes counts what waits on every node.
func (c *migrateAssessCmd) askNodes(ctx context.Context, q *assess.Question) error {
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
	var list []assess.Candidate
	for i, c := range []struct {
		cfg      backend.Config
		settings string
	}{
		{cfg, ""},
		{ladder(binaryladder.Config{}), ""},
		// As far as the plugin's longest delay, with few hops.
		{ladder(binaryladder.Config{Tick: time.Millisecond}),
			"binaryladder: {tick: 1ms}"},
		{exact, settings},
	} {
		candidate, err := candidateOf(c.cfg)
		if err != nil {
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

// candidateOf is a configuration as a candidate. It asks no broker.
func candidateOf(cfg backend.Config) (assess.Candidate, error) {
	name := cmp.Or(cfg.Backend, backend.Default().Backend)
	limits, err := backend.Limits(cfg)
	if err != nil {
		return assess.Candidate{}, err
	}
	about, err := backend.About(name)
	return assess.Candidate{Backend: name, Limits: limits, About: about}, err
}
