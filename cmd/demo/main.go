// Command demo shows Delayer at work: a broker of its own, delayer serve with its page, messages
// that wait, and lines to paste. `make demo` runs it.
//
// It leaves nothing behind, even if it is killed: the broker ends with this process, everything
// else is in it, and no file is written.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/delayer-go/delayer/internal/lib/pace"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop)
	go func() {
		follow(ctx)
		stop()
	}()
	if err := run(ctx, os.Stdout); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// follow returns when whoever started this process has ended, such as a make that was killed.
func follow(ctx context.Context) {
	for parent := os.Getppid(); os.Getppid() == parent; {
		if pace.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}
