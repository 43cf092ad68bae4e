// Command delayer-bench measures ways of delaying RabbitMQ messages. See docs/testing.md.
package main

import (
	"context"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lab/bench"
)

// commands is the command line; kong reads it from the field tags.
type commands struct {
	Run    benchCmd  `cmd:"" default:"withargs" help:"Run the benchmark (default)."`
	Render renderCmd `cmd:"" help:"Write the pages of a report.json again."`
	cli.Common
}

type streams struct{ out, err io.Writer }

func main() { cli.Main(run) }

func run(ctx context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
	return program().Run(ctx, args, stdout, stderr, streams{stdout, stderr})
}

func program() cli.Program {
	return cli.Program{
		Name: "delayer-bench", Commands: &commands{},
		Description: "Measure how late, how fast and at what cost each backend delivers.",
		Vars: kong.Vars{
			"subjects":  strings.Join(subjectNames(), ", "),
			"scenarios": strings.Join(bench.Scenarios(), ", "),
		},
	}
}
