package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/cli"
)

// commands is the command line; kong reads it from the field tags.
type commands struct {
	Send       sendCmd       `cmd:"" help:"Send one message that arrives later."`
	Cancel     cancelCmd     `cmd:"" help:"Cancel messages that wait, by their tickets."`
	Reschedule rescheduleCmd `cmd:"" help:"Make a message that waits due at another time, by its ticket."`
	Controller controllerCmd `cmd:"" help:"Run a controller for backend controller, until it is told to stop."`
	Status     statusCmd     `cmd:"" help:"Show what waits where, what could not be delivered, and who is at work."`
	Topology   topologyCmd   `cmd:"" help:"Print, declare, verify or delete the broker objects of a backend."`
	Unroutable unroutableCmd `cmd:"" help:"List, retry, export or purge messages whose destination was gone when they were due."`
	Parked     parkedCmd     `cmd:"" help:"List, retry, export or purge messages that package retry has given up."`
	Outbox     outboxCmd     `cmd:"" help:"Publish what applications committed to PostgreSQL."`
	Health     healthCmd     `cmd:"" help:"Ask a command that listens whether it is well. For containers."`
	Migrate    migrateCmd    `cmd:"" help:"Leave the x-delayed-message plugin, step by step, with what waits in it."`
	cli.Common
}

// notes end the help of the program.
const notes = `Environment:
  DELAYER_URL       The broker's address, for every command. --url overrides it.
  DELAYER_…         Every other key of the configuration, such as DELAYER_BACKEND. Overrides --config.
  DELAYER_POSTGRES  The database of the outbox. --postgres overrides it.
`

// streams is where a command reads and writes: results to out, everything else to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run is the command without the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	return program().Run(ctx, args, stdout, stderr, streams{stdin, stdout, stderr})
}

// program is the command line.
func program() cli.Program {
	return cli.Program{
		Name: "delayer", Description: "Delayed messages on RabbitMQ.", Notes: notes, Commands: &commands{},
		Vars: kong.Vars{"backends": strings.Join(backend.Names(), ", "), "numbers": numberNames()},
	}
}

// failure names the command that failed.
func failure(command string, err error) error {
	return fmt.Errorf("delayer %s: %s", command, strings.TrimPrefix(err.Error(), "delayer: "))
}
