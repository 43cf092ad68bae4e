package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	behind, err := backend.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s := &serving{behind: behind, ends: []func() error{behind.Close}}
	const usual = 500 // the default of delayer serve
	spec := front(env)
	runner, err := entry.Open(ctx, entry.Config{Settings: settings, Delayer: behind, Prefetch: usual, Entries: []entry.Spec{spec}})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	running, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { runner.Run(running) })
	s.ends = append(s.ends, func() error { stop(); done.Wait(); runner.Close(); return nil })
	if s.Delayer, err = bench.OpenClient(ctx, env, spec.Name, spec.To); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.ends = append(s.ends, s.Delayer.Close)
	return s, nil
}

// A serving is a plain client, and what it publishes to.
type serving struct {
	delayer.Delayer // the client

	behind delayer.Delayer
	ends   []func() error // the last first
}

// Limits are those of the backend: it rounds what the client asks for.
func (s *serving) Limits() delayer.Limits { return s.behind.Limits() }

func (s *serving) Close() (err error) {
	for _, end := range slices.Backward(s.ends) {
		err = errors.Join(err, end())
	}
	return err
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
