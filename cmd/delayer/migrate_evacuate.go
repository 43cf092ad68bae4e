package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/migration/evacuate"
	"github.com/delayer-go/delayer/internal/migration/node"
)

// migrateEvacuateCmd is `delayer migrate evacuate`.
type migrateEvacuateCmd struct {
	migrateFlags
	Exchange []string      `sep:"none" placeholder:"NAME" help:"Only what waits for this exchange. May be repeated. Default: all of the vhost."`
	Leave    time.Duration `default:"5m" help:"Leave to the plugin what is due within this time (${default})."`
	DryRun   bool          `help:"Say what waits, and move nothing."`
	outputFlag
}

// Validate makes a value that cannot be right a usage error.
func (c *migrateEvacuateCmd) Validate() error {
	if c.Rabbitmqctl == "" {
		return errors.New("--rabbitmqctl is missing: the plugin's messages can be read on its nodes only")
	}
	const least = 10 * time.Second
	if c.Leave < least {
		return fmt.Errorf("--leave must be at least %v: what falls due while it is moved would come twice", least)
	}
	return c.migrateFlags.Validate()
}

// Run moves what waits in the plugin to the Delayer of the configuration. It stops between two
// batches when it is told to.
func (c *migrateEvacuateCmd) Run(ctx context.Context, s streams) error {
	if err := c.run(ctx, s); err != nil {
		return cli.InterruptedOr(ctx, failure("migrate evacuate", err))
	}
	return nil
}

func (c *migrateEvacuateCmd) run(ctx context.Context, s streams) error {
	j, cfg, err := c.job(ctx)
	if err == nil {
		err = known(ctx, j, evacuate.Staging(j.Prefix), evacuate.Refused(j.Prefix))
	}
	if err != nil {
		return err
	}
	if c.DryRun {
		tables, err := j.Pending(ctx)
		if err != nil && !errors.Is(err, node.ErrUnreached) {
			return err
		}
		return errors.Join(c.printTables(s.out, tables), err)
	}
	opening, cancel := c.within(ctx)
	j.Delayer, err = openBriefly(opening, cfg)
	cancel()
	if err != nil {
		return err
	}
	defer j.Delayer.Close() //nolint:errcheck // each message is confirmed
	if err := exact(j.Delayer.Limits()); err != nil {
		return err
	}
	show := cli.NewDisplay(s.err)
	p := evacuation{show: show, began: time.Now()}
	j.Progress = p.progress
	account, err := j.Run(ctx)
	show.End()
	return errors.Join(c.print(s.out, account, j.Prefix), err)
}

// exact refuses a Delayer that has only certain delays: what remains of a delay is any.
func exact(l delayer.Limits) error {
	if l.ExactTiers {
		return errors.New("the configuration takes no other delays than its tiers (set rounding: up, or another backend)")
	}
	return nil
}

// job is the evacuation without its Delayer, and the configuration of that.
func (c *migrateEvacuateCmd) job(ctx context.Context) (evacuate.Job, backend.Config, error) {
	cfg, err := c.load()
	if err != nil {
		return evacuate.Job{}, cfg, err
	}
	if cfg.Backend == "plugin" {
		return evacuate.Job{}, cfg, errors.New("the configuration's backend is the plugin itself (name another: backend: binaryladder)")
	}
	cfg.Logger = slog.New(slog.DiscardHandler) // the errors and the account are enough
	control, err := node.New(c.Rabbitmqctl)
	if err != nil {
		return evacuate.Job{}, cfg, err
	}
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return evacuate.Job{}, cfg, err
	}
	vhost, err := broker.Vhost(cfg.URL)
	if err != nil {
		return evacuate.Job{}, cfg, err
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
		Nodes: control, Broker: settings.BrokerOptions("evacuate"), Prefix: settings.Prefix, Vhost: vhost,
		Exchanges: c.Exchange, Leave: c.Leave,
	}, cfg, nil
}

// printTables says what waits, by node and exchange.
func (c *migrateEvacuateCmd) printTables(out io.Writer, tables []node.Table) error {
	if c.json() {
		return writeJSON(out, tables)
	}
	t, now, total := newTable("NODE", "EXCHANGE", "PENDING", "FIRST DUE", "LAST DUE"), time.Now(), 0
	for _, table := range tables {
		for _, w := range table.Exchanges {
			t.add(table.Node, shown(w.Exchange), fmt.Sprint(w.Rows), ago(w.Earliest, now), ago(w.Latest, now))
			total += w.Rows
		}
		if len(table.Exchanges) == 0 {
			t.add(table.Node, "-", "0", "-", "-")
		}
	}
	if err := t.write(out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s in the plugin. What is due within %v would stay there; the rest would be moved.\n", messages(total), c.Leave)
	return err
}

// print is the final account.
func (c *migrateEvacuateCmd) print(out io.Writer, a evacuate.Account, prefix string) error {
	if c.json() {
		return writeJSON(out, a)
	}
	left, refused := max(0, a.Before-a.Moved), evacuate.Sum(a.Refused)
	t := newTable("MESSAGES", "")
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
		{left, "stay in the plugin, which delivers them when due", left > 0},
		{refused, fmt.Sprintf("were refused, and are in the queue %q; the next run tries them again", evacuate.Refused(prefix)), refused > 0},
	} {
		if row.show {
			t.add(fmt.Sprint(row.n), row.what)
		}
	}
	if err := t.write(out); err != nil {
		return err
	}
	for _, reasons := range []map[string]int{a.Left, a.Refused} {
		for _, why := range slices.Sorted(maps.Keys(reasons)) {
			fmt.Fprintf(out, "%d: %s\n", reasons[why], why)
		}
	}
	return nil
}

// An evacuation shows its progress.
type evacuation struct {
	show  *cli.Display
	began time.Time
	said  time.Time
}

func (e *evacuation) progress(a evacuate.Account) {
	const sayEvery = 10 * time.Second
	line := progressLine(a, time.Since(e.began))
	switch {
	case e.show.Live():
		e.show.Draw(line)
	case time.Since(e.said) >= sayEvery:
		e.said = time.Now()
		e.show.Logf("%s", line)
	}
}

// progressLine is the count, the rate and the estimate.
func progressLine(a evacuate.Account, took time.Duration) string {
	seen := a.Moved + evacuate.Sum(a.Left)
	line := fmt.Sprintf("%d of %s moved", a.Moved, messages(a.Before))
	if a.Moved == 0 || took <= 0 {
		return line
	}
	rate := float64(seen) / took.Seconds()
	rest := time.Duration(float64(max(0, a.Before-seen)) / rate * float64(time.Second))
	return fmt.Sprintf("%s, %.0f/s, at most %v left", line, rate, rest.Round(time.Second))
}
