package messagescmd

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

// listCmd is `delayer messages list`.
type listCmd struct {
	queueFlags
	cli.Format
	Limit int `default:"100" placeholder:"N" help:"Show only the oldest N (default ${default}). 0 shows all."`
}

// Validate refuses invalid values as usage errors.
func (c *listCmd) Validate() error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit: %d is negative; 0 shows all", c.Limit)
	}
	return c.queueFlags.Validate()
}

// A listing is what list --output json writes.
type listing struct {
	Queue    string  `json:"queue"`
	Total    int     `json:"total"`
	Selected int     `json:"selected"`
	Messages []entry `json:"messages"` // those that are shown, the oldest first
}

// Run prints a table, oldest first, and the number of messages.
func (c *listCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.with(ctx, func(client *undelivered.Client) error {
		var list []*undelivered.Kept
		l := listing{Queue: client.Queue()}
		total, _, err := c.walk(ctx, client, s, func(m *undelivered.Kept) error {
			if l.Selected++; c.Limit == 0 || l.Selected <= c.Limit {
				list = append(list, m)
			}
			m.Forget()
			return nil
		}, nil)
		if err != nil {
			return err
		}
		l.Total = total
		if l.Messages, err = entries(ctx, client, list); err != nil {
			return err
		}
		if c.JSON() {
			return cli.WriteJSON(s.Out, l)
		}
		t := unroutableTable(l.Messages, list)
		if client.Parked() {
			t = parkedTable(l.Messages)
		}
		if len(list) > 0 {
			_ = t.Write(s.Out) // the next line says
			fmt.Fprintln(s.Out)
		}
		_, err = fmt.Fprintln(s.Out, c.summary(l, client.Where()))
		return err
	})
}

// summary says how many messages there are, and how many are shown.
func (c *listCmd) summary(l listing, where string) string {
	if l.Total == 0 {
		return l.Queue + " is empty."
	}
	text := fmt.Sprintf("%s in %s", cli.Count(l.Total, "message"), where)
	if c.filtered() {
		text += fmt.Sprintf(", %d of them selected", l.Selected)
	}
	if shown := len(l.Messages); shown < l.Selected {
		text += fmt.Sprintf("; the oldest %d are shown (--limit 0 shows all)", shown)
	}
	return text + "."
}

// unroutableTable says where messages were to go.
func unroutableTable(entries []entry, list []*undelivered.Kept) *cli.Table {
	t, now := cli.NewTable("DESTINATION", "KEY", "ID", "DUE", "HERE", "SIZE", "WHY"), time.Now()
	for i, e := range entries {
		key := cli.OrDash(string(e.Key))
		if e.Exchange != nil && *e.Exchange == "" {
			key = "-" // it is the destination
		}
		t.Add(kept.Destination(list[i]), key, e.ids(), cli.Ago(time.Time(e.Due), now), cli.Age(time.Time(e.Since), now), cli.Size(e.Size), e.Why)
	}
	return t
}

// parkedTable says how messages failed.
func parkedTable(entries []entry) *cli.Table {
	t, now := cli.NewTable("ID", "EXCHANGE", "KEY", "ATTEMPTS", "FIRST FAILURE", "SIZE", "WHY", "LAST ERROR"), time.Now()
	for _, e := range entries {
		exchange, attempts := "", "-"
		if e.Exchange != nil {
			exchange = string(*e.Exchange)
		}
		if e.Attempts > 0 {
			attempts = strconv.Itoa(e.Attempts)
		}
		t.Add(e.ids(), cli.OrDash(exchange), cli.OrDash(string(e.Key)), attempts,
			cli.Ago(e.First, now), cli.Size(e.Size), cli.Brief(e.Why), cli.Brief(e.LastError))
	}
	return t
}
