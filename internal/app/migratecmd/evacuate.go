package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/migration/evacuate"
)

type evacuateCmd struct {
	commonFlags
	Exchange []string      `sep:"none" placeholder:"NAME" help:"Only what waits for this exchange. May be repeated. Default: all of the vhost."`
	Leave    time.Duration `default:"5m" help:"Leave to the plugin what is due within this time (default ${default})."`
}

func (c *evacuateCmd) Validate() error {
	const least = 10 * time.Second
	if c.Leave < least {
		return fmt.Errorf("--leave must be at least %v: what falls due while it is moved would come twice", least)
	}
	return c.commonFlags.Validate()
}

// Run moves what waits in the plugin to the Delayer of the configuration. It stops between two
// batches when it is told to.
func (c *evacuateCmd) Run(ctx context.Context, s cli.Streams) error {
	m, err := c.open()
	if err != nil {
		return err
	}
	if m.cfg.Backend == "plugin" {
		return errors.New("the configuration's backend is the plugin itself (name another: backend: binaryladder)")
	}
	j := evacuate.Job{
		Nodes: m.node, Broker: m.settings.BrokerOptions("evacuate"), Prefix: m.settings.Prefix, Vhost: m.vhost,
		Exchanges: c.Exchange, Leave: c.Leave,
	}
	opening, cancel := c.Within(ctx)
	j.Delayer, err = flags.OpenBriefly(opening, m.cfg)
	cancel()
	if err != nil {
		return err
	}
	defer j.Delayer.Close()            //nolint:errcheck // each message is confirmed
	if j.Delayer.Limits().ExactTiers { // and what remains of a delay is any
		return errors.New("the configuration takes no other delays than its tiers (set rounding: up, or another backend)")
	}
	var said time.Time
	j.Progress = func(a evacuate.Account) {
		if time.Since(said) >= 10*time.Second {
			said = time.Now()
			fmt.Fprintf(s.Err, "%d of %s moved\n", a.Moved, cli.Count(a.Before, "message"))
		}
	}
	account, err := j.Run(ctx)
	return errors.Join(c.print(s.Out, account), err)
}

func (c *evacuateCmd) print(out io.Writer, a evacuate.Account) error {
	t := cli.NewTable("MESSAGES", "")
	t.Add(strconv.Itoa(a.Before), "were pending in the plugin")
	t.Add(strconv.Itoa(a.Moved), "were moved: published through the Delayer")
	t.Add(strconv.Itoa(a.Twice), "of them come twice: the plugin has delivered them too")
	t.Add(strconv.Itoa(a.After), "stay in the plugin, which delivers them when due")
	if err := t.Write(out); err != nil {
		return err
	}
	if a.Before == 0 && len(c.Exchange) > 0 {
		fmt.Fprintf(out, "nothing waits for %q (is --exchange right?)\n", c.Exchange)
	}
	for _, why := range slices.Sorted(maps.Keys(a.Left)) {
		fmt.Fprintf(out, "%d stay: %s\n", a.Left[why], why)
	}
	return nil
}
