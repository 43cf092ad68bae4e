package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/standing"
)

// statusCmd is `delayer migrate status`.
type statusCmd struct {
	commonFlags
	Pending bool `help:"Count what waits in the plugin; needs --rabbitmqctl. The broker reads the plugin's whole table for it."`
	cli.Format
}

func (c *statusCmd) Validate() error {
	if c.Pending && c.Rabbitmqctl == "" {
		return errors.New("--pending needs --rabbitmqctl: the management API counts one node only")
	}
	return c.commonFlags.Validate()
}

// Run prints a line for each exchange that is migrated, or could be.
func (c *statusCmd) Run(ctx context.Context, s cli.Streams) error {
	m, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer m.conn.Close()
	all, err := m.status(ctx)
	if err != nil {
		return err
	}
	if c.Pending {
		if err := m.addPending(ctx, s, all); err != nil {
			return err
		}
	}
	if c.JSON() {
		return cli.WriteJSON(s.Out, map[string]any{"exchanges": all})
	}
	return writeStatus(s.Out, all)
}

// status lists the records, and the exchanges of the plugin without one.
func (m *session) status(ctx context.Context) ([]*standing.Exchange, error) {
	begun, err := standing.Read(ctx, m.conn, m.api, m.settings.Prefix)
	if err != nil {
		return nil, err
	}
	delayed, err := m.api.Delayed(ctx)
	return standing.With(begun, m.settings.Prefix, delayed), err
}

// addPending counts what waits in the plugin, and says which nodes did not answer.
func (m *session) addPending(ctx context.Context, s cli.Streams, all []*standing.Exchange) error {
	tables, err := m.control.Pending(ctx)
	if errors.Is(err, node.ErrUnreached) {
		fmt.Fprintln(s.Err, "the counts are too low:", err)
	} else if err != nil {
		return err
	}
	for _, st := range all {
		rows := pendingOf(tables, m.vhost, st.Exchange)
		st.Pending = &rows
		if rows == 0 && err == nil && st.Step == record.Switched {
			st.Next = strings.Replace(st.Next, standing.Waits, "retire", 1)
		}
	}
	return nil
}

func writeStatus(out io.Writer, all []*standing.Exchange) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no exchange of the plugin, and no migration of this prefix")
		return err
	}
	t, now := cli.NewTable("EXCHANGE", "STEP", "MODE", "SINCE", "IN PLUGIN", "IN SERVE", "NEXT"), time.Now()
	number := func(n *int) string {
		if n == nil {
			return "-"
		}
		return strconv.Itoa(*n)
	}
	for _, st := range all {
		since := "-"
		if st.Since != nil {
			since = cli.Ago(*st.Since, now)
		}
		t.Add(cli.Shown(st.Exchange), cli.OrDash(string(st.Step)), cli.OrDash(string(st.Mode)), since, number(st.Pending), number(st.Serve), st.Next)
	}
	return t.Write(out)
}
