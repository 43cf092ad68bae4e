package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The states of an order.
const (
	initial = "I"
	sent    = "S"
	failed  = "F"
)

// An order is what the view shows of one.
type order struct {
	ID       int64
	State    string
	Attempts int
	Error    string
}

func readOrders(ctx context.Context, pool *pgxpool.Pool) ([]order, error) {
	rows, err := pool.Query(ctx, "SELECT id, state, attempts, coalesce(error, '') FROM orders ORDER BY id")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[order])
}

func ended(list []order) bool {
	for _, o := range list {
		if o.State == initial {
			return false
		}
	}
	return len(list) > 0
}

// A view draws the orders. A terminal shows one table, which changes; a file gets a line for each
// change, and the table at the end.
type view struct {
	out    io.Writer
	live   bool
	drawn  int // lines of the table that is on the terminal
	events []string
	last   map[int64]order
	table  string
}

func newView(out *os.File) *view {
	about, err := out.Stat()
	live := err == nil && about.Mode()&os.ModeCharDevice != 0
	return &view{out: out, live: live, last: map[int64]order{}}
}

// event notes what is done to the program.
func (v *view) event(at time.Duration, what string) {
	line := stamp(at) + what
	v.events = append(v.events, line)
	if !v.live {
		fmt.Fprintln(v.out, line)
	}
}

func (v *view) draw(at time.Duration, list []order) {
	v.table = table(list)
	if !v.live {
		v.changes(at, list)
		return
	}
	lines := strings.Split(v.table+"\n"+strings.Join(v.events, "\n"), "\n")
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	for _, line := range lines {
		b.WriteString(line + "\x1b[K\n")
	}
	v.drawn = len(lines)
	_, _ = io.WriteString(v.out, b.String())
}

// changes writes a line for each order that is not as it was.
func (v *view) changes(at time.Duration, list []order) {
	for _, o := range list {
		if was, known := v.last[o.ID]; known && was != o {
			fmt.Fprintf(v.out, "%sorder %2d: %s → %s at attempt %d  %s\n", stamp(at), o.ID, was.State, o.State, o.Attempts, firstLine(o.Error))
		}
		v.last[o.ID] = o
	}
}

func (v *view) end() {
	if !v.live {
		fmt.Fprintf(v.out, "\n%s", v.table)
	}
	fmt.Fprintln(v.out, "\nEvery order has ended: S, or F with its message parked for a person to look at.")
}

func stamp(at time.Duration) string { return fmt.Sprintf("%5.1f s  ", at.Seconds()) }

// table shows attempts as dots: those that failed are hollow.
func table(list []order) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  order  state  attempts  last error\n")
	count := map[string]int{}
	for _, o := range list {
		count[o.State]++
		fmt.Fprintf(&b, "  %5d  %-5s  %-8s  %s\n", o.ID, o.State, dots(o), firstLine(o.Error))
	}
	fmt.Fprintf(&b, "\n  I %d   S %d   F %d\n", count[initial], count[sent], count[failed])
	return b.String()
}

func dots(o order) string {
	if o.Attempts > 0 && o.State == sent {
		return strings.Repeat("○ ", o.Attempts-1) + "●"
	}
	return strings.Repeat("○ ", o.Attempts)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
