package main

import (
	"context"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/messagescmd"
	"github.com/delayer-go/delayer/internal/app/migratecmd"
	"github.com/delayer-go/delayer/internal/app/outboxcmd"
	"github.com/delayer-go/delayer/internal/app/sendcmd"
	"github.com/delayer-go/delayer/internal/app/servecmd"
	"github.com/delayer-go/delayer/internal/app/statuscmd"
	"github.com/delayer-go/delayer/internal/app/topologycmd"
)

type commands struct {
	Send     sendcmd.Send        `cmd:"" group:"Send:" help:"Send one message that arrives later."`
	Cancel   sendcmd.Cancel      `cmd:"" group:"Send:" help:"Cancel messages that wait, by their tickets."`
	Postpone sendcmd.Postpone    `cmd:"" group:"Send:" help:"Make a message that waits due later, by its ticket."`
	Status   statuscmd.Command   `cmd:"" group:"Look after:" help:"Show what waits where, what could not be delivered, and who is at work."`
	Messages messagescmd.Command `cmd:"" group:"Look after:" help:"List, show, retry, export or purge messages that were not delivered: unroutable ones, and parked ones."`
	Topology topologycmd.Command `cmd:"" group:"Look after:" help:"Print, declare, verify or delete the broker objects of a backend."`
	Serve    servecmd.Serve      `cmd:"" group:"Keep running:" help:"Give every language a delayed exchange, and turn the wheel of backend controller, until it is told to stop."`
	Outbox   outboxcmd.Command   `cmd:"" group:"Keep running:" help:"Publish what applications committed to PostgreSQL."`
	Health   servecmd.Health     `cmd:"" group:"Keep running:" help:"Ask a command that listens whether it is well. For containers."`
	Migrate  migratecmd.Command  `cmd:"" group:"Migrate:" help:"Leave the x-delayed-message plugin, step by step, with what waits in it."`
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

func program() cli.Program {
	return cli.Program{
		Name: "delayer", Description: "Delayed messages on RabbitMQ.", Notes: notes, Examples: examples, Commands: &commands{},
		Vars: kong.Vars{"backends": strings.Join(backend.Names(), ", "), "numbers": statuscmd.NumberNames()},
	}
}

// examples end the help of a command, by its name. "" is the program.
var examples = map[string][]string{
	"": {
		"delayer send --key jobs --delay 10s --body hello",
		"delayer status",
		"delayer help messages retry",
	},
	"send": {
		"delayer send --key jobs --delay 90s --body hello",
		"delayer send --exchange orders --key order.expired --delay 2d --body @order.json --content-type application/json",
		"delayer send --key jobs --at 2027-01-31T18:00 --message-id report-2027-01 --body -",
	},
	"messages": {"delayer messages list", "delayer messages retry orders.parked"},
	"serve":    {"delayer serve --config delayer.yaml --listen :8080"},
	"outbox":   {"delayer outbox migrate", "delayer outbox run --config delayer.yaml", "delayer outbox status"},
	"migrate":  {"delayer migrate assess --config delayer.yaml --rabbitmqctl rabbitmqctl"},
}
