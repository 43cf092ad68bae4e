package faults

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"github.com/delayer-go/delayer/internal/lab/process"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// controllers are the faults of processes of delayer serve: of controllers, and of what passes on
// messages of clients.
func controllers() []Fault {
	return []Fault{
		{Name: "controller killed", Alone: true, Inject: killController},
		{Name: "controller paused", Alone: true, Inject: pauseController},
		{Name: "serve killed", Serve: true, Inject: killServing},
	}
}

// startControllers starts one for each run, which ends with the run.
func (s *Scene) startControllers() (started []*process.Service) {
	for _, r := range s.Runs {
		c := process.Keep(func(ctx context.Context) *exec.Cmd {
			cmd := r.Subject.Controller(ctx, "serve")
			cmd.Env = append([]string{"DELAYER_URL=" + s.delayerURLs[0], "DELAYER_PREFIX=" + r.Prefix}, r.Subject.Env...)
			return cmd
		})
		r.onClose = append(r.onClose, c.Close)
		started = append(started, c)
	}
	return started
}

// killController kills controllers, and starts them again, at random moments.
func killController(ctx context.Context, s *Scene) error {
	started := s.startControllers()
	for range s.Times {
		if err := s.between(ctx, 300*time.Millisecond, 2500*time.Millisecond); err != nil {
			return err
		}
		for _, c := range started {
			if err := c.Kill(ctx); err != nil {
				return err
			}
		}
	}
	s.fixed()
	return nil
}

// pauseController pauses the first of two controllers, which leads, for longer than the heartbeat.
func pauseController(ctx context.Context, s *Scene) error {
	var paused []*os.Process
	for _, c := range s.startControllers() {
		p, err := c.Next(ctx)
		if err != nil {
			return err
		}
		paused = append(paused, p)
	}
	if err := pace.Sleep(ctx, settle); err != nil { // or the other might be the one that leads
		return err
	}
	s.startControllers()
	err := pace.Sleep(ctx, settle)
	for _, p := range paused {
		err = errors.Join(err, p.Signal(sigstop))
	}
	err = errors.Join(err, pace.Sleep(ctx, s.Hold+10*time.Second))
	for _, p := range paused {
		err = errors.Join(err, p.Signal(sigcont))
	}
	s.fixed()
	if err != nil {
		return err
	}
	return s.work(ctx, 10)
}

// killServing kills each process and the broker, whatever the others do meanwhile: the processes
// twice as often as the broker.
func killServing(ctx context.Context, s *Scene) error {
	const turns = 4 // a process is killed in all but the last
	for i := range s.Times {
		if err := s.between(ctx, 300*time.Millisecond, 2500*time.Millisecond); err != nil {
			return err
		}
		var err error
		if i%turns == turns-1 {
			err = errors.Join(s.Broker.Kill(), s.Broker.Run(ctx))
		} else {
			err = s.each(func(r *Run) error {
				services := r.Delayer.(*serving).services
				return services[i%turns%len(services)].Kill(ctx)
			})
		}
		if err = errors.Join(err, s.work(ctx, 5)); err != nil {
			return err
		}
	}
	s.fixed()
	const after = 200 // which nothing can make come twice
	return s.work(ctx, after)
}
