// Command faults is the long fault campaign. It breaks brokers, connections, controllers and
// destinations while every backend publishes and delivers, and accounts for every message.
//
// It is for contributors; `make faults` runs it. It starts its own brokers, as the tests do.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/delayer-go/delayer/internal/lab/faults"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	var o options
	kong.Parse(&o, kong.Name("faults"), kong.Description("Break everything around every backend, and account for every message."))
	var ok bool
	var err error
	if len(o.Table) > 0 {
		err = printTables(o.Table)
		ok = err == nil
	} else {
		ok, err = run(ctx, o, os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func printTables(files []string) error {
	for _, file := range files {
		s, err := readSeries(file)
		if err != nil {
			return err
		}
		fmt.Printf("### %s\n\n%s\n", s.Broker, s.Table())
	}
	return nil
}

func readSeries(file string) (s faults.Series, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}
