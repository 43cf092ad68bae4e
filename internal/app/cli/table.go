package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// A Table is text in columns.
type Table struct{ lines []string }

// NewTable returns a table with a heading for each column.
func NewTable(head ...string) *Table {
	t := &Table{}
	t.Add(head...)
	return t
}

// Add adds a row. Cells must have neither tabs nor line feeds: see Shown.
func (t *Table) Add(cells ...string) { t.lines = append(t.lines, strings.Join(cells, "\t")) }

// Rows is how many rows there are below the headings.
func (t *Table) Rows() int { return len(t.lines) - 1 }

// Write aligns the columns to the left. The last is not padded.
func (t *Table) Write(w io.Writer) error {
	const gap = 2
	columns := tabwriter.NewWriter(w, 0, 0, gap, ' ', 0)
	for _, line := range t.lines {
		fmt.Fprintln(columns, line)
	}
	return columns.Flush()
}

// Format is the flag of every command that prints a table.
type Format struct {
	Output string `default:"text" enum:"text,json" help:"text, or json for scripts (default ${default})."`
}

// JSON reports whether scripts read the output.
func (f Format) JSON() bool { return f.Output == "json" }

// WriteJSON writes a value, indented.
func WriteJSON(out io.Writer, value any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
