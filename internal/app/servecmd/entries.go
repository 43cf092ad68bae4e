package servecmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/rebind"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/recurring"
)

// entries serve the exchanges of a file, as it was when it was last read.
type entries struct {
	read    func() (backend.Config, config, error) // the file
	cfg     entry.Config                           // all but Prefetch
	log     *slog.Logger
	begin   func(exchange string) // its counters, with 0
	current atomic.Pointer[shift]
}

// A shift serves one version of the file.
type shift struct {
	config
	runner    *entry.Runner // nil: no exchange is served
	movers    []*rebind.Mover
	recurring *recurring.Scheduler // nil: there is no such message
}

// open declares what a version of the file needs.
func (e *entries) open(ctx context.Context, serves config) (*shift, error) {
	s := &shift{config: serves}
	var err error
	if s.recurring, err = e.scheduler(serves.Recurring); err != nil || len(s.Exchanges) == 0 {
		return s, err
	}
	if s.movers, err = movers(e.cfg.Settings, s.Exchanges); err != nil {
		return nil, err
	}
	cfg := e.cfg
	cfg.Prefetch, cfg.Entries = s.Prefetch, len(s.Exchanges)
	if s.runner, err = entry.Open(ctx, cfg); err != nil {
		return nil, err
	}
	if err := s.runner.Add(ctx, s.Exchanges); err != nil {
		s.runner.Close()
		return nil, err
	}
	for _, m := range s.movers {
		m.Control, m.Log = s.runner.Control(), e.log
	}
	for _, spec := range s.Exchanges {
		e.begin(spec.Name)
		e.log.Info("an exchange is served", "exchange", spec.Name, "to", spec.To, "allow", spec.Allow)
	}
	if e.cfg.Settings.Management == "" { // AMQP does not show bindings
		e.log.Info("it is not known whether bindings go around delayer serve: give management")
	}
	return s, nil
}

// run serves until ctx ends, and closes what open has opened.
func (s *shift) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	if s.recurring != nil {
		running.Go(func() { s.recurring.Run(ctx) })
	}
	if s.runner == nil {
		return
	}
	for _, m := range s.movers {
		running.Go(func() { m.Run(ctx) })
	}
	s.runner.Run(ctx)
	running.Wait()
	s.runner.Close()
}

// run serves until ctx ends. With each signal it reads the file again: what it says is opened, the
// shift before ends, with what it has under way, and then the next begins. So no message is
// overtaken.
func (e *entries) run(ctx context.Context, s *shift, reread <-chan os.Signal) {
	for s != nil {
		e.current.Store(s)
		serving, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(serving) }()
		next := e.next(ctx, reread)
		stop()
		<-ended
		s = next
	}
}

// next is the shift of the next version of the file that can be served, or nil once ctx has ended.
func (e *entries) next(ctx context.Context, reread <-chan os.Signal) *shift {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reread:
		}
		_, serves, err := e.read()
		if err == nil && serves.nothing() {
			err = errNothing
		}
		var s *shift
		if err == nil {
			s, err = e.open(ctx, serves)
		}
		if err == nil {
			e.log.Info("the configuration was read again: exchanges, prefetch and recurring are as it says, the rest is as it was at the start")
			return s
		}
		e.log.Error("the configuration cannot be served; all is served as before", "error", err)
	}
}

// depths are those of what is served now: see [entry.Runner.Depths].
func (e *entries) depths(ctx context.Context, tell func(exchange, state string, messages int)) error {
	if s := e.current.Load(); s != nil && s.runner != nil {
		return s.runner.Depths(ctx, tell)
	}
	return nil
}

// ready says whether all that is served now is consumed: see [entry.Runner.Ready].
func (e *entries) ready() error {
	s := e.current.Load()
	switch {
	case s == nil:
		return errors.New("exchanges are not served yet")
	case s.runner == nil:
		return nil
	}
	return s.runner.Ready()
}

// lookEvery is how often the bindings of what is served are looked at.
const lookEvery = time.Minute

// watch warns of bindings that go around what is served, until ctx ends.
func (e *entries) watch(ctx context.Context, api *management.Client, vhost string) {
	for {
		asking, cancel := context.WithTimeout(ctx, lookEvery)
		around, err := objects.Around(asking, api, vhost, e.cfg.Settings.Prefix)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			e.log.Warn("it is not known whether bindings go around delayer serve", "error", err)
		case len(around) > 0:
			e.log.Warn("bindings go around delayer serve", "bindings", objects.Summary(around))
		}
		_ = pace.Sleep(ctx, lookEvery)
	}
}

// movers move the bindings that others make on exchanges. They need a Control before they run.
func movers(settings engine.Settings, specs []entry.Spec) (all []*rebind.Mover, err error) {
	for _, s := range specs {
		if !s.MoveBindings {
			continue
		}
		if settings.Management == "" {
			return nil, engine.ConfigError("serve.exchanges", fmt.Errorf("move_bindings of %q needs the management API", s.Name),
				"write management: http://user:password@host:15672, or leave out move_bindings")
		}
		client, vhost, err := settings.API()
		if err != nil {
			return nil, err
		}
		all = append(all, &rebind.Mover{Spec: s, Prefix: settings.Prefix, API: inventory.New(client, vhost)})
	}
	return all, nil
}
