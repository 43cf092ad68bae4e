package main

import (
	"context"
	"log/slog"
	"os/exec"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/process"
	labsubjects "github.com/delayer-go/delayer/internal/lab/subjects"
)

// quarter is the tick of the topic ladder and of rounds: short delays then take a few hops.
const quarter = 250 * time.Millisecond

// delays are what messages ask for, in turn.
var delays = []time.Duration{quarter, 3 * quarter, 2 * time.Second, 5 * quarter, 4 * time.Second, 7 * quarter, quarter}

// subjects returns the Delayers under test. They log nothing. Subjects of one name are a column of the results: with
// controllers in processes of their own, and behind delayer serve, the same backend meets other
// faults.
func subjects(command string) (all []faults.Subject) {
	ladder := backend.Config{Backend: "binaryladder"}
	topic := backend.Config{Backend: "binaryladder", BinaryLadder: binaryladder.Config{Tick: quarter, Routing: binaryladder.Topic, Steps: binaryladder.Binary}}
	tiers := backend.Config{Backend: "fixedtiers", FixedTiers: fixedtiers.Config{Tiers: []time.Duration{500 * time.Millisecond, time.Second, 3 * time.Second}}}
	slots := backend.Config{Backend: "controller", Controller: controller.Config{Wheel: controller.Slots}}
	rounds := backend.Config{Backend: "controller", Controller: controller.Config{Wheel: controller.Rounds, Levels: 4, Tick: quarter}}
	delayerCommand := func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, command, args...)
		process.DieWithParent(cmd)
		return cmd
	}
	add := func(name string, cfg backend.Config) {
		cfg.Logger = slog.New(slog.DiscardHandler)
		waits := delays
		if cfg.Backend == "fixedtiers" {
			waits = cfg.FixedTiers.Tiers
		}
		s := faults.NewSubject(name, cfg, waits...)
		if labsubjects.InExchange(cfg) {
			s.QueueType = "(table)"
		}
		all = append(all, s)
	}
	configs := []struct {
		name    string
		cfg     backend.Config
		classic bool
		env     []string // of a controller
	}{
		{"binaryladder", ladder, true, nil},
		{"binaryladder topic", topic, false, nil}, // its classic queues are those of the other
		{"fixedtiers", tiers, true, nil},
		{"controller", slots, false, []string{"DELAYER_CONTROLLER_WHEEL=slots"}}, // which are quorum queues
		{"controller rounds", rounds, false, []string{
			"DELAYER_CONTROLLER_WHEEL=rounds", "DELAYER_CONTROLLER_LEVELS=4", "DELAYER_CONTROLLER_TICK=" + quarter.String(),
		}},
	}
	for _, c := range configs {
		c.cfg.QueueType = delayer.Quorum
		add(c.name, c.cfg)
		if c.classic {
			c.cfg.QueueType = delayer.Classic
			add(c.name, c.cfg)
		}
	}
	for _, s := range labsubjects.Others(ladder, tiers, slots) {
		add(s.Config.Backend, s.Config)
	}
	for _, c := range configs {
		if c.env == nil {
			continue
		}
		c.cfg.QueueType, c.cfg.Controller.PublishOnly = delayer.Quorum, true
		add(c.name, c.cfg)
		alone := &all[len(all)-1]
		alone.Controller, alone.Env = delayerCommand, append(c.env, "DELAYER_BACKEND=controller")
	}
	return append(all, faults.Serve("controller", delayerCommand, append([]time.Duration{0}, delays...)...))
}
