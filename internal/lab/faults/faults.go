package faults

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lab/process"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lib/pace"
	"github.com/delayer-go/delayer/topology"
)

// All are the faults, in the order in which they are injected: those of one broker, and then those
// of a cluster.
func All() []Fault {
	return []Fault{
		{Name: "none", OneCopy: true, Once: true},
		{Name: "broker killed", Kills: true, OneCopy: true, Inject: killBroker},
		{Name: "broker restarted", Stops: true, OneCopy: true, Inject: restartBroker},
		{Name: "broker paused", OneCopy: true, Inject: pauseBroker},
		{Name: "connections cut", OneCopy: true, Inject: cut},
		{Name: "half-open", OneCopy: true, Inject: halfOpen},
		{Name: "alarm", OneCopy: true, Inject: alarm},
		{Name: "destination deleted", Once: true, Unroutable: true, Inject: deleteDestination},
		{Name: "destination full", Once: true, Refuses: true, Inject: fillDestination},
		{Name: "destination silent", Inject: silenceDestination},
		{Name: "topology deleted", Unroutable: true, Inject: deleteTopology},
		{Name: "controller killed", Alone: true, Inject: killController},
		{Name: "controller paused", Alone: true, Inject: pauseController},
		{Name: "clock set", Alone: true, Inject: setClock},
		{Name: "serve killed", Serve: true, Inject: killServing},
		{Name: "node gone", Cluster: true, Inject: loseNodes},
		{Name: "leaders moved", Cluster: true, Inject: moveLeaders},
		// The last: what is declared in a cluster that has just healed may run on two of its three
		// members (RabbitMQ 3.10.8), and not survive the next loss.
		{Name: "partition", Cluster: true, Inject: partition},
	}
}

func killBroker(ctx context.Context, s *Scene) error {
	return s.again(ctx, s.Times, 0, 2500*time.Millisecond, func() error {
		if err := errors.Join(s.Broker.Kill(), s.between(ctx, 0, 500*time.Millisecond)); err != nil {
			return err
		}
		return s.Broker.Run(ctx)
	})
}

func restartBroker(ctx context.Context, s *Scene) error {
	return s.again(ctx, max(1, s.Times/5), 0, 2*time.Second, func() error { return s.Broker.Restart(ctx) })
}

func pauseBroker(ctx context.Context, s *Scene) error {
	return s.during(ctx, s.Hold, s.Broker.Pause, s.Broker.Resume)
}

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
	set := func(m Mode) func() error {
		return func() error {
			s.Proxy.Set(m)
			return nil
		}
	}
	return s.during(ctx, s.Hold, set(HalfOpen), set(Pass))
}

func alarm(ctx context.Context, s *Scene) error {
	set := func(watermark string) func() error {
		return func() error {
			_, err := s.ctl(context.WithoutCancel(ctx), "set_vm_memory_high_watermark", watermark)
			return err
		}
	}
	return s.during(ctx, s.Hold/2, set("0.00001"), set("0.4"))
}

func deleteDestination(ctx context.Context, s *Scene) error {
	return s.during(ctx, s.Hold/2, func() error {
		return s.each(func(r *Run) error {
			from := time.Now()
			if err := r.receiver.remove(ctx); err != nil {
				return err
			}
			r.deletedArrived(from, time.Now())
			return nil
		})
	}, func() error {
		return s.each(func(r *Run) error { return r.receiver.declare(ctx, nil) })
	})
}

// fillDestination declares the queue again with room for few, and stops taking from it until it has
// been full for a while.
func fillDestination(ctx context.Context, s *Scene) error {
	const room = int64(20)
	return s.during(ctx, s.Hold, func() error {
		return s.each(func(r *Run) error {
			r.gate.Lock() // nothing is published
			defer r.gate.Unlock()
			r.Await(ctx, inFlight) // or what arrives while the queue is deleted would be unroutable
			r.receiver.pause()
			if err := r.receiver.delete(ctx, r.Queue()); err != nil {
				return err
			}
			return r.receiver.declare(ctx, amqp091.Table{"x-max-length": room, "x-overflow": "reject-publish"})
		})
	}, func() error {
		return s.each(func(r *Run) error { return r.receiver.resume(ctx) })
	})
}

