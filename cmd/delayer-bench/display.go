package main

import (
	"fmt"
	"time"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/internal/app/cli"
)

// show shows the progress: a live line on a terminal, otherwise one line per run.
func show(d *cli.Display, e bench.Event) {
	step := fmt.Sprintf("[%*d/%d]", len(fmt.Sprint(e.Steps)), e.Step, e.Steps)
	name := fmt.Sprintf("%s, %s, %s", e.Scenario, e.Subject, e.QueueType)
	switch {
	case e.Done != nil:
		d.Logf("%s %-*s  %s", step, nameWidth, name, outcome(e))
	case d.Live(): // most important first: the end may be cut off
		d.Draw(fmt.Sprintf("%s %s left: %s, %d sent, %d arrived", step, roughly(e.Left), name, e.Published, e.Arrived))
	}
}

// outcome is a finished run in a few words.
func outcome(e bench.Event) string {
	if e.Skipped != "" {
		return "skipped: " + e.Skipped
	}
	run := e.Done
	if problem := run.Problem(); problem != "" {
		return "FAILED: " + problem
	}
	if run.Delivered < run.Published {
		return fmt.Sprintf("only %d of %d arrived", run.Delivered, run.Published)
	}
	switch {
	case len(run.Probes) > 0:
		return fmt.Sprintf("in time up to %.0f msg/s", run.MaxRate)
	case run.ServesMS > 0:
		return fmt.Sprintf("serves after %.1f s, p99 %.0f ms late", run.ServesMS/1000, run.Lateness.P99)
	case run.DrainMS > 0:
		return fmt.Sprintf("over in %.0f ms", run.DrainMS)
	case run.MemoryPerMessage > 0:
		return fmt.Sprintf("%.0f B of memory each, p99 %.0f ms late", run.MemoryPerMessage, run.Lateness.P99)
	}
	return fmt.Sprintf("p50 %.0f ms late, p99 %.0f ms", run.Lateness.P50, run.Lateness.P99)
}

func roughly(left time.Duration) string {
	if left < time.Second {
		return "a moment"
	}
	return left.Round(time.Second).String()
}

// nameWidth aligns what follows a run's name.
const nameWidth = len("accuracy, NServiceBus ladder, classic")
