package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/lab/bench"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// served is delayer serve in front of a backend: a plain client publishes with the header x-delay to
// an exchange whose entry this process serves. Compare it with the backend itself and
// --destination exchange: serve delivers through an exchange too.
func served(backend, queueType string, c candidate) candidate {
	c.Backend, c.QueueType = backend, queueType
	behind := c // what serve publishes through
	c.Backend, c.Open, c.Remove = "serve", behind.openServe, behind.removeServe
	c.group, c.named, c.usual = c.Variant, true, ""
	c.About = "a plain client with the header x-delay, and delayer serve with that backend"
	c.Lazy, c.Hops, c.Moves = false, nil, false
	return c
}

// The exchange that is published to, and that from which the destination gets what is due.
func front(env bench.Env) entry.Spec {
	return entry.Spec{Name: env.Prefix + "-front", To: env.Prefix + "-behind"}
}

// resolved is the configuration of the backend, and what its options come to.
func (c candidate) resolved(env bench.Env) (cfg backend.Config, settings engine.Settings, err error) {
	if cfg, err = c.config(env); err == nil {
		settings, err = engine.Resolve(cfg.Options, "")
	}
	return cfg, settings, err
}

func (c candidate) openServe(ctx context.Context, env bench.Env) (delayer.Delayer, error) {
	cfg, settings, err := c.resolved(env)
	if err != nil {
		return nil, err
	}
	s := &serving{}
	if s.backend, err = backend.Open(ctx, cfg); err != nil {
		return nil, err
	}
	const usual = 500 // the default of delayer serve
	spec := front(env)
	s.runner, err = entry.Open(ctx, entry.Config{Settings: settings, Delayer: s.backend, Prefetch: usual, Entries: []entry.Spec{spec}})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	running, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.running.Go(func() { s.runner.Run(running) })
	if s.Delayer, err = bench.OpenClient(ctx, env, spec.Name, spec.To); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// A serving is a plain client, and the entry that it publishes to.
type serving struct {
	delayer.Delayer // nil until it is open

	backend delayer.Delayer
	runner  *entry.Runner // nil until it is open
	running sync.WaitGroup
	stop    context.CancelFunc // nil until it runs
}

// Limits are those of the backend: it rounds what the client asks for.
func (s *serving) Limits() delayer.Limits { return s.backend.Limits() }

func (s *serving) Close() error {
	var err error
	if s.Delayer != nil {
		err = s.Delayer.Close()
	}
	if s.stop != nil {
		s.stop()
		s.running.Wait()
	}
	if s.runner != nil {
		s.runner.Close()
	}
	return errors.Join(err, s.backend.Close())
}

func (c candidate) removeServe(ctx context.Context, env bench.Env) error {
	cfg, settings, err := c.resolved(env)
	if err != nil {
		return err
	}
	conn, err := broker.Dial(ctx, settings.BrokerOptions("bench"))
	if err != nil {
		return err
	}
	control := broker.NewControl(conn)
	defer control.Close()
	const withMessages = true
	if err := entry.Remove(ctx, control, env.Prefix, front(env)); err != nil {
		return fmt.Errorf("remove the entry: %w", err)
	}
	return backend.Remove(ctx, cfg, withMessages)
}
