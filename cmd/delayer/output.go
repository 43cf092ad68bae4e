package main

import (
	"encoding/json"
	"io"
)

// outputFlag is that of every command which prints a table.
type outputFlag struct {
	Output string `default:"text" enum:"text,json" help:"text, or json for scripts (${default})."`
}

func (f outputFlag) json() bool { return f.Output == "json" }

func writeJSON(out io.Writer, value any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}
