package faults

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// OneNode are the faults of a single broker, and of the network before it.
func OneNode() []Fault {
	return []Fault{
		{Name: "none", Once: true, About: "nothing breaks, for comparison", OneCopy: true},
		{Name: "broker killed", Kills: true, About: "SIGKILL and start again, at random moments", OneCopy: true, Inject: killBroker},
		{Name: "broker restarted", Stops: true, About: "stopped in good order and started again", OneCopy: true, Inject: restartBroker},
		{Name: "due while down", Kills: true, OneCopy: true, About: "killed, and away for longer than messages wait", Inject: downWhileDue},
		{Name: "connections cut", OneCopy: true, About: "closed by the network (FIN), at random moments", Inject: cut},
		{Name: "half-open", OneCopy: true, About: "no packet passes, and no FIN", Inject: halfOpen},
		{Name: "slow", OneCopy: true, About: "1 KB a second in each direction", Inject: slow},
		{Name: "reset in a frame", OneCopy: true, About: "RST in the middle of a frame, at random moments", Inject: resetMidFrame},
		{Name: "memory alarm", OneCopy: true, About: "the broker blocks publishers", Inject: alarm("set_vm_memory_high_watermark", "0.00001", "0.4")},
		{Name: "disk alarm", OneCopy: true, About: "the broker blocks publishers", Inject: alarm("set_disk_free_limit", "1000000000000000", "50000000")},
	}
}

func killBroker(ctx context.Context, s *Scene) error {
	const between, away = 2500 * time.Millisecond, 500 * time.Millisecond
	for i := range s.Times {
		wait, down := time.Duration(s.Rand.Int64N(int64(between))), time.Duration(s.Rand.Int64N(int64(away)))
		s.Logf("kill %d of %d in %v", i+1, s.Times, wait.Round(time.Millisecond))
		if err := s.wait(ctx, wait); err != nil {
			return err
		}
		if err := s.Broker.Kill(); err != nil {
			return err
		}
		if err := s.wait(ctx, down); err != nil {
			return err
		}
		if err := s.Broker.Run(ctx); err != nil {
			return err
		}
		s.mended()
		if err := s.work(ctx, 5); err != nil {
			return err
		}
	}
	return nil
}

func restartBroker(ctx context.Context, s *Scene) error {
	for range max(1, s.Times/5) {
		if err := s.between(ctx, 0, 2*time.Second); err != nil {
			return err
		}
		if err := s.Broker.Restart(ctx); err != nil {
			return err
		}
		s.mended()
		if err := s.work(ctx, 5); err != nil {
			return err
		}
	}
	return nil
}

func downWhileDue(ctx context.Context, s *Scene) error {
	if err := s.Broker.Kill(); err != nil {
		return err
	}
	killed := time.Now()
	if err := s.wait(ctx, s.Hold); err != nil {
		return err
	}
	if err := s.Broker.Run(ctx); err != nil {
		return err
	}
	ready := time.Now()
	s.mended()
	s.finally = func() {
		for _, r := range s.Runs {
			n, half, last := caughtUp(r.Account.Messages(), r.Account.At(killed), r.Account.At(ready))
			s.Note("%s %s: %d came that were due while the broker was down, half of them within %v of its answering, the last after %v",
				r.Subject.Name, r.Subject.QueueType, n, half.Round(10*time.Millisecond), last.Round(10*time.Millisecond))
		}
	}
	return nil
}

func cut(ctx context.Context, s *Scene) error {
	for range s.Times {
		if err := s.between(ctx, 100*time.Millisecond, time.Second); err != nil {
			return err
		}
		s.Proxy.Cut()
		s.mended()
	}
	return nil
}

func resetMidFrame(ctx context.Context, s *Scene) error {
	for range s.Times {
		if err := s.between(ctx, 100*time.Millisecond, time.Second); err != nil {
			return err
		}
		s.Proxy.ResetMidFrame()
		s.mended()
	}
	return nil
}

// halfOpen makes heartbeats be missed if the hold is at least half a minute.
func halfOpen(ctx context.Context, s *Scene) error { return s.passing(ctx, HalfOpen) }

func slow(ctx context.Context, s *Scene) error { return s.passing(ctx, Slow) }

func (s *Scene) passing(ctx context.Context, m Mode) error {
	s.Proxy.Set(m)
	err := s.wait(ctx, s.Hold)
	s.Proxy.Set(Pass)
	s.mended()
	return err
}

// alarm raises an alarm by a command and lowers it again. Meanwhile another Delayer of each kind
// publishes, and is closed.
func alarm(command, raise, lower string) func(context.Context, *Scene) error {
	return func(ctx context.Context, s *Scene) (err error) {
		others, err := s.openOthers(ctx)
		if err != nil {
			return err
		}
		if _, err := s.ctl(ctx, command, raise); err != nil {
			return err
		}
		if err := s.wait(ctx, s.Hold/2); err != nil {
			return err
		}
		closed := closeAll(ctx, others)
		for i, took := range closed {
			s.Note("%s: Close took %v while a Publish waited for the broker that blocks", s.Runs[i].Subject.Name, took.Round(time.Millisecond))
			if took > mostClosing {
				err = errors.Join(err, fmt.Errorf("%s: Close under an alarm took %v", s.Runs[i].Subject.Name, took))
			}
		}
		_, lowered := s.ctl(ctx, command, lower)
		s.mended()
		return errors.Join(err, lowered)
	}
}
