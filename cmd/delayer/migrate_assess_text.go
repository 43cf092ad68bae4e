package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/delayer-go/delayer/internal/migration/assess"
)

// writeAssessment writes an assessment for people.
func writeAssessment(w io.Writer, a assess.Assessment) error {
	p := &page{}
	p.line(0, summaryOf(a))
	if len(a.Exchanges) > 0 {
		p.exchanges(a.Exchanges)
		p.bindings(a.Exchanges)
	}
	p.findings("In the way", withLevel(a, assess.Blocker))
	if len(a.Exchanges) > 0 {
		p.backends(a)
		p.changes(a.Changes)
	}
	p.findings("To decide before the switch", withLevel(a, assess.Warning))
	p.findings("Good to know", withLevel(a, assess.Note))
	p.others(a.Others)
	p.unseen(a)
	if a.Ready && len(a.Exchanges) > 0 {
		p.title("Nothing stands in the way. Next: delayer migrate prepare")
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

// summaryOf is the first line.
func summaryOf(a assess.Assessment) string {
	plugin := "without the plugin"
	if a.Enabled {
		plugin = strings.TrimSpace("with the plugin " + a.Plugin)
	}
	nodes := ""
	if len(a.Nodes) > 0 {
		nodes = ", " + count(len(a.Nodes), "node")
	}
	text := fmt.Sprintf("RabbitMQ %s %s%s, vhost %q", a.RabbitMQ, plugin, nodes, a.Vhost)
	if len(a.Exchanges) == 0 {
		return text + ": it has no exchange of type x-delayed-message, so there is nothing to migrate. (Another vhost? It is the one of the URL.)"
	}
	return text + "."
}

func withLevel(a assess.Assessment, level assess.Level) []assess.Finding {
	var found []assess.Finding
	for _, f := range a.Findings {
		if f.Level == level {
			found = append(found, f)
		}
	}
	return found
}

// count is a number of things: "1 node", "2 nodes".
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// A page is text of a bounded width.
type page struct{ text strings.Builder }

// pageWidth suits a terminal of 80 columns.
const pageWidth = 79

func (p *page) title(text string) { p.text.WriteString("\n" + text + "\n") }

// item writes text behind a short word, in a column of its own.
func (p *page) item(word, text string) {
	p.text.WriteString(fmt.Sprintf("  %-4s  ", word))
	p.words(8, 8, text)
}

// line writes text behind an indentation, and breaks it between words.
func (p *page) line(indent int, text string) { p.words(0, indent, text) }

// words writes text from a column on, and breaks it between words.
func (p *page) words(column, indent int, text string) {
	first := column > 0
	for _, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		if column > indent && column+1+length > pageWidth {
			p.text.WriteByte('\n')
			column = 0
		}
		switch {
		case column == 0:
			p.text.WriteString(strings.Repeat(" ", indent))
			column = indent
		case !first:
			p.text.WriteByte(' ')
			column++
		}
		first = false
		p.text.WriteString(word)
		column += length
	}
	p.text.WriteByte('\n')
}

func (p *page) table(t *table) {
	p.text.WriteByte('\n')
	_ = t.write(&p.text) // a Builder does not fail
}

func (p *page) exchanges(list []assess.Exchange) {
	t := newTable("EXCHANGE", "TYPE", "PENDING", "PUBLISHED", "BOUND TO", "BOUND FROM", "ALTERNATE OF")
	for _, x := range list {
		t.add(shown(x.Name), x.Type, pending(x), fmt.Sprintf("%.1f/s", x.Rate), strconv.Itoa(len(x.To)), strconv.Itoa(len(x.From)), shownList(x.AlternateOf))
	}
	p.table(t)
}

// pending is how many wait; + says that other nodes may hold more.
func pending(x assess.Exchange) string {
	switch {
	case x.Pending == nil:
		return "?"
	case !x.AllNodes:
		return fmt.Sprintf("%d+", *x.Pending)
	}
	return strconv.FormatInt(*x.Pending, 10)
}

func shownList(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	if len(names) == 1 {
		return shown(names[0])
	}
	return fmt.Sprintf("%s and %d more", shown(names[0]), len(names)-1)
}

// mostBindings is how many bindings of one exchange are shown.
const mostBindings = 10

func (p *page) bindings(list []assess.Exchange) {
	t, left := newTable("FROM", "ROUTING KEY", "TO"), 0
	for _, x := range list {
		for i, b := range append(x.From[:len(x.From):len(x.From)], x.To...) {
			if i >= mostBindings {
				left++
				continue
			}
			key := shown(b.Key)
			if len(b.Arguments) > 0 {
				key += fmt.Sprintf(" and %s", count(len(b.Arguments), "argument"))
			}
			if i < len(x.From) {
				t.add(shown(b.Name), key, "exchange "+shown(x.Name))
			} else {
				t.add(shown(x.Name), key, b.Kind+" "+shown(b.Name))
			}
		}
	}
	if len(t.rows) == 1 {
		return
	}
	p.table(t)
	if left > 0 {
		p.line(0, fmt.Sprintf("and %s (--output json has all)", count(left, "more binding")))
	}
}

func (p *page) backends(a assess.Assessment) {
	p.title("Which backend fits " + delaysOf(a.Delays))
	for _, b := range a.Backends {
		verdict := "no"
		switch {
		case b.Recommended:
			verdict = "best"
		case b.Fits:
			verdict = "yes"
		}
		p.item(verdict, b.String())
		p.line(8, b.Why)
	}
}

// delaysOf names the delays that are looked for, and whether they are known.
func delaysOf(d assess.Delays) string {
	longest, finest := time.Duration(d.Longest)*time.Millisecond, time.Duration(d.Finest)*time.Millisecond
	switch {
	case d.LongestAssumed && d.FinestAssumed:
		return "any x-delay that the plugin takes"
	case d.FinestAssumed:
		return fmt.Sprintf("x-delays up to %s, to the millisecond", assess.Span(longest))
	}
	return fmt.Sprintf("x-delays up to %s, such as %s", assess.Span(longest), finest)
}

func (p *page) changes(list []assess.Change) {
	p.title("What changes for applications")
	for _, c := range list {
		p.line(2, c.What+": "+c.Before)
		p.line(4, "→ "+c.After)
	}
}

func (p *page) findings(title string, list []assess.Finding) {
	if len(list) == 0 {
		return
	}
	p.title(title)
	for _, f := range list {
		p.line(2, f.About+": "+f.Says)
		if f.Do != "" {
			p.line(4, "→ "+f.Do)
		}
	}
}

func (p *page) others(list []assess.Ladder) {
	if len(list) == 0 {
		return
	}
	p.title("Delays of other libraries, which no step touches")
	for _, l := range list {
		state := "empty"
		if l.Messages > 0 {
			state = fmt.Sprintf("%s, the last due within %s", count(int(l.Messages), "message"), assess.Span(time.Duration(l.Drained)*time.Millisecond))
		}
		p.line(2, fmt.Sprintf("%s: %s %s*: %s", l.Library, count(l.Levels, "queue"), l.Queues, state))
		p.line(4, "→ "+l.Do)
	}
}

func (p *page) unseen(a assess.Assessment) {
	if len(a.Unseen) == 0 {
		return
	}
	p.title("Could not be seen")
	for _, u := range a.Unseen {
		p.line(2, u.What+": "+u.Why)
	}
}
