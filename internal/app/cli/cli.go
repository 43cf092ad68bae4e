// Package cli is what all commands share: parsing, signals, exit statuses, and how they print.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit statuses.
const (
	OK          = 0
	Failed      = 1
	Usage       = 2
	Interrupted = 130 // what a shell reports after Ctrl-C
)

// ErrInterrupted is returned by a command that was interrupted and has cleaned up.
var ErrInterrupted = errors.New("interrupted")

// A Program is a command line. Commands is a struct that kong reads; their Run methods may take a
// context.Context and what Run binds. Run names the command in their errors.
type Program struct {
	Name, Description string
	Notes             string              // behind the help of the program
	Examples          map[string][]string // behind the help of a command, by its name; "" is the program
	Commands          any
	Vars              kong.Vars
}

// exitStatuses ends every help.
var exitStatuses = fmt.Sprintf("\nExit status: %d done, %d failed, %d used wrongly, %d interrupted.\n", OK, Failed, Usage, Interrupted)

// Main calls run with a context that SIGINT, SIGTERM or SIGHUP ends, and exits with its status. A
// second Ctrl-C ends the process at once. A hang-up that nohup ignores stays ignored.
func Main(run func(ctx context.Context, args []string, in io.Reader, out, err io.Writer) int) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Parser reads the command line. exit is called behind --help and --version.
func (p Program) Parser(stdout, stderr io.Writer, exit func(status int)) (*kong.Kong, error) {
	vars := kong.Vars{"version": fmt.Sprintf("%s %s, %s %s/%s", p.Name, Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)}
	maps.Copy(vars, p.Vars)
	return kong.New(p.Commands, kong.Name(p.Name), kong.Description(p.Description),
		kong.Writers(stdout, stderr), kong.Help(p.help), kong.Exit(exit), vars,
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}))
}

// Run parses args, runs the selected command with bound, and returns the exit status.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer, bound any) int {
	exited := -1
	parser, err := p.Parser(stdout, stderr, func(status int) { exited = status })
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", p.Name, err)
		return Failed
	}
	if len(args) > 0 && args[0] == "help" {
		args = append(args[1:len(args):len(args)], "--help")
	}
	selected, err := parser.Parse(args)
	if exited >= 0 { // --help or --version
		return exited
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v (see %s --help)\n", p.Name, err, p.path(err))
		return Usage
	}
	selected.BindTo(ctx, (*context.Context)(nil))
	return report(ctx, selected.Selected().FullPath(), selected.Run(bound), stderr)
}

// help also prints the flags of a default command, and the exit statuses.
func (p Program) help(options kong.HelpOptions, ctx *kong.Context) error {
	node := ctx.Selected()
	if node == nil {
		node = ctx.Model.Node
	} else {
		for _, child := range node.Children { // not under the group of node itself
			child.Group = &kong.Group{Key: "Commands:", Title: "Commands:"}
		}
	}
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	if node.DefaultCmd != nil {
		fmt.Fprintln(ctx.Stdout)
		ctx.Path = append(ctx.Path, &kong.Path{Parent: node, Command: node.DefaultCmd, Flags: node.DefaultCmd.Flags})
		if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
			return err
		}
	}
	p.examples(ctx.Stdout, node)
	if node == ctx.Model.Node && p.Notes != "" {
		fmt.Fprint(ctx.Stdout, "\n"+p.Notes)
	}
	_, err := fmt.Fprint(ctx.Stdout, exitStatuses)
	return err
}

// examples prints those of a command.
func (p Program) examples(out io.Writer, node *kong.Node) {
	list := p.Examples[strings.TrimPrefix(strings.TrimPrefix(node.FullPath(), p.Name), " ")]
	for i, line := range list {
		if i == 0 {
			fmt.Fprintln(out, "\nExamples:")
		}
		fmt.Fprintln(out, "  "+line)
	}
}

// path is the command that a usage error is about.
func (p Program) path(err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		return strings.TrimSpace(p.Name + " " + parse.Context.Command())
	}
	return p.Name
}

// report prints an error behind the name of its command. Whatever fails after an interrupt is due
// to that.
func report(ctx context.Context, command string, err error, stderr io.Writer) int {
	if err == nil {
		return OK
	}
	if ctx.Err() != nil && !errors.Is(err, ErrInterrupted) {
		err = ErrInterrupted
	}
	fmt.Fprintf(stderr, "%s: %s\n", command, strings.TrimPrefix(err.Error(), "delayer: ")) // of the library
	if errors.Is(err, ErrInterrupted) {
		return Interrupted
	}
	return Failed
}
