package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/status"
)

// A statusView says how a status is shown.
type statusView struct {
	width int  // of the terminal
	all   bool // empty queues too
	now   time.Time
}

// statusText is a status as a page.
func statusText(s status.Status, v statusView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "RabbitMQ %s at %s, prefix %s, Delayer %s\n", s.Broker.Version, s.Broker.Address, shown(s.Prefix), cli.Version())
	for _, one := range s.Backends {
		b.WriteString("\n" + backendTitle(one) + "\n")
		if one.Due != nil && !v.all {
			v.due(&b, one)
		} else {
			v.queues(&b, one)
		}
		controllers(&b, one)
	}
	v.aside(&b, s)
	statusNotes(&b, s, v.width)
	return b.String()
}

// backendTitle is what waits in a backend, in a sentence.
func backendTitle(b status.Backend) string {
	title := b.Name
	if !b.Configured {
		title += " (also under this prefix)"
	}
	if b.Waiting == nil {
		return title + ": how many messages wait is not known"
	}
	title += ": " + sentence(*b.Waiting)
	if len(b.Queues) > 0 {
		filled := 0
		for _, q := range b.Queues {
			if q.Messages > 0 {
				filled++
			}
		}
		title += fmt.Sprintf(" in %d of %s", filled, count(len(b.Queues), "queue"))
	}
	return title
}

func sentence(n int) string {
	if n == 1 {
		return "1 message waits"
	}
	return strconv.Itoa(n) + " messages wait"
}

// queues is a table with a bar for each queue. The longest bar is that of the fullest queue.
func (v statusView) queues(b *strings.Builder, one status.Backend) {
	var list []status.Queue
	most := 0
	for _, q := range one.Queues {
		if v.all || q.Messages > 0 {
			list = append(list, q)
		}
		most = max(most, q.Messages)
	}
	wait := 7
	for _, q := range list {
		wait = max(wait, len(waitOf(q)))
	}
	rows := make([]barred, len(list))
	for i, q := range list {
		rows[i] = barred{[]string{shown(q.Name), rightAligned(waitOf(q), wait)}, q.Messages}
	}
	v.bars(b, []string{"QUEUE", rightAligned("WAIT", wait)}, most, rows)
}

// A barred row has a number of messages behind its cells, and a bar for them.
type barred struct {
	cells    []string
	messages int
}

// bars is a table of rows, if there are any. The bar of most messages takes the room that is left.
func (v statusView) bars(b *strings.Builder, head []string, most int, rows []barred) {
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
	t := newTable(append(head, rightAligned("MESSAGES", number), "")...)
	for _, r := range rows {
		t.add(append(r.cells, rightAligned(strconv.Itoa(r.messages), number), bar(r.messages, most, max(room, least)))...)
	}
	_ = t.write(b) // a Builder takes all
}

func waitOf(q status.Queue) string {
	if q.Wait == 0 {
		return "-"
	}
	return short(time.Duration(q.Wait) * time.Millisecond)
}

// short is a duration without units that are zero: 1h, 12m30s, 250ms, 30d.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// bar is at least one character for a queue that is not empty.
func bar(n, most, room int) string {
	if n == 0 {
		return ""
	}
	return strings.Repeat("#", max(1, n*room/max(most, 1)))
}

func rightAligned(text string, width int) string { return fmt.Sprintf("%*s", width, text) }

// controllers says who is at work in a backend that needs controllers.
func controllers(b *strings.Builder, one status.Backend) {
	if one.Controllers == nil {
		return
	}
	switch n := *one.Controllers; {
	case n == 0:
		b.WriteString("no controller runs: messages wait until one does\n")
	case one.Held == nil:
		fmt.Fprintf(b, "%s at work; what they hold is not known\n", count(n, "controller"))
	default:
		fmt.Fprintf(b, "%s at work, %s held\n", count(n, "controller"), messages(*one.Held))
		t := newTable("CONTROLLER", "USER", rightAligned("HOLDS", 10))
		for _, c := range one.Each {
			from, _, _ := strings.Cut(c.Connection, " -> ")
			t.add(shown(from), shown(c.User), rightAligned(strconv.Itoa(c.Held), 10))
		}
		_ = t.write(b) // a Builder takes all
	}
}

