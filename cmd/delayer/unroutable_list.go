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
	"github.com/delayer-go/delayer/internal/unroutable"
)

// unroutableListCmd is `delayer unroutable list`.
type unroutableListCmd struct {
	boxFlags
	Limit int `default:"100" placeholder:"N" help:"Show at most N, the oldest (${default}); 0 shows all."`
}

// Validate makes a value that cannot be right a usage error.
func (c *unroutableListCmd) Validate() error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit: %d is negative; 0 shows all", c.Limit)
	}
	return c.boxFlags.Validate()
}

// Run prints a table, oldest first, and how many there are.
func (c *unroutableListCmd) Run(ctx context.Context, s streams) error {
	return boxed(ctx, "list", &c.boxFlags, func(box *unroutable.Box) error { return c.list(ctx, box, s) })
}

func (c *unroutableListCmd) list(ctx context.Context, box *unroutable.Box, s streams) error {
	show := cli.NewDisplay(s.err)
	defer show.End()
	var found []*unroutable.Message
	sizes := map[*unroutable.Message]int{}
	selected := 0
	w := walk{box: box, flags: &c.boxFlags, show: show}
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
	look := newLook(box)
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
	_, err = fmt.Fprintln(s.out, c.summary(box.Queue(), len(found), selected, total))
	return err
}

// summary is how many there are, and how many of those are shown.
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

// A look finds out why messages are where they are, asking for each destination once.
type look struct {
	box   *unroutable.Box
	known map[[2]string]unroutable.Presence
}

// mostLooks bounds the questions; a destination beyond them is shown without an answer.
const mostLooks = 200

func newLook(box *unroutable.Box) *look {
	return &look{box: box, known: map[[2]string]unroutable.Presence{}}
}

// why is what can be known.
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
	case there == unroutable.Gone:
		return "no such " + what, nil
	case m.Early():
		return "its way was cut: retry", nil
	case there == unroutable.There:
		return what + " was gone, is there now: retry", nil
	}
	return what + " was gone", nil
}

func (l *look) there(ctx context.Context, m *unroutable.Message) (unroutable.Presence, error) {
	at := [2]string{m.Envelope.Exchange, ""}
	if at[0] == "" {
		at[1] = m.RoutingKey
	}
	there, asked := l.known[at]
	if asked || len(l.known) == mostLooks {
		return there, nil
	}
	there, err := l.box.Exists(ctx, at[0], at[1])
	if err == nil {
		l.known[at] = there
	}
	return there, err
}

// ended says that a walk has seen all.
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

// idOf is the id that Delayer gave it, and the message's own if it has one.
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
