package bench

import (
	"sync"
	"time"

	"github.com/delayer-go/delayer/bench/report"
)

// An Event tells how far a benchmark is. One is sent when a run begins, about ten times a second
// while it lasts, and one with Done set when it is over.
type Event struct {
	Step, Steps int // the run's number, from 1
	Scenario    string
	Subject     string // its name in tables
	QueueType   string

	Published, Arrived int64         // messages so far, warm-up included
	Left               time.Duration // of the whole benchmark, guessed

	Done    *report.Run // the finished run, or nil
	Skipped string      // why this broker could not do the finished run, or ""
}

// eventInterval is how often a run reports.
const eventInterval = 100 * time.Millisecond

// A tracker turns the state of a benchmark into events.
type tracker struct {
	steps []step
	send  func(Event) // not nil
	began time.Time   // of the current step
}

// event describes step i. What is left is what remains of its estimate, and all steps after it.
func (t *tracker) event(i int) Event {
	s := t.steps[i]
	left := max(0, s.scenario.estimate(s.subject)-time.Since(t.began)) + estimate(t.steps[i+1:])
	return Event{
		Step: i + 1, Steps: len(t.steps), Left: left,
		Scenario: s.scenario.about().Name, Subject: s.subject.plainName(), QueueType: s.subject.QueueType,
	}
}

// step announces step i and returns a function that reports on its trial until stopped.
func (t *tracker) step(i int) func(*trial) (stop func()) {
	t.began = time.Now()
	t.send(t.event(i))
	return func(s *trial) func() {
		quit := make(chan struct{})
		var reporting sync.WaitGroup
		reporting.Go(func() {
			ticker := time.NewTicker(eventInterval)
			defer ticker.Stop()
			for {
				select {
				case <-quit:
					return
				case <-ticker.C:
					e := t.event(i)
					counts := s.recorder.Counts()
					e.Published, e.Arrived = int64(counts.Confirmed), int64(counts.Arrived)
					t.send(e)
				}
			}
		})
		return func() { close(quit); reporting.Wait() }
	}
}

func (t *tracker) done(i int, run result) {
	e := t.event(i)
	e.Left = estimate(t.steps[i+1:])
	e.Published, e.Arrived, e.Done, e.Skipped = int64(run.Published), int64(run.Delivered), &run.Run, run.skipped
	t.send(e)
}
