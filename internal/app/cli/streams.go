package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"
)

// Streams are where a command reads and writes: results to Out, everything else to Err.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// ReadAll reads standard input to its end, or until ctx ends.
func (s Streams) ReadAll(ctx context.Context) ([]byte, error) {
	return await(ctx, func() ([]byte, error) { return io.ReadAll(s.In) })
}

// await reads until ctx ends. The read cannot be cancelled, and goes on: the process ends soon.
func await[T any](ctx context.Context, read func() (T, error)) (got T, err error) {
	type result struct {
		got T
		err error
	}
	done := make(chan result, 1)
	go func() {
		got, err := read()
		done <- result{got, err}
	}()
	select {
	case r := <-done:
		return r.got, r.err
	case <-ctx.Done():
		return got, context.Cause(ctx)
	}
}

// Agree asks the user at the terminal to type a text. Without a terminal it is an error that names
// the flag which agrees.
func Agree(ctx context.Context, s Streams, question, text, flag string) error {
	if !IsTerminal(s.In) {
		return fmt.Errorf("standard input is no terminal: give %s to agree", flag)
	}
	fmt.Fprintf(s.Out, "%s Type %s to agree: ", question, text)
	typed, err := await(ctx, func() (string, error) {
		line, _ := bufio.NewReader(s.In).ReadString('\n')
		return strings.TrimSpace(line), nil
	})
	if err == nil && typed != text {
		err = errors.New("not agreed: nothing was changed")
	}
	return err
}

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

// Common is what every program has. A program embeds it behind its own commands.
type Common struct {
	Help        helpCmd          `cmd:"" group:"Other:" help:"Show the help of a command, as --help behind it does."`
	ShowVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

// helpCmd is `PROGRAM help`. It has no Run: [Program.Run] reads it as --help.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"The command, such as send."`
}

// Version is the module's version as the Go toolchain recorded it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