// silenceDestination makes the queue confirm nothing for a while, as one without a majority.
func silenceDestination(ctx context.Context, s *Scene) error {
	var resumes []func(context.Context) error
	return s.during(ctx, s.Hold/2, func() error {
		return s.each(func(r *Run) error {
			resume, err := s.Broker.Suspend(ctx, r.Queue())
			resumes = append(resumes, resume)
			return err
		})
	}, func() (err error) {
		for _, resume := range resumes {
			err = errors.Join(err, resume(ctx))
		}
		return err
	})
}

// deleteTopology deletes all that begins with the prefix. What waits there is gone with it, and is
// forgiven; what is published afterwards is not.
func deleteTopology(ctx context.Context, s *Scene) error {
	return s.each(func(r *Run) error {
		queues, err := s.names(ctx, "list_queues", r.Prefix+".")
		if err != nil {
			return err
		}
		exchanges, err := s.names(ctx, "list_exchanges", r.Prefix+".")
		if err != nil {
			return err
		}
		s.Logf("%s: deleting %d queues and %d exchanges", r.Subject.Name, len(queues), len(exchanges))
		from := time.Now()
		var plan topology.Plan
		for _, name := range exchanges {
			plan.Exchanges = append(plan.Exchanges, topology.Exchange{Name: name})
		}
		err = r.receiver.client.Remove(ctx, plan)
		for _, name := range queues {
			gone := r.receiver.delete(ctx, name)
			if !refusedWith(gone, amqp091.ResourceLocked) { // those of the Delayer's own connection only it can delete
				err = errors.Join(err, gone)
			}
		}
		if err != nil {
			return fmt.Errorf("delete topology: %w", err)
		}
		r.deletedWaiting(from, time.Now())
		r.fixed() // by the Delayer, from here on
		return nil
	})
}

