package main

import (
	"fmt"
	"log/slog"
	"os/exec"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/backend/fixedtiers"
	"github.com/delayer-go/delayer/internal/lab/faults"
	labsubjects "github.com/delayer-go/delayer/internal/lab/subjects"
)

// quarter is the tick of the ladder of bits and of rounds: short delays then take a few hops.
const quarter = 250 * time.Millisecond

// delays are what messages ask for, in turn.
var delays = []time.Duration{quarter, 3 * quarter, 2 * time.Second, 5 * quarter, 4 * time.Second, 7 * quarter, quarter}

// outboxName is the name of the subject that needs a database.
const outboxName = "outbox, binaryladder"

// subjects returns the Delayers under test. They log nothing. Those that can also get messages with
// the delay long, if that is not 0. Without a database there is no outbox among them.
func subjects(delayerCommand, database string, long time.Duration) []faults.Subject {
	quiet := slog.New(slog.DiscardHandler)
	ladder := backend.Config{Backend: "binaryladder"}
	topic := backend.Config{Backend: "binaryladder", BinaryLadder: binaryladder.Config{Tick: quarter, Routing: binaryladder.Topic, Steps: binaryladder.Binary}}
	tiers := backend.Config{Backend: "fixedtiers", FixedTiers: fixedtiers.Config{Tiers: []time.Duration{500 * time.Millisecond, time.Second, 3 * time.Second}}}
	rounds := backend.Config{Backend: "controller", Controller: controller.Config{Wheel: controller.Rounds, Levels: 4, Tick: quarter}}
	slots := backend.Config{Backend: "controller", Controller: controller.Config{Wheel: controller.Slots}}
	var all []faults.Subject
	for _, kind := range []string{faults.Quorum, "classic"} {
		for _, s := range []struct {
			name string
			cfg  backend.Config
		}{
			{"binaryladder source", ladder}, {"binaryladder topic", topic}, {"fixedtiers", tiers}, {"controller", rounds}, {"controller slots", slots},
		} {
			if kind == "classic" && (s.name == "binaryladder topic" || s.name == "controller slots") {
				continue // the same queues as source's; slots are quorum queues
			}
			s.cfg.QueueType, s.cfg.Logger = delayer.QueueType(kind), quiet
			all = append(all, subject(s.name, s.cfg))
		}
	}
	for _, s := range labsubjects.Others(ladder, tiers, rounds) {
		s.Config.Logger = quiet
		next := subject(s.Config.Backend, s.Config)
		if labsubjects.InExchange(s.Config) {
			next.QueueType = "(table)"
		}
		all = append(all, next)
	}
	shards := slots
	shards.Controller.Shards = 2
	all = append(all,
		alone("controller alone", rounds, quiet, delayerCommand), alone("slots alone", slots, quiet, delayerCommand),
		alone("slots alone, 2 shards", shards, quiet, delayerCommand),
		faults.Serve(func(args ...string) *exec.Cmd {
			cmd := exec.Command(delayerCommand, args...)
			dieWithParent(cmd)
			return cmd
		}, append([]time.Duration{0}, delays...)...))
	ladder.QueueType, ladder.Logger = faults.Quorum, quiet
	all = append(all, faults.Retry(ladder, delays...))
	if database != "" {
		all = append(all, faults.Outbox(database, ladder, delays...))
	}
	for i, s := range all {
		if long > 0 && s.Name != "fixedtiers" { // which has no such tier
			all[i].Delays = append(s.Delays, long)
		}
	}
	return all
}

func subject(name string, cfg backend.Config) faults.Subject {
	if cfg.Backend == "fixedtiers" {
		return faults.NewSubject(name, cfg, cfg.FixedTiers.Tiers...)
	}
	return faults.NewSubject(name, cfg, delays...)
}

// alone is backend controller with controllers in separate processes.
func alone(name string, cfg backend.Config, quiet *slog.Logger, command string) faults.Subject {
	cfg.QueueType, cfg.Logger, cfg.Controller.Run = faults.Quorum, quiet, delayer.Off
	s := subject(name, cfg)
	s.Controller = func(url, prefix string) *exec.Cmd {
		cmd := exec.Command(command, "serve")
		cmd.Env = []string{
			"DELAYER_URL=" + url, "DELAYER_PREFIX=" + prefix, "DELAYER_BACKEND=controller",
			"DELAYER_CONTROLLER_WHEEL=" + string(cfg.Controller.Wheel),
		}
		if cfg.Controller.Shards > 1 {
			cmd.Env = append(cmd.Env, fmt.Sprintf("DELAYER_CONTROLLER_SHARDS=%d", cfg.Controller.Shards))
		}
		if cfg.Controller.Wheel == controller.Rounds {
			cmd.Env = append(cmd.Env, fmt.Sprintf("DELAYER_CONTROLLER_LEVELS=%d", cfg.Controller.Levels), "DELAYER_CONTROLLER_TICK="+cfg.Controller.Tick.String())
		}
		dieWithParent(cmd)
		return cmd
	}
	return s
}
