package migratecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/assess"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/lib/format"
)

type assessCmd struct{ commonFlags }

func (c *assessCmd) Help() string {
	return "It counts what waits in the plugin: the broker reads the plugin's whole table for that. The exit status is 0 if nothing stands in the way, and 1 if something does, or if the broker could not be asked."
}

func (c *assessCmd) Run(ctx context.Context, s cli.Streams) error {
	m, err := c.reach(ctx)
	if err != nil {
		return err
	}
	cfg := m.cfg
	q := assess.Question{Prefix: cmp.Or(cfg.Prefix, backend.Default().Prefix), Backend: cmp.Or(cfg.Backend, backend.Default().Backend)}
	if q.Limits, err = backend.Limits(cfg); err != nil {
		return err
	}
	if q.Inventory, err = m.api.Look(ctx); err != nil {
		return err
	}
	tables, err := m.node.Pending(ctx)
	if err != nil && !errors.Is(err, node.ErrUnreached) {
		return err
	}
	q.Unreached = err
	if err := writeExchanges(s.Out, q, waiting(tables, m.vhost)); err != nil {
		return err
	}
	return writeFindings(s.Out, assess.Assess(q), len(q.Delayed))
}

type wait struct {
	rows   int
	latest time.Time
}

func waiting(tables []node.Table, vhost string) map[string]wait {
	all := map[string]wait{}
	for _, t := range tables {
		for _, w := range t.Exchanges {
			if w.Vhost != vhost {
				continue
			}
			sum := all[w.Exchange]
			sum.rows += w.Rows
			if w.Latest.After(sum.latest) {
				sum.latest = w.Latest
			}
			all[w.Exchange] = sum
		}
	}
	return all
}

func writeExchanges(out io.Writer, q assess.Question, waits map[string]wait) error {
	fmt.Fprintf(out, "RabbitMQ %s, %s, vhost %q\n", q.Version, cli.Count(len(q.Nodes), "node"), q.Vhost)
	steps := assess.Steps(q, func(exchange string) bool { return waits[exchange].rows == 0 })
	if len(steps) == 0 {
		_, err := fmt.Fprintln(out, "it has no exchange of type x-delayed-message, and no migration of this prefix: there is nothing to migrate (another vhost? it is the one of the URL)")
		return err
	}
	fmt.Fprintln(out)
	t, now := cli.NewTable("EXCHANGE", "TYPE", "MODE", "PENDING", "LAST DUE", "NEXT"), time.Now()
	for _, s := range steps {
		w := waits[s.Exchange]
		t.Add(cli.Shown(s.Exchange), s.Type, cli.OrDash(string(s.Mode)), strconv.Itoa(w.rows), cli.Ago(w.latest, now), s.Next)
	}
	return t.Write(out)
}

// writeFindings prints the checklist, and fails if something is in the way.
func writeFindings(out io.Writer, found []assess.Finding, exchanges int) error {
	titles := map[assess.Level]string{
		assess.Blocker: "In the way", assess.Warning: "To decide before the switch", assess.Note: "Good to know",
	}
	blockers := 0
	for i, f := range found {
		if i == 0 || f.Level != found[i-1].Level {
			fmt.Fprintf(out, "\n%s\n", titles[f.Level])
		}
		if f.Level == assess.Blocker {
			blockers++
		}
		fmt.Fprint(out, format.Wrap("  [ ] ", "      ", f.About+": "+f.Says))
		if f.Do != "" {
			fmt.Fprint(out, format.Wrap("      ", "        ", "→ "+f.Do))
		}
	}
	if blockers > 0 {
		return fmt.Errorf("%s in the way (each says what to do)", cli.Count(blockers, "obstacle"))
	}
	if exchanges > 0 {
		fmt.Fprintln(out, "\nNothing stands in the way. Next: delayer migrate switch")
	}
	return nil
}
