package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/migration/evacuate"
	"github.com/delayer-go/delayer/internal/app/migration/node"
)

// evacuateCmd is `delayer migrate evacuate`.
type evacuateCmd struct {
	commonFlags
	Exchange []string      `sep:"none" placeholder:"NAME" help:"Only what waits for this exchange. May be repeated. Default: all of the vhost."`
	Leave    time.Duration `default:"5m" help:"Leave to the plugin what is due within this time (default ${default})."`
	DryRun   bool          `help:"Say what waits, and move nothing."`
}

func (c *evacuateCmd) Validate() error {
	if c.Rabbitmqctl == "" {
		return errNoControl
	}
	const least = 10 * time.Second
	if c.Leave < least {
		return fmt.Errorf("--leave must be at least %v: what falls due while it is moved would come twice", least)
	}
	return c.commonFlags.Validate()
}

// Run moves what waits in the plugin to the Delayer of the configuration. It stops between two
// batches when it is told to.
func (c *evacuateCmd) Run(ctx context.Context, s cli.Streams) error {
	j, cfg, err := c.job(ctx)
	if err != nil {
		return err
	}
	if c.DryRun {
		tables, err := j.Pending(ctx)
		if err != nil && !errors.Is(err, node.ErrUnreached) {
			return err
		}
		return errors.Join(c.printTables(s.Out, tables), err)
	}
	opening, cancel := c.Within(ctx)
	j.Delayer, err = flags.OpenBriefly(opening, cfg)
	cancel()
	if err != nil {
		return err
	}
	defer j.Delayer.Close()            //nolint:errcheck // each message is confirmed
	if j.Delayer.Limits().ExactTiers { // and what remains of a delay is any
		return errors.New("the configuration takes no other delays than its tiers (set rounding: up, or another backend)")
	}
	const sayEvery = 10 * time.Second
	show, said := cli.NewDisplay(s.Err), time.Time{}
	j.Progress = func(a evacuate.Account) {
		line := fmt.Sprintf("%d of %s moved, %d published", a.Moved, cli.Count(a.Before, "message"), a.Published)
		if show.Live() {
			show.Draw(line)
		} else if time.Since(said) >= sayEvery {
			said = time.Now()
			show.Logf("%s", line)
		}
	}
	account, err := j.Run(ctx)
	show.End()
	if n := evacuate.Sum(account.Refused); n > 0 {
		err = errors.Join(err, fmt.Errorf("the Delayer refused %s (remove the cause, and run this again)", cli.Count(n, "message")))
	}
	return errors.Join(c.print(s.Out, account, j.Prefix), err)
}

// job is the evacuation without its Delayer, and the configuration of that.
func (c *evacuateCmd) job(ctx context.Context) (evacuate.Job, backend.Config, error) {
	m, err := c.open()
	if err != nil {
		return evacuate.Job{}, backend.Config{}, err
	}
	settings, cfg := m.settings, m.cfg
	if cfg.Backend == "plugin" {
		return evacuate.Job{}, cfg, errors.New("the configuration's backend is the plugin itself (name another: backend: binaryladder)")
	}
	if cfg.Management != "" {
		problems, err := settings.Problems(ctx, evacuate.Plan(settings.Prefix))
		if err == nil && len(problems) > 0 {
			err = fmt.Errorf("%s (and %d more)", problems[0], len(problems)-1)
		}
		if err != nil {
			return evacuate.Job{}, cfg, err
		}
	}
	return evacuate.Job{
		Nodes: m.node, Broker: settings.BrokerOptions("evacuate"), Prefix: settings.Prefix, Vhost: m.vhost,
		Exchanges: c.Exchange, Leave: c.Leave,
	}, cfg, nil
}

func (c *evacuateCmd) printTables(out io.Writer, tables []node.Table) error {
	t, now, total := cli.NewTable("NODE", "EXCHANGE", "PENDING", "FIRST DUE", "LAST DUE"), time.Now(), 0
	for _, table := range tables {
		for _, w := range table.Exchanges {
			t.Add(table.Node, cli.Shown(w.Exchange), fmt.Sprint(w.Rows), cli.Ago(w.Earliest, now), cli.Ago(w.Latest, now))
			total += w.Rows
		}
		if len(table.Exchanges) == 0 {
			t.Add(table.Node, "-", "0", "-", "-")
		}
	}
	if err := t.Write(out); err != nil {
		return err
	}
	if total == 0 {
		c.printNothing(out)
	}
	_, err := fmt.Fprintf(out, "\n%s in the plugin. What is due within %v would stay there; the rest would be moved.\n", cli.Count(total, "message"), c.Leave)
	return err
}

// printNothing helps whose exchange is mistyped.
func (c *evacuateCmd) printNothing(out io.Writer) {
	if len(c.Exchange) > 0 {
		fmt.Fprintf(out, "nothing waits for %q (is --exchange right?)\n", c.Exchange)
	}
}

func (c *evacuateCmd) print(out io.Writer, a evacuate.Account, prefix string) error {
	refused := evacuate.Sum(a.Refused)
	t := cli.NewTable("MESSAGES", "")
	for _, row := range []struct {
		n    int
		what string
		show bool
	}{
		{a.Before, "were pending in the plugin", true},
		{a.Moved, "were moved out of it", true},
		{a.Found, "were left by an earlier run", a.Found > 0},
		{a.Published, "were published through the Delayer", true},
		{a.Twice, "of them came twice: the plugin has delivered them too", a.Twice > 0},
		{a.Perhaps, "of them may come twice: an earlier run was killed while it published them", a.Perhaps > 0},
		{a.After, "stay in the plugin, which delivers them when due", a.After > 0},
		{refused, fmt.Sprintf("were refused, and are in the queue %q; the next run tries them again", evacuate.Refused(prefix)), refused > 0},
	} {
		if row.show {
			t.Add(fmt.Sprint(row.n), row.what)
		}
	}
	if err := t.Write(out); err != nil {
		return err
	}
	if a.Before+a.Found == 0 {
		c.printNothing(out)
	}
	for _, reasons := range []map[string]int{a.Left, a.Refused} {
		for _, why := range slices.Sorted(maps.Keys(reasons)) {
			fmt.Fprintf(out, "%d: %s\n", reasons[why], why)
		}
	}
	return nil
}
