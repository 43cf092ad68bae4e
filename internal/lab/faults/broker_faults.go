package faults

import (
	"context"
	"errors"
	"time"

	"github.com/delayer-go/delayer/internal/lib/pace"
)

// brokers are the faults of a single broker, and of the network before it.
func brokers() []Fault {
	return []Fault{
		{Name: "none", OneCopy: true, Once: true},
		{Name: "broker killed", Kills: true, OneCopy: true, Inject: killBroker},
		{Name: "broker restarted", Stops: true, OneCopy: true, Inject: restartBroker},
		{Name: "broker paused", OneCopy: true, Inject: pauseBroker},
		{Name: "connections cut", OneCopy: true, Inject: cut},
		{Name: "half-open", OneCopy: true, Inject: halfOpen},
		{Name: "alarm", OneCopy: true, Inject: alarm},
	}
}

// killBroker kills the broker, and starts it again, at random moments.
func killBroker(ctx context.Context, s *Scene) error {
	for i := range s.Times {
		if err := s.between(ctx, 0, 2500*time.Millisecond); err != nil {
			return err
		}
		s.Logf("kill %d of %d", i+1, s.Times)
		if err := s.Broker.Kill(); err != nil {
			return err
		}
		if err := s.between(ctx, 0, 500*time.Millisecond); err != nil {
			return err
		}
		if err := s.Broker.Run(ctx); err != nil {
			return err
		}
		s.fixed()
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
		s.fixed()
		if err := s.work(ctx, 5); err != nil {
			return err
		}
	}
	return nil
}

func pauseBroker(ctx context.Context, s *Scene) error {
	if err := s.Broker.Pause(); err != nil {
		return err
	}
	err := errors.Join(pace.Sleep(ctx, s.Hold), s.Broker.Resume())
	s.fixed()
	return err
}

// cut closes the connections by FIN, at random moments.
func cut(ctx context.Context, s *Scene) error {
	for range s.Times {
		if err := s.between(ctx, 100*time.Millisecond, time.Second); err != nil {
			return err
		}
		s.Proxy.Cut()
		s.fixed()
	}
	return nil
}

// halfOpen makes heartbeats be missed if the hold is at least half a minute.
func halfOpen(ctx context.Context, s *Scene) error {
	s.Proxy.Set(HalfOpen)
	err := pace.Sleep(ctx, s.Hold)
	s.Proxy.Set(Pass)
	s.fixed()
	return err
}

// alarm makes the broker block publishers, for want of memory.
func alarm(ctx context.Context, s *Scene) error {
	const watermark, none, usual = "set_vm_memory_high_watermark", "0.00001", "0.4"
	if _, err := s.ctl(ctx, watermark, none); err != nil {
		return err
	}
	err := pace.Sleep(ctx, s.Hold/2)
	_, lowered := s.ctl(ctx, watermark, usual)
	s.fixed()
	return errors.Join(err, lowered)
}
