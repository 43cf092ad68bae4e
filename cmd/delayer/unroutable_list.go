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
	outputFlag
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
	return withClient(ctx, "unroutable list", c.open, func(client *unroutable.Client) error { return c.list(ctx, client, s) })
}

func (c *unroutableListCmd) list(ctx context.Context, client *unroutable.Client, s streams) error {
	show := cli.NewDisplay(s.err)
	defer show.End()
	found, selected, total, err := oldest(ctx, client, c.Limit, c.selects, show)
	if err != nil {
		return err
	}
	show.End()
	why, err := newLook(client).reasons(ctx, found)
	if err != nil {
		return err
	}
	if c.json() {
		return writeJSON(s.out, listing{client.Queue(), total, selected, unroutableMessages(found, why)})
	}
	t := newTable("DESTINATION", "KEY", "ID", "DUE", "HERE", "SIZE", "WHY")
	now := time.Now()
	for i, m := range found {
		t.add(destination(m.Message), keyOf(m.Message), idOf(m.Message), ago(dueOf(m.Message), now), age(m.Came, now), size(m.size), why[i])
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

// A listing is what list --output json writes.
type listing struct {
	Queue    string `json:"queue"`
	Total    int    `json:"total"`
	Selected int    `json:"selected"`
	Messages any    `json:"messages"` // those that are shown, the oldest first
}

// messageIDs are Delayer's id and the message-id property.
type messageIDs struct {
	ID        string `json:"id,omitempty"`
	MessageID string `json:"message_id,omitempty"`
}

func idsOf(m *unroutable.Message) messageIDs {
	ids := messageIDs{MessageID: m.MessageId}
	if m.Ours {
		ids.ID = m.Envelope.ID
	}
	return ids
}

// unroutableMessage is what list --output json writes of a message.
type unroutableMessage struct {
	messageIDs
	Exchange *string   `json:"exchange"` // null if it is not known
	Key      string    `json:"routing_key"`
	Due      time.Time `json:"due,omitzero"`
	Since    time.Time `json:"since,omitzero"` // it is in the queue
	Size     int       `json:"size"`
	Why      string    `json:"why"`
}

func unroutableMessages(list []found, why []string) []unroutableMessage {
	all := make([]unroutableMessage, len(list))
	for i, m := range list {
		all[i] = unroutableMessage{idsOf(m.Message), nil, m.RoutingKey, dueOf(m.Message), m.Came, m.size, why[i]}
		if m.Ours {
			all[i].Exchange = &m.Envelope.Exchange
		}
	}
	return all
}

// A found message has let go of its body.
type found struct {
	*unroutable.Message
	size int // of the body
}

// oldest returns the first of the selected messages, limit 0 all, and how many are selected and there.
func oldest(
	ctx context.Context, client *unroutable.Client, limit int, selects func(*unroutable.Message) bool, show *cli.Display,
) (list []found, selected, total int, err error) {
	w := walk{client: client, selects: selects, show: show}
	w.visit = func(m *unroutable.Message) error {
		if selected++; limit == 0 || selected <= limit {
			list = append(list, found{m, len(m.Body)})
		}
		m.Forget()
		return nil
	}
	total, err = w.run(ctx)
	return list, selected, total, err
}

// summary says how many messages there are, and how many are shown.
func (c *unroutableListCmd) summary(queue string, shown, selected, total int) string {
	if total == 0 {
		return queue + " is empty: every message has found its destination."
	}
	return summary(queue, shown, selected, total, c.filtered())
}

func summary(queue string, shown, selected, total int, filtered bool) string {
	text := fmt.Sprintf("%s in %s", messages(total), queue)
	if filtered {
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

// reasons are why of each message.
func (l *look) reasons(ctx context.Context, list []found) ([]string, error) {
	all := make([]string, len(list))
	for i, m := range list {
		var err error
		if all[i], err = l.why(ctx, m.Message); err != nil {
			return nil, err
		}
	}
	return all, nil
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
