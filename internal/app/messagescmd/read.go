package messagescmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

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

type listing struct {
	Queue    string         `json:"queue"`
	Total    int            `json:"total"`
	Selected int            `json:"selected"`
	Messages []kept.Message `json:"messages"` // those that are shown, the oldest first
}

// Run prints a table, oldest first, and the number of messages.
func (c *listCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.with(ctx, func(client *undelivered.Client) error {
		l, look := listing{Queue: client.Queue(), Messages: []kept.Message{}}, kept.NewLook(client)
		total, _, err := c.walk(ctx, client, func(m *undelivered.Kept) error {
			m.Forget()
			if l.Selected++; c.Limit > 0 && l.Selected > c.Limit {
				return nil
			}
			shown, err := look.Message(ctx, m)
			l.Messages = append(l.Messages, shown)
			return err
		}, nil)
		if err != nil {
			return err
		}
		l.Total = total
		if c.JSON() {
			return cli.WriteJSON(s.Out, l)
		}
		t := unroutableTable(l.Messages)
		if client.Parked() {
			t = parkedTable(l.Messages)
		}
		if len(l.Messages) > 0 {
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
func unroutableTable(list []kept.Message) *cli.Table {
	t, now := cli.NewTable("DESTINATION", "KEY", "ID", "DUE", "HERE", "SIZE", "WHY"), time.Now()
	for _, e := range list {
		key := cli.OrDash(string(e.Key))
		if e.Exchange != nil && *e.Exchange == "" {
			key = "-" // it is the destination
		}
		t.Add(e.To, key, ids(e), cli.Ago(time.Time(e.Due), now), cli.Age(time.Time(e.Since), now), cli.Size(e.Size), e.Why)
	}
	return t
}

// parkedTable says how messages failed.
func parkedTable(list []kept.Message) *cli.Table {
	t, now := cli.NewTable("ID", "EXCHANGE", "KEY", "ATTEMPTS", "FIRST FAILURE", "SIZE", "WHY", "LAST ERROR"), time.Now()
	for _, e := range list {
		exchange, attempts := "", "-"
		if e.Exchange != nil {
			exchange = string(*e.Exchange)
		}
		if e.Attempts > 0 {
			attempts = strconv.Itoa(e.Attempts)
		}
		t.Add(ids(e), cli.OrDash(exchange), cli.OrDash(string(e.Key)), attempts,
			cli.Ago(e.First, now), cli.Size(e.Size), cli.Brief(e.Why), cli.Brief(e.LastError))
	}
	return t
}

type showCmd struct{ queueFlags }

// Help says which message is shown.
func (c *showCmd) Help() string {
	return "The oldest of the selected messages is shown. Without --id, --key or --exchange that is the first of the queue."
}

type showing struct {
	Queue    string     `json:"queue"`
	Total    int        `json:"total"`
	Selected int        `json:"selected"`
	Message  kept.Whole `json:"message"`
}

// Run prints the message as JSON. It fails if there is none.
func (c *showCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.with(ctx, func(client *undelivered.Client) error {
		var first *undelivered.Kept
		all := showing{Queue: client.Queue()}
		total, _, err := c.walk(ctx, client, func(m *undelivered.Kept) error {
			if all.Selected++; first == nil {
				first = m
			} else {
				m.Forget()
			}
			return nil
		}, nil)
		switch {
		case err != nil:
			return err
		case first == nil:
			return fmt.Errorf("there is no such message: %s in %s, none of them selected", cli.Count(total, "message"), client.Where())
		}
		all.Total = total
		shown, err := kept.NewLook(client).Message(ctx, first)
		if err != nil {
			return err
		}
		all.Message = shown.Whole(first)
		return cli.WriteJSON(s.Out, all)
	})
}

type exportCmd struct {
	queueFlags
	Out string `placeholder:"FILE" help:"Write to this new file instead of standard output."`
}

// Run writes one message a line.
func (c *exportCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.with(ctx, func(client *undelivered.Client) error { return c.export(ctx, client, s) })
}

func (c *exportCmd) export(ctx context.Context, client *undelivered.Client, s cli.Streams) (err error) {
	out := s.Out
	if c.Out != "" {
		file, err := os.OpenFile(c.Out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // bodies may be confidential
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		out = file
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	n, lines := 0, bufio.NewWriter(out)
	_, _, err = c.walk(ctx, client, func(m *undelivered.Kept) error {
		line, err := m.Export()
		if err != nil {
			return err
		}
		n++
		m.Forget()
		_, err = lines.Write(append(line, '\n'))
		return err
	}, nil)
	all := ""
	if err != nil {
		all = ", which are not all"
	}
	err = errors.Join(err, lines.Flush())
	if n > 0 || err == nil {
		_, said := fmt.Fprintf(s.Err, "exported %s of %s%s; they are still there\n", cli.Count(n, "message"), client.Where(), all)
		err = errors.Join(err, said)
	}
	return err
}
