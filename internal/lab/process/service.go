package process

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A Service is a command that is started again whenever it has ended, as Docker, Kubernetes and
// systemd do.
type Service struct {
	started chan *os.Process // holds a process that runs, until Next returns it
	stop    context.CancelFunc
	loop    sync.WaitGroup
}

// Keep starts a service. command returns what to run; it ends when its context does.
func Keep(command func(context.Context) *exec.Cmd) *Service {
	ctx, stop := context.WithCancel(context.Background())
	s := &Service{started: make(chan *os.Process, 1), stop: stop}
	s.loop.Go(func() {
		for ctx.Err() == nil {
			if cmd := command(ctx); cmd.Start() == nil {
				s.started <- cmd.Process
				_ = cmd.Wait() // however it ends, it is started again
				select {
				case <-s.started:
				default:
				}
			}
			_ = pace.Sleep(ctx, 200*time.Millisecond)
		}
	})
	return s
}

// Next waits for a process that it has not returned yet.
func (s *Service) Next(ctx context.Context) (*os.Process, error) {
	select {
	case p := <-s.started:
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Kill kills a process that Next has not returned, with SIGKILL, once there is one.
func (s *Service) Kill(ctx context.Context) error {
	p, err := s.Next(ctx)
	if err != nil {
		return err
	}
	_ = p.Kill() // it may just have ended
	return nil
}

// Close ends the service, and returns when its process is gone.
func (s *Service) Close() {
	s.stop()
	s.loop.Wait()
}
