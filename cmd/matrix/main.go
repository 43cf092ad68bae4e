// Command matrix runs the conformance suite and the short faults on every supported RabbitMQ
// series, each in a container of the image rabbitmq:<series>. It writes the results into
// docs/compatibility.md. `make test-matrix` runs it.
//
// A series without an image, here or to pull, is skipped and named. The exit status is 1 if a test
// failed, or if nothing was run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	series, suites string
	image          string
	doc            string
	timeout        time.Duration
	allow          time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.series, "series", "", "run only these, by commas: "+strings.Join(names(targets), ", "))
	flag.StringVar(&o.suites, "suite", "", "run only these, by commas: "+strings.Join(names(suites), ", "))
	flag.StringVar(&o.image, "image", officialImage, "the image of each series, such as one with the plugin")
	flag.StringVar(&o.doc, "doc", "docs/compatibility.md", "the page to write the tables into; empty for none")
	flag.DurationVar(&o.timeout, "timeout", time.Hour, "for each suite on each series")
	flag.DurationVar(&o.allow, "pull", 5*time.Minute, "for pulling an image")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "test-matrix:", err)
		os.Exit(1)
	}
}

// run runs the suites on all targets, and then writes the page.
func run(ctx context.Context, o options, out io.Writer) error {
	chosen, err := choose("series", o.series, targets)
	if err != nil {
		return err
	}
	which, err := choose("suite", o.suites, suites)
	if err != nil {
		return err
	}
	var reports []report
	for _, l := range chosen {
		reports = append(reports, l.run(ctx, o, which, out))
		if ctx.Err() != nil {
			return errors.New("interrupted: nothing was written")
		}
	}
	fresh := tablesOf(reports)
	fmt.Fprintf(out, "\n%s\n", fresh)
	if err := verdict(reports); err != nil {
		return err // only passed suites go to the page
	}
	if o.doc == "" {
		return nil
	}
	return rewrite(o.doc, fresh)
}

// verdict is nil if something was run and nothing failed.
func verdict(reports []report) error {
	ran := false
	var failed []string
	for _, r := range reports {
		ran = ran || r.skipped == ""
		for _, s := range r.suites {
			if n := s.failed(); n > 0 || s.broken != "" {
				failed = append(failed, fmt.Sprintf("%s, %s: %d tests failed%s", r.target.name, s.suite, n, prefixed("; ", s.broken)))
			}
		}
	}
	switch {
	case len(failed) > 0:
		return errors.New(strings.Join(failed, "\n"))
	case !ran:
		return errors.New("nothing was run: start a Docker engine, and docker pull rabbitmq:4.3")
	}
	return nil
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