// aside shows what was not delivered.
func (v statusView) aside(b *strings.Builder, s status.Status) {
	t := newTable("NOT DELIVERED", rightAligned("MESSAGES", 10), "FIRST DUE")
	if s.Unroutable != nil {
		due := "-"
		switch {
		case s.UnroutableDue != nil:
			due = ago(*s.UnroutableDue, v.now)
		case s.Unroutable.Messages > 0:
			due = "unknown"
		}
		t.add(shown(s.Unroutable.Name), rightAligned(strconv.Itoa(s.Unroutable.Messages), 10), due)
	}
	if s.Misrouted != nil {
		t.add(shown(s.Misrouted.Name), rightAligned(strconv.Itoa(s.Misrouted.Messages), 10), unknownIf(s.Misrouted.Messages))
	}
	for _, q := range s.Parked {
		if v.all || q.Messages > 0 {
			t.add(shown(q.Name), rightAligned(strconv.Itoa(q.Messages), 10), unknownIf(q.Messages))
		}
	}
	for _, q := range s.Others {
		t.add(shown(q.Name)+" (another configuration's)", rightAligned(strconv.Itoa(q.Messages), 10), unknownIf(q.Messages))
	}
	if len(t.rows) > 1 {
		b.WriteByte('\n')
		_ = t.write(b) // a Builder takes all
	}
}

// unknownIf is the due time of messages that nobody has looked at.
func unknownIf(n int) string {
	if n == 0 {
		return "-"
	}
	return "unknown"
}

// statusNotes are sentences on what is in the way, and on what is not known.
func statusNotes(b *strings.Builder, s status.Status, width int) {
	var list []string
	if s.Misrouted != nil && s.Misrouted.Consumers == 0 && s.Misrouted.Messages > 0 {
		list = append(list, "no Delayer sends misrouted messages on: does one run?")
	}
	for _, one := range s.Backends {
		if len(one.Missing) > 0 {
			list = append(list, fmt.Sprintf("%s: %s missing, %s first: is this the configuration of the Delayers? (delayer topology verify)",
				one.Name, count(len(one.Missing), "queue"), shown(one.Missing[0])))
		}
	}
	const most = 3 // one policy may harm every queue
	for _, p := range s.Policies[:min(most, len(s.Policies))] {
		list = append(list, "policy: "+p)
	}
	if more := len(s.Policies) - most; more > 0 {
		list = append(list, fmt.Sprintf("policies: and %d more, see delayer topology verify", more))
	}
	if s.Policies != nil && len(s.Policies) == 0 {
		list = append(list, "policies: none does harm")
	}
	list = append(list, unknowns(s)...)
	if len(list) > 0 {
		b.WriteByte('\n')
	}
	for _, note := range list {
		b.WriteString(wrapped(note, width-1))
	}
}

// unknowns has a sentence for each reason.
func unknowns(s status.Status) (list []string) {
	var reasons []string
	what := map[string][]string{}
	for _, u := range s.Unknown {
		if what[u.Why] == nil {
			reasons = append(reasons, u.Why)
		}
		what[u.Why] = append(what[u.Why], u.What)
	}
	for _, why := range reasons {
		list = append(list, "not known: "+strings.Join(what[why], ", ")+": "+why)
	}
	return list
}

// wrapped breaks a sentence into lines; those after the first are indented.
func wrapped(text string, width int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i > 0 && at+1+n > width:
			b.WriteString("\n  ")
			at = 2
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String() + "\n"
}

// statusLine is a status in one line, for a watch that is written to a file.
func statusLine(s status.Status) string {
	parts := []string{s.Time.Format(time.RFC3339)}
	for _, name := range []string{"waiting", "held", "controllers", "misrouted", "unroutable", "parked", "policies", "missing"} {
		text := "unknown"
		if n, ok := numbers[name](s); ok {
			text = strconv.Itoa(n)
		}
		parts = append(parts, name+"="+text)
	}
	return strings.Join(parts, " ")
}
