package bench

import (
	"sync"
	"time"
)

// An Event tells how far a benchmark is. One is sent when a run begins, about ten times a second
// while it lasts, and one with Done set when it is over.
type Event struct {
	Step, Steps int // the run's number, from 1
	Scenario    string
	Subject     string
	QueueType   string

	Published, Arrived int64         // messages so far, warm-up included
	Left               time.Duration // of the whole benchmark, guessed

	Done *Run // the finished run, or nil
}

// eventInterval is how often a run reports.
const eventInterval = 100 * time.Millisecond

// A tracker turns the state of a benchmark into events.
type tracker struct {
	steps []step
	send  func(Event)
	began time.Time // of the current step
}

func newTracker(steps []step, send func(Event)) *tracker {
	if send == nil {
		send = func(Event) {}
	}
	return &tracker{steps: steps, send: send}
}

func (t *tracker) event(i int) Event {
	s := t.steps[i]
	return Event{
		Step: i + 1, Steps: len(t.steps), Left: t.left(i),
		Scenario: s.scenario.Name(), Subject: s.subject.Name(), QueueType: s.subject.QueueType,
	}
}

// left is what remains of the estimate of the current step, and all of those after it.
func (t *tracker) left(current int) time.Duration {
	return max(0, t.estimate(current)-time.Since(t.began)) + t.after(current)
}

func (t *tracker) after(current int) time.Duration {
	var sum time.Duration
	for i := current + 1; i < len(t.steps); i++ {
		sum += t.estimate(i)
	}
	return sum
}

func (t *tracker) estimate(i int) time.Duration {
	return t.steps[i].scenario.Estimate(t.steps[i].subject)
}

// step announces step i and returns a function that reports on its trial until stopped.
func (t *tracker) step(i int) func(*Trial) (stop func()) {
	t.began = time.Now()
	t.send(t.event(i))
	return func(s *Trial) func() {
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
					e.Published, e.Arrived = s.recorder.published.Load(), s.recorder.arrived.Load()
					t.send(e)
				}
			}
		})
		return func() { close(quit); reporting.Wait() }
	}
}

func (t *tracker) done(i int, run Run) {
	e := t.event(i)
	e.Left = t.after(i)
	e.Published, e.Arrived, e.Done = int64(run.Published), int64(run.Delivered), &run
	t.send(e)
}
