package messagescmd

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

// showCmd is `delayer messages show`.
type showCmd struct {
	queueFlags
	cli.Format
}

// Help says which message is shown.
func (c *showCmd) Help() string {
	return "The oldest of the selected messages is shown. Without --id, --key or --exchange that is the first of the queue."
}

// A showing is what show --output json writes.
type showing struct {
	Queue    string `json:"queue"`
	Total    int    `json:"total"`
	Selected int    `json:"selected"`
	Message  whole  `json:"message"`
}

// whole is a message with all that it consists of.
type whole struct {
	entry
	Failures []failure `json:"failures,omitempty"` // the last ones, the oldest first
	undelivered.Content
}

// A failure is one attempt of a parked message.
type failure struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Error   string    `json:"error"`
}

// Run prints the message. It fails if there is none.
func (c *showCmd) Run(ctx context.Context, s cli.Streams) error {
	return c.with(ctx, func(client *undelivered.Client) error {
		var first *undelivered.Kept
		all := showing{Queue: client.Queue()}
		total, _, err := c.walk(ctx, client, s, func(m *undelivered.Kept) error {
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
		entries, err := entries(ctx, client, []*undelivered.Kept{first})
		if err != nil {
			return err
		}
		all.Message = wholeOf(first, entries[0])
		if c.JSON() {
			return cli.WriteJSON(s.Out, all)
		}
		_, err = io.WriteString(s.Out, page(all, kept.Destination(first)))
		return err
	})
}

func wholeOf(m *undelivered.Kept, e entry) whole {
	w := whole{entry: e, Content: m.Content()}
	if m.Parked != nil {
		for _, f := range m.Parked.History {
			w.Failures = append(w.Failures, failure{f.Attempt, f.At.UTC(), f.Error})
		}
	}
	return w
}

// page is a message for people.
func page(all showing, destination string) string {
	var b strings.Builder
	m, now := all.Message, time.Now()
	which := "1 of " + cli.Count(all.Total, "message")
	if all.Selected > 1 {
		which = fmt.Sprintf("the oldest of %d messages; --id selects another", all.Selected)
	}
	t := cli.NewTable("Queue", all.Queue+" ("+which+")")
	add := func(name, value string) {
		if value != "" {
			t.Add(name, cli.Plain(value, ""))
		}
	}
	at := func(name string, when time.Time) {
		if !when.IsZero() {
			add(name, when.UTC().Format(time.RFC3339)+" ("+cli.Ago(when, now)+")")
		}
	}
	add("Why", m.Why)
	add("Retry sends it to", destination)
	if m.Exchange != nil {
		add("Published to", fmt.Sprintf("exchange %q, routing key %q", string(*m.Exchange), string(m.Key)))
	}
	add("Id", string(m.ID))
	at("Due", time.Time(m.Due))
	at("Here since", time.Time(m.Since))
	if m.Attempts > 0 {
		add("Attempts", strconv.Itoa(m.Attempts))
	}
	at("First failure", m.First)
	_ = t.Write(&b) // a Builder takes all
	for _, f := range m.Failures {
		fmt.Fprintf(&b, "\nError of attempt %d, %s\n%s", f.Attempt, f.At.Format(time.RFC3339), indented(f.Error))
	}
	section(&b, "Properties", fields(m.Properties))
	section(&b, "Headers", m.Headers)
	b.WriteString("\nBody, " + cli.Size(m.Size) + "\n")
	if utf8.Valid(m.Body) {
		b.WriteString(indented(string(m.Body)))
	} else {
		b.WriteString(hex.Dump(m.Body))
	}
	return b.String()
}

// section lists values by name, if there are any.
func section(b *strings.Builder, title string, values map[string]any) {
	if len(values) == 0 {
		return
	}
	b.WriteString("\n" + title + "\n")
	width := 0
	for name := range values {
		width = max(width, utf8.RuneCountInString(cli.Plain(name, "")))
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(b, "  %-*s  %s\n", width, cli.Plain(name, ""), cli.Plain(inJSON(values[name]), ""))
	}
}

// fields are those of a struct, by their names in JSON.
func fields(of any) (values map[string]any) {
	_ = json.Unmarshal([]byte(inJSON(of)), &values) // which has just been written
	return values
}

// inJSON is a value on one line. What JSON has not, such as NaN, is as Go prints it.
func inJSON(value any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(value) != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// indented is text of several lines, for a terminal.
func indented(text string) string {
	if text == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(cli.Plain(strings.TrimSuffix(text, "\n"), "\n\t"), "\n", "\n  ") + "\n"
}
