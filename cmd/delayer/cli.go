package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/bench"
)

// cli is the command line; kong reads it from the field tags.
type cli struct {
	Bench      benchGroup    `cmd:"" help:"Measure how late, how fast and at what cost each strategy delivers."`
	Send       sendCmd       `cmd:"" help:"Send one message that arrives later."`
	Controller controllerCmd `cmd:"" help:"Run a controller of the backend of that name, until it is told to stop."`
	Topology   topologyCmd   `cmd:"" help:"What a backend declares at the broker."`
	Unroutable unroutableCmd `cmd:"" help:"Care for the messages whose destination was gone when they were due."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

// streams is where a command reads and writes: results to out, everything else to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// What the process exits with.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // as a shell says of a process that Ctrl-C ended
)

// errInterrupted is returned by a command that was interrupted and has cleaned up.
var errInterrupted = errors.New("interrupted")

// run is the command without the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var commands cli
	exited := -1
	parser, err := kong.New(&commands,
		kong.Name("delayer"),
		kong.Description("Delayed messages on RabbitMQ."),
		kong.Writers(stdout, stderr),
		kong.Help(help),
		kong.Exit(func(status int) { exited = status }),
		kong.Vars{
			"subjects":  strings.Join(subjectNames(), ", "),
			"scenarios": strings.Join(scenarioNames(full.scenarios(bench.Load{})), ", "),
			"backends":  strings.Join(backend.Names(), ", "),
		},
	)
	if err != nil {
		fmt.Fprintln(stderr, "delayer:", err)
		return exitFailed
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	selected, err := parser.Parse(args)
	if exited >= 0 { // --help
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "delayer: %v (see %s --help)\n", err, path(err))
		return exitUsage
	}
	selected.BindTo(ctx, (*context.Context)(nil))
	return status(selected.Run(streams{stdin, stdout, stderr}), stderr)
}

// help prints that of a command, and where it does something without a further word, what it takes then.
func help(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	node := ctx.Selected()
	if node == nil || node.DefaultCmd == nil {
		return nil
	}
	fmt.Fprintln(ctx.Stdout)
	ctx.Path = append(ctx.Path, &kong.Path{Parent: node, Command: node.DefaultCmd, Flags: node.DefaultCmd.Flags})
	return kong.DefaultHelpPrinter(options, ctx)
}

// path is the command that a usage error is about.
func path(err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		return strings.TrimSpace("delayer " + parse.Context.Command())
	}
	return "delayer"
}

// failure says which command failed, once.
func failure(command string, err error) error {
	return fmt.Errorf("delayer %s: %s", command, strings.TrimPrefix(err.Error(), "delayer: "))
}

func status(err error, stderr io.Writer) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, err)
	var usage usageError
	switch {
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

// A usageError is found out while a command runs, and still about what was typed: a file that is no report.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }
