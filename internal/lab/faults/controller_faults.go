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

// end kills the process, paused or not, and returns when it is gone.
func (p process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // says that it was killed
}

func serveElsewhere(_ context.Context, s *Scene) error {
	for _, r := range s.Runs {
		if err := s.serveToTheEnd(r); err != nil {
			return err
		}
	}
	return nil
}

func killControllers(ctx context.Context, s *Scene) (err error) {
	for _, r := range s.Runs {
		for range s.Times {
			p, err := s.startController(r)
			if err != nil {
				return err
			}
			err = s.between(ctx, 300*time.Millisecond, 2500*time.Millisecond)
			p.end()
			if err != nil {
				return err
			}
		}
		if err := s.serveToTheEnd(r); err != nil {
			return err
		}
	}
	return nil
}

// serveToTheEnd runs one more controller until the run's Delayer is closed.
func (s *Scene) serveToTheEnd(r *Run) error {
	p, err := s.startController(r)
	r.onClose = append(r.onClose, p.end)
	r.fixed()
	return err
}

func pauseController(ctx context.Context, s *Scene) error {
	for _, r := range s.Runs {
		paused, err := s.startController(r)
		if err != nil {
			return err
		}
		r.onClose = append(r.onClose, paused.end)
		if err := s.wait(ctx, settle); err != nil { // or the other might be the one that leads
			return err
		}
		if err := s.serveToTheEnd(r); err != nil {
			return err
		}
		if err := s.wait(ctx, settle); err != nil {
			return err
		}
		if err := paused.cmd.Process.Signal(sigstop); err != nil {
			return err
		}
		err = s.wait(ctx, s.Hold+10*time.Second)
		if err := errors.Join(err, paused.cmd.Process.Signal(sigcont)); err != nil {
			return err
		}
		r.fixed()
	}
	return s.work(ctx, 10)
}
