package migratecmd

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/migration/assess"
)

func writeAssessment(w io.Writer, a assess.Assessment) error {
	p := &page{}
	p.line(0, summaryOf(a))
	if len(a.Exchanges) > 0 {
		p.exchanges(a.Exchanges)
		p.bindings(a.Exchanges)
	}
	findings, changes, others, unseen := map[assess.Level][][2]string{}, [][2]string{}, [][2]string{}, [][2]string{}
	for _, f := range a.Findings {
		findings[f.Level] = append(findings[f.Level], [2]string{f.About + ": " + f.Says, f.Do})
	}
	for _, c := range a.Changes {
		changes = append(changes, [2]string{c.What + ": " + c.Before, c.After})
	}
	for _, l := range a.Others {
		state := "empty"
		if l.Messages > 0 {
			state = fmt.Sprintf("%s, the last due within %s", cli.Count(int(l.Messages), "message"), assess.Span(time.Duration(l.Drained)*time.Millisecond))
		}
		others = append(others, [2]string{fmt.Sprintf("%s: %s %s*: %s", l.Library, cli.Count(l.Levels, "queue"), l.Queues, state), l.Do})
	}
	for _, u := range a.Unseen {
		unseen = append(unseen, [2]string{u.What + ": " + u.Why})
	}
	p.list("In the way", findings[assess.Blocker])
	if len(a.Exchanges) > 0 {
		p.backends(a)
	}
	p.list("What changes for applications", changes)
	p.list("To decide before the switch", findings[assess.Warning])
	p.list("Good to know", findings[assess.Note])
	p.list("Delays of other libraries, which no step touches", others)
	p.list("Could not be seen", unseen)
	if a.Ready && len(a.Exchanges) > 0 {
		p.title("Nothing stands in the way. Next: delayer migrate prepare")
	}
	_, err := io.WriteString(w, p.text.String())
	return err
}

func summaryOf(a assess.Assessment) string {
	plugin := "without the plugin"
	if a.Enabled {
		plugin = strings.TrimSpace("with the plugin " + a.Plugin)
	}
	nodes := ""
	if len(a.Nodes) > 0 {
		nodes = ", " + cli.Count(len(a.Nodes), "node")
	}
	text := fmt.Sprintf("RabbitMQ %s %s%s, vhost %q", a.RabbitMQ, plugin, nodes, a.Vhost)
	if len(a.Exchanges) == 0 {
		return text + ": it has no exchange of type x-delayed-message, so there is nothing to migrate. (Another vhost? It is the one of the URL.)"
	}
	return text + "."
}

// A page is text of a bounded width.
type page struct{ text strings.Builder }

// pageWidth suits a terminal of 80 columns.
const pageWidth = 79

func (p *page) title(text string) { p.text.WriteString("\n" + text + "\n") }

// list writes pairs: what is the matter, and behind an arrow what follows from it.
func (p *page) list(title string, pairs [][2]string) {
	if len(pairs) > 0 {
		p.title(title)
	}
	for _, pair := range pairs {
		p.line(2, pair[0])
		if pair[1] != "" {
			p.line(4, "→ "+pair[1])
		}
	}
}

// line writes text behind an indentation.
func (p *page) line(indent int, text string) {
	spaces := strings.Repeat(" ", indent)
	p.text.WriteString(cli.Wrap(spaces, spaces, text, pageWidth))
}

func (p *page) table(t *cli.Table) {
	p.text.WriteByte('\n')
	_ = t.Write(&p.text) // a Builder does not fail
}

func (p *page) exchanges(list []assess.Exchange) {
	t := cli.NewTable("EXCHANGE", "TYPE", "PENDING", "PUBLISHED", "BOUND TO", "BOUND FROM", "ALTERNATE OF")
	for _, x := range list {
		alternateOf := "-"
		if n := len(x.AlternateOf); n > 0 {
			alternateOf = cli.Shown(x.AlternateOf[0])
			if n > 1 {
				alternateOf += fmt.Sprintf(" and %d more", n-1)
			}
		}
		t.Add(cli.Shown(x.Name), x.Type, pending(x), fmt.Sprintf("%.1f/s", x.Rate), strconv.Itoa(len(x.To)), strconv.Itoa(len(x.From)), alternateOf)
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

// mostBindings is how many bindings of one exchange are shown.
const mostBindings = 10

func (p *page) bindings(list []assess.Exchange) {
	t, left := cli.NewTable("FROM", "ROUTING KEY", "TO"), 0
	for _, x := range list {
		for i, b := range append(x.From[:len(x.From):len(x.From)], x.To...) {
			if i >= mostBindings {
				left++
				continue
			}
			key := cli.Shown(b.Key)
			if len(b.Arguments) > 0 {
				key += fmt.Sprintf(" and %s", cli.Count(len(b.Arguments), "argument"))
			}
			if i < len(x.From) {
				t.Add(cli.Shown(b.Name), key, "exchange "+cli.Shown(x.Name))
			} else {
				t.Add(cli.Shown(x.Name), key, b.Kind+" "+cli.Shown(b.Name))
			}
		}
	}
	if t.Rows() == 0 {
		return
	}
	p.table(t)
	if left > 0 {
		p.line(0, fmt.Sprintf("and %s (--output json has all)", cli.Count(left, "more binding")))
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
		p.text.WriteString(cli.Wrap(fmt.Sprintf("  %-4s  ", verdict), strings.Repeat(" ", 8), b.String(), pageWidth))
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
