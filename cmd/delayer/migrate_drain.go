package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/migration/evacuate"
	"github.com/delayer-go/delayer/internal/migration/inventory"
	"github.com/delayer-go/delayer/internal/migration/node"
)

// migrateDrainCmd is `delayer migrate drain`.
type migrateDrainCmd struct {
	migrateFlags
	Exchange []string `sep:"none" placeholder:"NAME" help:"Only what waits for this exchange. May be repeated. Default: all of the vhost."`
	outputFlag
}

// Run waits until the plugin has delivered everything.
func (c *migrateDrainCmd) Run(ctx context.Context, s streams) error {
	if err := c.run(ctx, s); err != nil {
		return cli.InterruptedOr(ctx, failure("migrate drain", err))
	}
	return nil
}

func (c *migrateDrainCmd) run(ctx context.Context, s streams) error {
	count, err := c.counter(ctx, s)
	if err != nil {
		return err
	}
	show := cli.NewDisplay(s.err)
	defer show.End()
	began, last := time.Now(), evacuate.DrainState{}
	d := evacuate.Drain{Count: count, Progress: func(state evacuate.DrainState) {
		if line := drainLine(state, time.Now()); show.Live() {
			show.Draw(line)
		} else {
			show.Logf("%s", line)
		}
		last = state
	}}
	if err := d.Run(ctx); err != nil {
		return err
	}
	show.End()
	if c.json() {
		return writeJSON(s.out, map[string]any{"pending_before": last.First.Rows, "pending": 0, "took_seconds": time.Since(began).Seconds()})
	}
	what := ""
	if len(c.Exchange) > 0 {
		what = fmt.Sprintf(" for %q", c.Exchange)
	}
	_, err = fmt.Fprintf(s.out, "The plugin has nothing left%s; %s waited when the drain began.\n", what, messages(last.First.Rows))
	return err
}

// counter returns what counts: exact on the nodes, or as far as the management API knows.
func (c *migrateDrainCmd) counter(ctx context.Context, s streams) (func(context.Context) (evacuate.Left, error), error) {
	cfg, err := c.load()
	if err != nil {
		return nil, err
	}
	if c.Rabbitmqctl != "" {
		return c.byNodes(ctx, cfg)
	}
	api, err := c.api(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w; or give --rabbitmqctl, which also knows when the last message is due", err)
	}
	fmt.Fprintln(s.err, "Without --rabbitmqctl only the node that answers is counted, only exchanges that are still the plugin's, and when the last message is due is not known.")
	return c.byAPI(api), nil
}

// byNodes asks the nodes. An exchange that they do not know is an error, and not an empty one.
func (c *migrateDrainCmd) byNodes(ctx context.Context, cfg backend.Config) (func(context.Context) (evacuate.Left, error), error) {
	cfg.Logger = slog.New(slog.DiscardHandler) // the error says it all
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return nil, err
	}
	vhost, err := broker.Vhost(cfg.URL)
	if err != nil {
		return nil, err
	}
	control, err := node.New(c.Rabbitmqctl)
	if err != nil {
		return nil, err
	}
	j := evacuate.Job{Nodes: control, Broker: settings.BrokerOptions("drain"), Vhost: vhost, Exchanges: c.Exchange}
	return j.Left, known(ctx, j)
}

// byAPI asks the management API.
func (c *migrateDrainCmd) byAPI(api *inventory.API) func(context.Context) (evacuate.Left, error) {
	return func(ctx context.Context) (left evacuate.Left, err error) {
		pending, err := api.Pending(ctx)
		if err != nil {
			return left, err
		}
		counted := 0
		for _, p := range pending {
			if len(c.Exchange) == 0 || slices.Contains(c.Exchange, p.Exchange) {
				left.Rows += int(p.Rows)
				counted++
			}
		}
		if counted == 0 || counted < len(c.Exchange) {
			return left, errors.New("the management API counts exchanges of type x-delayed-message only, and these are none (after a switch give --rabbitmqctl)")
		}
		return left, nil
	}
}

// drainLine is a bar, the count and the end.
func drainLine(s evacuate.DrainState, now time.Time) string {
	const width = 20
	done := width
	if s.First.Rows > 0 {
		done = width * max(0, s.First.Rows-s.Rows) / s.First.Rows
	}
	line := fmt.Sprintf("[%s%s] %s left", strings.Repeat("#", done), strings.Repeat("-", width-done), messages(s.Rows))
	switch {
	case s.Rows == 0:
		return line
	case !s.Latest.IsZero():
		line += fmt.Sprintf(", the last is due %s", ago(s.Latest, now))
	case !s.Ends.IsZero():
		line += fmt.Sprintf(", at this rate until %s", s.Ends.Format("2006-01-02 15:04:05"))
	}
	if s.Arrives {
		line += "; more arrive"
	}
	return line
}
