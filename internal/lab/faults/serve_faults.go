package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Services are the faults of delayer serve.
func Services() []Fault {
	return []Fault{
		{Name: "serve killed", Serve: true, About: "two processes and the broker: SIGKILL and start again, at random moments", Inject: killServing},
	}
}

// killServing kills each process and the broker, whatever the others do meanwhile: the processes
// twice as often as the broker.
func killServing(ctx context.Context, s *Scene) error {
	for _, r := range s.Runs {
		d := r.Delayer.(*serving)
		errs := make([]error, len(d.services)+1)
		var killing sync.WaitGroup
		for i, p := range d.services {
			waits := s.moments(s.Times / 2)
			killing.Go(func() { errs[i] = s.killService(ctx, p, waits) })
		}
		waits := s.moments(s.Times / 4)
		killing.Go(func() { errs[len(d.services)] = s.killBrokers(ctx, waits) })
		killing.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		s.Note("%s: SIGKILL %d times to each of %d processes, and %d times to the broker",
			r.Subject.Name, s.Times/2, len(d.services), len(waits))
	}
	s.mended()
	s.finally = func() {
		for _, r := range s.Runs {
			r.problems = judgeTwice(r.Account.Messages(), r.mended)
		}
	}
	const after = 200 // which nothing can make come twice
	return s.work(ctx, after)
}

// moments are random times to wait before each of n faults.
func (s *Scene) moments(n int) []time.Duration {
	const least, most = 300 * time.Millisecond, 2500 * time.Millisecond
	list := make([]time.Duration, n)
	for i := range list {
		list[i] = least + time.Duration(s.Rand.Int64N(int64(most-least)))
	}
	return list
}

func (s *Scene) killService(ctx context.Context, p *service, waits []time.Duration) error {
	for _, wait := range waits {
		if err := s.wait(ctx, wait); err != nil {
			return err
		}
		n, err := p.killed()
		if err != nil {
			return err
		}
		if err := within(ctx, "serve", func(ctx context.Context) error { return p.await(ctx, n) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scene) killBrokers(ctx context.Context, waits []time.Duration) error {
	for _, wait := range waits {
		if err := s.wait(ctx, wait); err != nil {
			return err
		}
		if err := s.Broker.Kill(); err != nil {
			return err
		}
		if err := s.Broker.Run(ctx); err != nil {
			return err
		}
		if err := s.work(ctx, 5); err != nil {
			return err
		}
	}
	return nil
}

// judgeTwice finds messages that came twice, though they were published when nothing was broken any
// more: a second copy is promised not to come but after a crash or a lost connection.
func judgeTwice(messages []course, mended time.Duration) (problems []string) {
	var twice []int
	for _, m := range messages {
		if m.Copies > 1 && m.Asked > mended {
			twice = append(twice, m.ID)
		}
	}
	if len(twice) > 0 {
		problems = append(problems, fmt.Sprintf("%d came twice that were published after the last crash: %v", len(twice), twice))
	}
	return problems
}
