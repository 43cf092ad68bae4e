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
	"io"
	"os"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

func main() {
	cli.Main(func(ctx context.Context, _ []string, _ io.Reader, out, failed io.Writer) int {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			follow(ctx)
			stop()
		}()
		if err := run(ctx, out); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(failed, "demo:", err)
			return cli.Failed
		}
		return cli.OK
	})
}

// follow returns when whoever started this process has ended, such as a make that was killed.
func follow(ctx context.Context) {
	for parent := os.Getppid(); os.Getppid() == parent; {
		if pace.Sleep(ctx, time.Second) != nil {
			return
		}
	}
}
