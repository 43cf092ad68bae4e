package statuscmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/remarks"
	"github.com/delayer-go/delayer/status"
)

func page(s status.Status, v view) string {
	var b strings.Builder
	fmt.Fprintf(&b, "RabbitMQ %s at %s, prefix %s, Delayer %s\n", s.Broker.Version, s.Broker.Address, cli.Shown(s.Prefix), cli.Version())
	for _, one := range s.Backends {
		b.WriteString("\n" + title(one) + "\n")
		if one.Due != nil && !v.all {
			v.due(&b, one)
		} else {
			v.queues(&b, one)
		}
		v.controllers(&b, one)
	}
	v.aside(&b, s)
	v.notes(&b, s)
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

// queues is a table with a bar for each queue. The longest bar is that of the fullest queue.
func (v view) queues(b *strings.Builder, one status.Backend) {
	var list []status.Queue
	most := 0
	for _, q := range one.Queues {
		if v.all || q.Messages > 0 {
			list = append(list, q)
		}
		most = max(most, q.Messages)
	}
	rows := make([]barred, len(list))
	wait := 7
	for _, q := range list {
		wait = max(wait, len(remarks.Wait(q)))
	}
	for i, q := range list {
		rows[i] = barred{[]string{cli.Shown(q.Name), rightAligned(remarks.Wait(q), wait)}, q.Messages}
	}
	v.bars(b, []string{"QUEUE", rightAligned("WAIT", wait)}, strings.ToUpper(remarks.Held(one))+"S", most, rows)
}

func (v view) controllers(b *strings.Builder, one status.Backend) {
	if one.Controllers == nil {
		return
	}
	switch n := *one.Controllers; {
	case n == 0:
		b.WriteString(remarks.NoController + "\n")
	case one.Held == nil:
		fmt.Fprintf(b, "%s at work; what they hold is not known\n", cli.Count(n, "controller"))
	default:
		fmt.Fprintf(b, "%s at work, %s held\n", cli.Count(n, "controller"), cli.Count(*one.Held, remarks.Held(one)))
		t := cli.NewTable("CONTROLLER", "DOES", "SINCE", "USER", rightAligned("HOLDS", 10))
		for _, c := range one.Each {
			since := "-"
			if c.Since != nil {
				since = cli.Age(*c.Since, v.now)
			}
			t.Add(cli.Plain(remarks.Process(c), ""), remarks.Does(c), since, cli.Shown(c.User), rightAligned(strconv.Itoa(c.Held), 10))
		}
		_ = t.Write(b) // a Builder takes all
	}
}

func (v view) aside(b *strings.Builder, s status.Status) {
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
	for _, q := range s.Parked {
		if v.all || q.Messages > 0 {
			add(q, "")
		}
	}
	for _, q := range s.Others {
		add(q, " (another configuration's)")
	}
	if t.Rows() > 0 {
		b.WriteByte('\n')
		_ = t.Write(b) // a Builder takes all
	}
}

// notes are sentences on what is in the way, and on what is not known.
func (v view) notes(b *strings.Builder, s status.Status) {
	for i, note := range remarks.Of(s) {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(cli.Wrap("", "  ", note.Text, v.width-1))
	}
}

// line is a status in one line, for a watch.
func line(s status.Status) string {
	parts := []string{s.Time.Format(time.RFC3339)}
	for _, name := range []string{"waiting", "held", "controllers", "misrouted", "unroutable", "parked", "policies", "bindings", "missing"} {
		text := "unknown"
		if n, ok := numbers[name](s); ok {
			text = strconv.Itoa(n)
		}
		parts = append(parts, name+"="+text)
	}
	return strings.Join(parts, " ")
}

// due is a table of what waits by the time when it is due, with a bar for each. What is overdue is
// one row.
func (v view) due(b *strings.Builder, one status.Backend) {
	var rows []barred
	most := 0
	for _, d := range remarks.Dues(one) {
		when := cli.Stretch(d.From, d.To, v.now)
		if remarks.IsOverdue(d) {
			when = "overdue, for " + cli.Age(d.From, v.now)
		}
		rows = append(rows, barred{[]string{when}, d.Messages})
		most = max(most, d.Messages)
	}
	v.bars(b, []string{"DUE"}, "MESSAGES", most, rows)
}

type view struct {
	width int  // of the terminal
	all   bool // empty queues too
	now   time.Time
}

// A barred row has a number of messages behind its cells, and a bar for them.
type barred struct {
	cells    []string
	messages int
}

// bars is a table of rows, if there are any. The bar of most messages takes the room that is left.
func (v view) bars(b *strings.Builder, head []string, what string, most int, rows []barred) {
	if len(rows) == 0 {
		return
	}
	const number, gap, least = 10, 2, 4
	room := v.width - 1 - number - gap
	for i, title := range head {
		widest := utf8.RuneCountInString(title)
		for _, r := range rows {
			widest = max(widest, utf8.RuneCountInString(r.cells[i]))
		}
		room -= widest + gap
	}
	t := cli.NewTable(append(head, rightAligned(what, number), "")...)
	for _, r := range rows {
		length := r.messages * max(room, least) / max(most, 1)
		if r.messages > 0 {
			length = max(1, length)
		}
		t.Add(append(r.cells, rightAligned(strconv.Itoa(r.messages), number), strings.Repeat("#", length))...)
	}
	_ = t.Write(b) // a Builder takes all
}

func rightAligned(text string, width int) string { return fmt.Sprintf("%*s", width, text) }
