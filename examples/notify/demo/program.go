package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// A program is the built example with its settings.
type program struct {
	path string
	env  []string // beside those of this process
	log  io.Writer
}

// build builds the example into a folder.
func build(ctx context.Context, folder string) (path string, err error) {
	path = filepath.Join(folder, "notify")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/delayer-go/delayer/examples/notify")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the example: %w\n%s", err, out)
	}
	return path, nil
}

const (
	stopTimeout  = 30 * time.Second
	restartPause = 200 * time.Millisecond
)

// command is a process that is asked to end when ctx does.
func (p program) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopTimeout
	dieWithParent(cmd)
	return cmd
}

// run runs a role to its end.
func (p program) run(ctx context.Context, args ...string) error {
	if err := p.command(ctx, args...).Run(); err != nil {
		return fmt.Errorf("notify %s: %w", args[0], err)
	}
	return nil
}

// A service is a process that is started again whenever it ends, as a service manager does.
type service struct {
	running chan *os.Process // holds the process while it runs
	stop    func()
}

// keep runs a role until end.
func (p program) keep(role string) *service {
	ctx, cancel := context.WithCancel(context.Background())
	s := &service{running: make(chan *os.Process, 1)}
	var loop sync.WaitGroup
	loop.Go(func() {
		for ctx.Err() == nil {
			s.once(p.command(ctx, role))
			wait(ctx, restartPause)
		}
	})
	s.stop = sync.OnceFunc(func() {
		cancel()
		loop.Wait()
	})
	return s
}

func (s *service) once(cmd *exec.Cmd) {
	if cmd.Start() != nil {
		return
	}
	s.running <- cmd.Process
	_ = cmd.Wait() // however it ends, it is started again
	select {
	case <-s.running:
	default: // killed
	}
}

// kill kills the process with SIGKILL, once there is one.
func (s *service) kill(ctx context.Context) error {
	for {
		select {
		case process := <-s.running:
			if err := process.Kill(); !errors.Is(err, os.ErrProcessDone) {
				return err
			} // it ended by itself just now: the next one is meant
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// end asks the process to end, and waits for it.
func (s *service) end() { s.stop() }

// wait waits for d or the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
