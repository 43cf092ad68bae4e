package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/evacuate"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
)

// drainCmd is `delayer migrate drain`.
type drainCmd struct {
	commonFlags
	Exchange []string `sep:"none" placeholder:"NAME" help:"Only what waits for this exchange. May be repeated. Default: all of the vhost."`
	cli.Format
}

// Run waits until the plugin has delivered everything.
func (c *drainCmd) Run(ctx context.Context, s cli.Streams) error {
	count, err := c.counter(ctx, s)
	if err != nil {
		return err
	}
	show := cli.NewDisplay(s.Err)
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
	if c.JSON() {
		return cli.WriteJSON(s.Out, map[string]any{"pending_before": last.First.Rows, "pending": 0, "took_seconds": time.Since(began).Seconds()})
	}
	what := ""
	if len(c.Exchange) > 0 {
		what = fmt.Sprintf(" for %q", c.Exchange)
	}
	_, err = fmt.Fprintf(s.Out, "The plugin has nothing left%s; %s waited when the drain began.\n", what, cli.Count(last.First.Rows, "message"))
	return err
}

// counter returns what counts: exact on the nodes, or as far as the management API knows.
func (c *drainCmd) counter(ctx context.Context, s cli.Streams) (func(context.Context) (evacuate.Left, error), error) {
	cfg, err := c.Load()
	if err != nil {
		return nil, err
	}
	if c.Rabbitmqctl != "" {
		cfg.Logger = slog.New(slog.DiscardHandler) // the error says it all
		settings, vhost, control, err := c.settings(cfg)
		if err != nil {
			return nil, err
		}
		j := evacuate.Job{Nodes: control, Broker: settings.BrokerOptions("drain"), Vhost: vhost, Exchanges: c.Exchange}
		return j.Left, known(ctx, j)
	}
	api, err := c.api(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w; or give --rabbitmqctl, which also knows when the last message is due", err)
	}
	if err := api.Reachable(ctx); err != nil {
		return nil, err
	}
	fmt.Fprintln(s.Err, "Without --rabbitmqctl only the node that answers is counted, only exchanges that are still the plugin's, and when the last message is due is not known.")
	return c.byAPI(api), nil
}

func (c *drainCmd) byAPI(api *inventory.API) func(context.Context) (evacuate.Left, error) {
	return func(ctx context.Context) (left evacuate.Left, err error) {
		pending, err := api.Pending(ctx)
		if err != nil {
			return left, err
		}
		counted := 0
		for name, rows := range pending {
			if len(c.Exchange) == 0 || slices.Contains(c.Exchange, name) {
				left.Rows += int(rows)
				counted++
			}
		}
		if counted == 0 || counted < len(c.Exchange) {
			return left, errors.New("the management API counts exchanges of type x-delayed-message only, and these are none (after a switch give --rabbitmqctl)")
		}
		return left, nil
	}
}

func drainLine(s evacuate.DrainState, now time.Time) string {
	const width = 20
	done := width
	if s.First.Rows > 0 {
		done = width * max(0, s.First.Rows-s.Rows) / s.First.Rows
	}
	line := fmt.Sprintf("[%s%s] %s left", strings.Repeat("#", done), strings.Repeat("-", width-done), cli.Count(s.Rows, "message"))
	switch {
	case s.Rows == 0:
		return line
	case !s.Latest.IsZero():
		line += fmt.Sprintf(", the last is due %s", cli.Ago(s.Latest, now))
	case !s.Ends.IsZero():
		line += fmt.Sprintf(", at this rate until %s", s.Ends.Format("2006-01-02 15:04:05"))
	}
	if s.Arrives {
		line += "; more arrive"
	}
	return line
}
