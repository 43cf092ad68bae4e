// Command notify tells another service of each order, and tries again with growing delays when that
// fails: the workflow of docs/retries.md as a program to copy from.
//
//	notify setup     create the tables and the queue
//	notify save 12   save 12 orders in state I, each with its message, in one transaction each
//	notify relay     publish the messages of orders that were committed
//	notify worker    tell the service: S on success, F after the last attempt
//	notify sweep     send the messages of overdue orders again; run it every minute
//
// DATABASE_URL is the PostgreSQL, DELAYER_URL the RabbitMQ. DELAYER_BACKEND and the other variables
// of package backend select how messages wait. NOTIFY_SERVICE is the address of the other service.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

var roles = map[string]func(ctx context.Context, c config, args []string) error{
	"setup": setup, "save": save, "relay": relay, "worker": work, "sweep": sweep,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "notify:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || roles[args[0]] == nil {
		return fmt.Errorf("unknown role %q (want setup, save N, relay, worker or sweep)", args)
	}
	c, err := fromEnv()
	if err != nil {
		return err
	}
	return roles[args[0]](ctx, c, args[1:])
}
