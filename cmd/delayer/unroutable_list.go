package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/delivery"
	"github.com/delayer-go/delayer/internal/unroutable"
)

// unroutableListCmd is `delayer unroutable list`.
type unroutableListCmd struct {
	queueFlags
	Limit int `default:"100" placeholder:"N" help:"Show only the oldest N (${default}). 0 shows all."`
}

// Validate refuses invalid values as usage errors.
func (c *unroutableListCmd) Validate() error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit: %d is negative; 0 shows all", c.Limit)
	}
	return c.queueFlags.Validate()
}

// Run prints a table, oldest first, and the number of messages.
func (c *unroutableListCmd) Run(ctx context.Context, s streams) error {
	return withClient(ctx, "list", &c.queueFlags, func(client *unroutable.Client) error { return c.list(ctx, client, s) })
}

func (c *unroutableListCmd) list(ctx context.Context, client *unroutable.Client, s streams) error {
	show := cli.NewDisplay(s.err)
	defer show.End()
	var found []*unroutable.Message
	sizes := map[*unroutable.Message]int{}
	selected := 0
	w := walk{client: client, flags: &c.queueFlags, show: show}
	w.visit = func(m *unroutable.Message) error {
		if selected++; c.Limit == 0 || selected <= c.Limit {
			found = append(found, m)
			sizes[m] = len(m.Body)
		}
		m.Forget()
		return nil
	}
	total, err := w.run(ctx)
	if err != nil {
		return err
	}
	show.End()
	look := newLook(client)
	t := newTable("DESTINATION", "KEY", "ID", "DUE", "HERE", "SIZE", "WHY")
	now := time.Now()
	for _, m := range found {
		why, err := look.why(ctx, m)
		if err != nil {
			return err
		}
		t.add(destination(m), keyOf(m), idOf(m), ago(dueOf(m), now), age(m.Came, now), size(sizes[m]), why)
	}
	if len(found) > 0 {
		if err := t.write(s.out); err != nil {
			return err
		}
		fmt.Fprintln(s.out)
	}
	_, err = fmt.Fprintln(s.out, c.summary(client.Queue(), len(found), selected, total))
	return err
}

// summary says how many messages there are, and how many are shown.
func (c *unroutableListCmd) summary(queue string, shown, selected, total int) string {
	text := fmt.Sprintf("%s in %s", messages(total), queue)
	if total == 0 {
		return queue + " is empty: every message has found its destination."
	}
	if c.filtered() {
		text += fmt.Sprintf(", %d of them selected", selected)
	}
	if shown < selected {
		text += fmt.Sprintf("; the oldest %d are shown (--limit 0 shows all)", shown)
	}
	return text + "."
}

func messages(n int) string {
	if n == 1 {
		return "1 message"
	}
	return strconv.Itoa(n) + " messages"
}

// A look finds out why messages are unroutable. It asks for each destination once.
type look struct {
	client *unroutable.Client
	known  map[[2]string]delivery.Presence
}

// mostLooks bounds the questions. Further destinations are shown without an answer.
const mostLooks = 200

func newLook(client *unroutable.Client) *look {
	return &look{client: client, known: map[[2]string]delivery.Presence{}}
}

// why returns the reason, as far as it can be known.
func (l *look) why(ctx context.Context, m *unroutable.Message) (string, error) {
	if !m.Ours {
		return "no x-delayer header: not a Delayer's", nil
	}
	what := "exchange"
	if m.Envelope.Exchange == "" {
		what = "queue"
	}
	there, err := l.there(ctx, m)
	switch {
	case err != nil:
		return "", err
	case there == delivery.Gone:
		return "no such " + what, nil
	case m.Early():
		return "it was misrouted: retry", nil
	case there == delivery.There:
		return what + " was gone, is there now: retry", nil
	}
	return what + " was gone", nil
}

func (l *look) there(ctx context.Context, m *unroutable.Message) (delivery.Presence, error) {
	at := [2]string{m.Envelope.Exchange, ""}
	if at[0] == "" {
		at[1] = m.RoutingKey
	}
	there, asked := l.known[at]
	if asked || len(l.known) == mostLooks {
		return there, nil
	}
	there, err := l.client.Exists(ctx, at[0], at[1])
	if err == nil {
		l.known[at] = there
	}
	return there, err
}

// ended reports whether a walk has read all messages.
func ended(err error) bool { return errors.Is(err, io.EOF) }

func destination(m *unroutable.Message) string {
	switch {
	case !m.Ours:
		return "unknown"
	case m.Envelope.Exchange == "":
		return "queue " + shown(m.RoutingKey)
	}
	return "exchange " + shown(m.Envelope.Exchange)
}

// keyOf is the routing key; of a message straight to a queue it is the destination, shown already.
func keyOf(m *unroutable.Message) string {
	if m.Ours && m.Envelope.Exchange == "" || m.RoutingKey == "" {
		return "-"
	}
	return shown(m.RoutingKey)
}

// idOf returns Delayer's id, and the message-id property if there is one.
func idOf(m *unroutable.Message) string {
	var ids []string
	if m.Ours {
		ids = append(ids, shown(m.Envelope.ID))
	}
	if m.MessageId != "" {
		ids = append(ids, "message-id="+shown(m.MessageId))
	}
	if ids == nil {
		return "-"
	}
	return strings.Join(ids, " ")
}

func dueOf(m *unroutable.Message) time.Time {
	if !m.Ours {
		return time.Time{}
	}
	return m.Envelope.Due
}
