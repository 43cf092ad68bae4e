package statuscmd

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/status"
)

// due is a table of what waits by the time when it is due, with a bar for each. What is overdue is
// one row.
func (v view) due(b *strings.Builder, one status.Backend) {
	var rows []barred
	if n, since := one.Overdue(v.now); *n > 0 {
		rows = append(rows, barred{[]string{"overdue, for " + cli.Age(since, v.now)}, *n, v.now.Sub(since) >= time.Minute})
	}
	for _, d := range one.Due {
		if d.To.After(v.now) {
			rows = append(rows, barred{[]string{cli.Stretch(d.From, d.To, v.now)}, d.Messages, false})
		}
	}
	most := 0
	for _, r := range rows {
		most = max(most, r.messages)
	}
	v.bars(b, []string{"DUE"}, most, rows)
}

// A view says how a status is shown.
type view struct {
	width int  // of the terminal
	all   bool // empty queues too
	now   time.Time

	colour bool // of lines that say what is wrong
}

// A barred row has a number of messages behind its cells, and a bar for them.
type barred struct {
	cells    []string
	messages int
	wrong    bool
}

// wrong is text that says what is wrong.
func (v view) wrong(text string) string {
	if v.colour {
		return cli.Alarm(text)
	}
	return text
}

// write adds a table, of which some rows say what is wrong.
func (v view) write(b *strings.Builder, t *cli.Table, wrong map[int]bool) {
	var all strings.Builder
	_ = t.Write(&all) // a Builder takes all
	row := -1         // the head
	for text := range strings.Lines(all.String()) {
		if wrong[row] {
			text = v.wrong(text)
		}
		b.WriteString(text)
		row++
	}
}

// bars is a table of rows, if there are any. The bar of most messages takes the room that is left.
func (v view) bars(b *strings.Builder, head []string, most int, rows []barred) {
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
	t, wrong := cli.NewTable(append(head, rightAligned("MESSAGES", number), "")...), map[int]bool{}
	for i, r := range rows {
		wrong[i] = r.wrong
		length := r.messages * max(room, least) / max(most, 1)
		if r.messages > 0 {
			length = max(1, length)
		}
		t.Add(append(r.cells, rightAligned(strconv.Itoa(r.messages), number), strings.Repeat("#", length))...)
	}
	v.write(b, t, wrong)
}

func rightAligned(text string, width int) string { return fmt.Sprintf("%*s", width, text) }
