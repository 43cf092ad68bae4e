package bench

import (
	"sync"
	"time"

	"github.com/delayer-go/delayer/internal/lab/bench/report"
)

// An Event tells how far a benchmark is. One is sent when a run begins, about ten times a second
// while it lasts, and one with Done set when it is over.
type Event struct {
	Step, Steps int // the run's number, from 1
	Scenario    string
	Subject     string // its name in tables
	QueueType   string

	Published, Arrived int64 // messages so far, warm-up included

	Done    *report.Run // the finished run, or nil
	Skipped string      // why this broker could not do the finished run, or ""
}

// watch sends the event with the counts of a trial, again and again until stopped.
func watch(t *trial, event Event, send func(Event)) (stop func()) {
	quit := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				counts := t.recorder.Counts()
				event.Published, event.Arrived = int64(counts.Confirmed), int64(counts.Arrived)
				send(event)
			}
		}
	})
	return func() { close(quit); reporting.Wait() }
}