func (s *Scene) names(ctx context.Context, list, prefix string) ([]string, error) {
	out, err := s.ctl(ctx, list, "--silent", "name")
	var names []string
	for line := range strings.Lines(out) {
		if name := strings.TrimSpace(line); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, err
}

func (s *Scene) startControllers(env ...string) (started []*process.Service) {
	for _, r := range s.Runs {
		c := process.Keep(func(ctx context.Context) *exec.Cmd {
			cmd := r.Subject.Controller(ctx, "serve")
			cmd.Env = append([]string{"DELAYER_URL=" + s.delayerURLs[0], "DELAYER_PREFIX=" + r.Prefix}, r.Subject.Env...)
			cmd.Env = append(cmd.Env, env...)
			return cmd
		})
		r.onClose = append(r.onClose, c.Close)
		started = append(started, c)
	}
	return started
}

func killController(ctx context.Context, s *Scene) error {
	started := s.startControllers()
	for range s.Times {
		if err := s.between(ctx, 300*time.Millisecond, 2500*time.Millisecond); err != nil {
			return err
		}
		for _, c := range started {
			if err := c.Kill(ctx); err != nil {
				return err
			}
		}
	}
	s.fixed()
	return nil
}

// pauseController pauses the first of two controllers, which leads, for longer than the heartbeat.
func pauseController(ctx context.Context, s *Scene) error {
	var pids []string
	for _, c := range s.startControllers() {
		p, err := c.Next(ctx)
		if err != nil {
			return err
		}
		pids = append(pids, strconv.Itoa(p.Pid))
	}
	if err := pace.Sleep(ctx, settle); err != nil { // or the other might be the one that leads
		return err
	}
	s.startControllers()
	if err := pace.Sleep(ctx, settle); err != nil {
		return err
	}
	signal := func(name string) func() error {
		return func() error { return exec.Command("kill", append([]string{"-s", name}, pids...)...).Run() }
	}
	if err := s.during(ctx, s.Hold+10*time.Second, signal("STOP"), signal("CONT")); err != nil {
		return err
	}
	return s.work(ctx, 10)
}

// ClockVariable is + in the environment of a controller whose wall clock is an hour ahead, - if it
// is an hour behind. The command must be built for it: see cmd/faults.
const ClockVariable = "DELAYER_TEST_CLOCK"

// setClock lets controllers deliver whose clocks are wrong, and then others take over from them.
func setClock(ctx context.Context, s *Scene) error {
	for _, sign := range []string{"+", "-", ""} {
		started := s.startControllers(ClockVariable + "=" + sign)
		if err := errors.Join(pace.Sleep(ctx, s.Hold/2), s.work(ctx, 10)); err != nil {
			return err
		}
		for _, c := range started {
			if sign != "" { // the last deliver what is left
				c.Close()
			}
		}
	}
	s.fixed()
	return nil
}

// killServing kills each process and the broker, whatever the others do meanwhile: the processes
// twice as often as the broker.
func killServing(ctx context.Context, s *Scene) error {
	const turns = 4 // a process is killed in all but the last
	turn := -1
	err := s.again(ctx, s.Times, 300*time.Millisecond, 2500*time.Millisecond, func() error {
		turn++
		if turn%turns == turns-1 {
			return errors.Join(s.Broker.Kill(), s.Broker.Run(ctx))
		}
		return s.each(func(r *Run) error {
			services := r.Delayer.(*serving).services
			return services[turn%turns%len(services)].Kill(ctx)
		})
	})
	s.fixed()
	const after = 200 // which nothing can make come twice
	return errors.Join(err, s.work(ctx, after))
}

// loseNodes kills the node that leads the longest queue, and then the one that everybody is connected
// to. Each is back when publishing has gone on without it.
func loseNodes(ctx context.Context, s *Scene) error {
	leads, err := s.busiest(ctx)
	if err != nil {
		return err
	}
	first := s.Cluster.Nodes()[0] // of the URLs
	for _, node := range []*rabbit.Broker{leads, first} {
		if err := errors.Join(node.Kill(), s.work(ctx, 100)); err != nil {
			return err
		}
		if err := node.Run(ctx); err != nil {
			return err
		}
		s.fixed()
		const catchUp = 5 * time.Second // two of three replicas must be up to date before the next goes
		if err := errors.Join(s.work(ctx, 5), pace.Sleep(ctx, catchUp)); err != nil {
			return err
		}
	}
	return nil
}

// LoseLeader kills the node that leads the longest queue, and does not start it again: for a
// campaign that has no time.
func LoseLeader(ctx context.Context, s *Scene) error {
	leads, err := s.busiest(ctx)
	if err != nil {
		return err
	}
	defer s.fixed()
	return leads.Kill()
}

func (s *Scene) busiest(ctx context.Context) (*rabbit.Broker, error) {
	leaders, err := s.Cluster.Leaders(ctx)
	if err != nil {
		return nil, err
	}
	busiest := rabbit.Leader{Messages: -1}
	for _, l := range leaders {
		if l.Node >= 0 && l.Messages > busiest.Messages {
			busiest = l
		}
	}
	s.Logf("%s, with %d messages, is led by node %d", busiest.Queue, busiest.Messages, busiest.Node+1)
	return s.Cluster.Nodes()[busiest.Node], nil
}

// moveLeaders has each quorum queue led by another of its nodes, all of which go on.
func moveLeaders(ctx context.Context, s *Scene) error {
	const move = `[rabbit_quorum_queue:transfer_leadership(Q, lists:nth(rand:uniform(length(Others)), Others)) ||
		Q <- rabbit_amqqueue:list(), amqqueue:get_type(Q) =:= rabbit_quorum_queue,
		Others <- [rabbit_quorum_queue:get_replicas(Q) -- [element(2, amqqueue:get_pid(Q))]], Others =/= []].`
	return s.again(ctx, s.Times, 0, 2500*time.Millisecond, func() error {
		_, err := s.Cluster.Nodes()[0].Ctl(ctx, "eval", move)
		return err
	})
}

// partition makes the first node and the others refuse each other's connections, as their cookies
// differ. Its clients stay connected until it notices that it is alone, and pauses itself.
func partition(ctx context.Context, s *Scene) error {
	const (
		isolate = `persistent_term:put(others, nodes()),
			[begin erlang:set_cookie(N, another), erlang:disconnect_node(N) end || N <- nodes()].`
		rejoin = `[erlang:set_cookie(N, erlang:get_cookie()) || N <- persistent_term:get(others)].`
	)
	evaluate := func(expression string) func() error {
		return func() error {
			_, err := s.Cluster.Nodes()[0].Ctl(context.WithoutCancel(ctx), "eval", expression)
			return err
		}
	}
	if err := s.during(ctx, s.Hold, evaluate(isolate), evaluate(rejoin)); err != nil {
		return err
	}
	return s.work(ctx, 5)
}
