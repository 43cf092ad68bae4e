// Command delayer compares ways of delaying RabbitMQ messages.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second Ctrl-C does not wait for the clean-up
	status := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	os.Exit(status)
}
