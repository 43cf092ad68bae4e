package statuscmd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/remarks"
	"github.com/delayer-go/delayer/internal/lib/format"
	"github.com/delayer-go/delayer/status"
)

// page is a status for people.
func page(s status.Status, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "RabbitMQ %s at %s, prefix %s, Delayer %s\n", s.Broker.Version, s.Broker.Address, cli.Shown(s.Prefix), cli.Version())
	for _, one := range s.Backends {
		b.WriteString("\n" + title(one) + "\n")
		if one.Due != nil {
			due(&b, one, now)
		} else {
			queues(&b, one)
		}
		controllers(&b, one)
	}
	aside(&b, s)
	for i, note := range remarks.Of(s) {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(format.Wrap("", "  ", note.Text))
	}
	return b.String()
}

// title is what waits in a backend, in a sentence.
func title(b status.Backend) string {
	title := b.Name
	if !b.Configured {
		title += " (also under this prefix)"
	}
	if b.Waiting == nil {
		return title + ": how many messages wait is not known"
	}
	title += fmt.Sprintf(": %s%d messages wait", remarks.About(b), *b.Waiting)
	if *b.Waiting == 1 {
		title = strings.TrimSuffix(title, "s wait") + " waits"
	}
	if len(b.Queues) > 0 && b.Unread == nil {
		filled := 0
		for _, q := range b.Queues {
			if q.Messages > 0 {
				filled++
			}
		}
		title += fmt.Sprintf(" in %d of %s", filled, cli.Count(len(b.Queues), "queue"))
	}
	return title
}

func queues(b *strings.Builder, one status.Backend) {
	t := cli.NewTable("QUEUE", rightAligned("WAIT", 7), rightAligned(strings.ToUpper(remarks.Held(one))+"S", 10))
	for _, q := range one.Queues {
		if q.Messages > 0 {
			t.Add(cli.Shown(q.Name), rightAligned(remarks.Wait(q), 7), rightAligned(strconv.Itoa(q.Messages), 10))
		}
	}
	write(b, t)
}

// due is a table of what waits by the time when it is due. What is overdue is one row.
func due(b *strings.Builder, one status.Backend, now time.Time) {
	t := cli.NewTable("DUE", rightAligned("MESSAGES", 10))
	for _, d := range remarks.Dues(one) {
		when := cli.Stretch(d.From, d.To, now)
		if remarks.IsOverdue(d) {
			when = "overdue, for " + cli.Age(d.From, now)
		}
		t.Add(when, rightAligned(strconv.Itoa(d.Messages), 10))
	}
	write(b, t)
}

// write writes a table that has rows.
func write(b *strings.Builder, t *cli.Table) {
	if t.Rows() > 0 {
		_ = t.Write(b) // a Builder takes all
	}
}

func controllers(b *strings.Builder, one status.Backend) {
	switch n := one.Controllers; {
	case n == nil:
	case *n == 0:
		b.WriteString(remarks.NoController + "\n")
	default:
		b.WriteString(cli.Count(*n, "controller") + " at work\n")
	}
}

func aside(b *strings.Builder, s status.Status) {
	t := cli.NewTable("NOT DELIVERED", rightAligned("MESSAGES", 10))
	add := func(q status.Queue, of string) {
		t.Add(cli.Shown(q.Name)+of, rightAligned(strconv.Itoa(q.Messages), 10))
	}
	if s.Unroutable != nil {
		add(*s.Unroutable, "")
	}
	if s.Misrouted != nil {
		add(*s.Misrouted, "")
	}
	for _, q := range slices.Concat(s.Parked, s.Entries) {
		if q.Messages > 0 {
			add(q, "")
		}
	}
	for _, q := range s.Others {
		add(q, " (another configuration's)")
	}
	if t.Rows() > 0 {
		b.WriteByte('\n')
	}
	write(b, t)
}

// line is a status in one line, for a watch.
func line(s status.Status) string {
	parts := []string{s.Time.Format(time.RFC3339)}
	for _, name := range []string{"waiting", "controllers", "misrouted", "unroutable", "parked", "policies", "bindings", "missing"} {
		text := "unknown"
		if n, ok := numbers[name](s); ok {
			text = strconv.Itoa(n)
		}
		parts = append(parts, name+"="+text)
	}
	return strings.Join(parts, " ")
}

func rightAligned(text string, width int) string { return fmt.Sprintf("%*s", width, text) }
