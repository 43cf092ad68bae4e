package controller

import "github.com/delayer-go/delayer/internal/engine"

// Describe says what Open would declare, and what the Delayer could do. It asks no broker.
func Describe(opts engine.Options, cfg Config) (engine.Description, error) {
	s, err := newSchedule(cfg.Levels, cfg.Tick)
	if err != nil {
		return engine.Description{}, err
	}
	b := blueprint{schedule: s, names: names{opts.Prefix}, kind: opts.QueueType, stage: opts.Stage()}
	plan, err := opts.Plan(b.plan())
	return engine.Description{Plan: plan, Limits: guarantees(opts.QueueType, engine.AnyPriority)}, err
}
