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
	Controller controllerCmd `cmd:"" help:"Run a controller for backend controller, until it is told to stop."`
	Status     statusCmd     `cmd:"" help:"Show what waits where, what could not be delivered, and who is at work."`
	Topology   topologyCmd   `cmd:"" help:"Print, declare, verify or delete the broker objects of a backend."`
	Unroutable unroutableCmd `cmd:"" help:"List, retry, export or purge messages whose destination was gone when they were due."`
	Parked     parkedCmd     `cmd:"" help:"List, retry, export or purge messages that package retry has given up."`
	Outbox     outboxCmd     `cmd:"" help:"Publish what applications committed to PostgreSQL."`
	Migrate    migrateCmd    `cmd:"" help:"Leave the x-delayed-message plugin, step by step, with what waits in it."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

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
	program := cli.Program{
		Name: "delayer", Description: "Delayed messages on RabbitMQ.", Commands: &commands{},
		Vars: kong.Vars{"backends": strings.Join(backend.Names(), ", "), "numbers": numberNames()},
	}
	return program.Run(ctx, args, stdout, stderr, streams{stdin, stdout, stderr})
}

// failure names the command that failed.
func failure(command string, err error) error {
	return fmt.Errorf("delayer %s: %s", command, strings.TrimPrefix(err.Error(), "delayer: "))
}
