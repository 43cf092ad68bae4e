package faults

import (
	"context"
	"errors"
	"os/exec"
	"time"
)

// Controllers are the faults of controllers in processes of their own.
func Controllers() []Fault {
	return []Fault{
		{Name: "controllers elsewhere", Once: true, Alone: true, About: "nothing breaks, for comparison", Inject: serveElsewhere},
		{Name: "controller killed", Alone: true, About: "SIGKILL and start again, at random moments", Inject: killControllers},
		{Name: "controller paused", Alone: true, About: "one of two: SIGSTOP for longer than the heartbeat", Inject: pauseController},
	}
}

// A process is a controller of a run.
type process struct{ cmd *exec.Cmd }

func (s *Scene) startController(r *Run) (process, error) {
	cmd := r.Subject.Controller(s.delayerURLs[0], r.Prefix)
	return process{cmd}, cmd.Start()
}

// startControllers starts one for each run. After an error those that were started are among the
// answer.
func (s *Scene) startControllers() (started []process, err error) {
	err = s.each(func(r *Run) error {
		p, err := s.startController(r)
		if err == nil {
			started = append(started, p)
		}
		return err
	})
	return started, err
}

// end kills the process, paused or not, and returns when it is gone.
func (p process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // says that it was killed
}

func serveElsewhere(_ context.Context, s *Scene) error { return s.each(s.serveToTheEnd) }

// each does something for all runs. A fault takes each of its steps for all of them: while it was
// at work on one after the other, the messages of the last were as late as the fault takes for all
// others, 48 s of 52.9 once.
func (s *Scene) each(do func(*Run) error) error {
	for _, r := range s.Runs {
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

func killControllers(ctx context.Context, s *Scene) error {
	for range s.Times {
		alive, err := s.startControllers()
		if err == nil {
			err = s.between(ctx, 300*time.Millisecond, 2500*time.Millisecond)
		}
		for _, p := range alive {
			p.end()
		}
		if err != nil {
			return err
		}
	}
	return s.each(s.serveToTheEnd)
}

// serveToTheEnd runs one more controller until the run's Delayer is closed.
func (s *Scene) serveToTheEnd(r *Run) error {
	p, err := s.startController(r)
	r.onClose = append(r.onClose, p.end)
	r.fixed()
	return err
}

func pauseController(ctx context.Context, s *Scene) error {
	paused, err := s.startControllers()
	for i, p := range paused {
		s.Runs[i].onClose = append(s.Runs[i].onClose, p.end)
	}
	if err != nil {
		return err
	}
	if err := s.wait(ctx, settle); err != nil { // or the other might be the one that leads
		return err
	}
	if err := s.each(s.serveToTheEnd); err != nil {
		return err
	}
	if err := s.wait(ctx, settle); err != nil {
		return err
	}
	for _, p := range paused {
		err = errors.Join(err, p.cmd.Process.Signal(sigstop))
	}
	err = errors.Join(err, s.wait(ctx, s.Hold+10*time.Second))
	for _, p := range paused {
		err = errors.Join(err, p.cmd.Process.Signal(sigcont))
	}
	if err != nil {
		return err
	}
	for _, r := range s.Runs {
		r.fixed()
	}
	return s.work(ctx, 10)
}
