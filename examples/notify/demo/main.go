// Command demo runs examples/notify and shows the states of its orders change, while it kills the
// worker and the relay with kill -9. It uses the RabbitMQ at AMQP_URL and the PostgreSQL at
// POSTGRES_URL, in a database of its own there, or starts private ones as the tests do.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/delayer-go/delayer/internal/lab/postgres"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	fmt.Println("examples/notify starts RabbitMQ and PostgreSQL …")
	broker, err := rabbit.Start(ctx, rabbit.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, broker.Close()) }()
	server, err := postgres.Start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	database, drop, err := ownDatabase(ctx, server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	folder, err := os.MkdirTemp("", "delayer-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	fmt.Printf("  %v\n  %v\n\n", broker, server)
	return show(ctx, broker.URL(), database, folder)
}
