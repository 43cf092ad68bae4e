package main

import (
	"context"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/controllercmd"
	"github.com/delayer-go/delayer/internal/app/messagescmd"
	"github.com/delayer-go/delayer/internal/app/migratecmd"
	"github.com/delayer-go/delayer/internal/app/outboxcmd"
	"github.com/delayer-go/delayer/internal/app/sendcmd"
	"github.com/delayer-go/delayer/internal/app/statuscmd"
	"github.com/delayer-go/delayer/internal/app/topologycmd"
)

// commands is the command line; kong reads it from the field tags.
type commands struct {
	Send       sendcmd.Send             `cmd:"" help:"Send one message that arrives later."`
	Cancel     sendcmd.Cancel           `cmd:"" help:"Cancel messages that wait, by their tickets."`
	Reschedule sendcmd.Reschedule       `cmd:"" help:"Make a message that waits due at another time, by its ticket."`
	Controller controllercmd.Controller `cmd:"" help:"Run a controller for backend controller, until it is told to stop."`
	Status     statuscmd.Command        `cmd:"" help:"Show what waits where, what could not be delivered, and who is at work."`
	Topology   topologycmd.Command      `cmd:"" help:"Print, declare, verify or delete the broker objects of a backend."`
	Messages   messagescmd.Command      `cmd:"" help:"List, show, retry, export or purge messages that were not delivered: unroutable ones, and parked ones."`
	Outbox     outboxcmd.Command        `cmd:"" help:"Publish what applications committed to PostgreSQL."`
	Health     controllercmd.Health     `cmd:"" help:"Ask a command that listens whether it is well. For containers."`
	Migrate    migratecmd.Command       `cmd:"" help:"Leave the x-delayed-message plugin, step by step, with what waits in it."`
	cli.Common
}

// notes end the help of the program.
const notes = `Environment:
  DELAYER_URL       The broker's address, for every command. --url overrides it.
  DELAYER_…         Every other key of the configuration, such as DELAYER_BACKEND. Overrides --config.
  DELAYER_POSTGRES  The database of the outbox. --postgres overrides it.
`

// run is the command without the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	return program().Run(ctx, args, stdout, stderr, cli.Streams{In: stdin, Out: stdout, Err: stderr})
}

// program is the command line.
func program() cli.Program {
	return cli.Program{
		Name: "delayer", Description: "Delayed messages on RabbitMQ.", Notes: notes, Commands: &commands{},
		Vars: kong.Vars{"backends": strings.Join(backend.Names(), ", "), "numbers": statuscmd.NumberNames()},
	}
}
