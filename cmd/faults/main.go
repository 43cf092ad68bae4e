// Command faults is the long fault campaign. It breaks brokers, connections, controllers and
// destinations while every backend publishes and delivers, accounts for every message, and writes
// the table.
//
// It is for contributors; `make faults` runs it. It starts its own brokers, as the tests do.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	var o options
	kong.Parse(&o, kong.Name("faults"), kong.Description("Break everything around every backend, and account for every message."))
	out := os.Stdout
	if o.JSON {
		out = os.Stderr
	}
	ok, err := run(ctx, o, out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}
