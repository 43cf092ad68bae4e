package faults

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// ThreeNodes are the faults of a cluster.
func ThreeNodes() []Fault {
	return []Fault{
		{Name: "leader killed", Cluster: true, About: "the node that leads the longest queue, and four times the one that leads the controllers' intake: SIGKILL and start again", Inject: killLeader},
		{Name: "each node killed", Cluster: true, About: "one after the other: SIGKILL and start again", Inject: killEachNode},
		{Name: "node stopped", Cluster: true, About: "stopped in good order, and back later", Inject: stopNode},
		{Name: "publisher's node gone", Cluster: true, About: "killed, and back only when publishing has ended well on another", Inject: loseNode},
		// The last: what is declared in a cluster that has just healed may run on two of its three
		// members (RabbitMQ 3.10.8), and not survive the next loss.
		{Name: "node paused", Cluster: true, About: "SIGSTOP: its connections are half-open, and it comes back", Inject: pauseNode},
	}
}

// restart runs node i again, and returns when all Delayers have confirmed messages since.
func (s *Scene) restart(ctx context.Context, i int) error {
	if err := s.Cluster.Nodes()[i].Run(ctx); err != nil {
		return err
	}
	s.mended()
	const catchUp = 5 * time.Second // for the replicas of the node: two of three must be up to date before the next goes
	if err := s.wait(ctx, catchUp); err != nil {
		return err
	}
	return s.work(ctx, 5)
}

func (s *Scene) killNode(ctx context.Context, i int) error {
	s.Logf("kill node %d", i+1)
	if err := s.Cluster.Nodes()[i].Kill(); err != nil {
		return err
	}
	if err := s.between(ctx, 0, 3*time.Second); err != nil {
		return err
	}
	return s.restart(ctx, i)
}

// LoseLeader kills the node that leads the longest queue, and does not start it again: for a
// campaign that has no time.
func LoseLeader(ctx context.Context, s *Scene) error {
	i, err := s.busiest(ctx)
	if err != nil {
		return err
	}
	defer s.mended()
	return s.Cluster.Nodes()[i].Kill()
}

func killLeader(ctx context.Context, s *Scene) error {
	const tick = 5 * time.Second // how old the length of a quorum queue may be
	if err := s.wait(ctx, tick); err != nil {
		return err
	}
	i, err := s.busiest(ctx)
	if err != nil {
		return err
	}
	if err := s.killNode(ctx, i); err != nil {
		return err
	}
	return s.killIntake(ctx)
}

// killIntake kills the node that leads the intake of controllers, where there is one, several
// times: at first the publishers' connection is often to the same node, and goes with it.
func (s *Scene) killIntake(ctx context.Context) error {
	const times, intake = 4, ".controller.intake"
	for range times {
		leaders, err := s.Cluster.Leaders(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(leaders, func(l rabbit.Leader) bool { return l.Node >= 0 && strings.HasSuffix(l.Queue, intake) })
		if i < 0 {
			return nil
		}
		s.Logf("%s is led by node %d", leaders[i].Queue, leaders[i].Node+1)
		if err := s.killNode(ctx, leaders[i].Node); err != nil {
			return err
		}
	}
	return nil
}

// busiest is the node that leads the longest queue.
func (s *Scene) busiest(ctx context.Context) (int, error) {
	leaders, err := s.Cluster.Leaders(ctx)
	if err != nil {
		return 0, err
	}
	busiest := 0
	for i, l := range leaders {
		if l.Node >= 0 && l.Messages > leaders[busiest].Messages {
			busiest = i
		}
	}
	if len(leaders) == 0 {
		return 0, errors.New("faults: the cluster has no queues")
	}
	l := leaders[busiest]
	s.Logf("%s, with %d messages, is led by node %d", l.Queue, l.Messages, l.Node+1)
	return max(0, l.Node), nil
}

func killEachNode(ctx context.Context, s *Scene) error {
	for _, i := range s.Rand.Perm(len(s.Cluster.Nodes())) {
		if err := s.killNode(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func stopNode(ctx context.Context, s *Scene) error {
	i := s.Rand.IntN(len(s.Cluster.Nodes()))
	if err := s.Cluster.Nodes()[i].Stop(ctx); err != nil {
		return err
	}
	if err := s.wait(ctx, 2*s.Hold); err != nil {
		return err
	}
	return s.restart(ctx, i)
}

// pauseNode pauses the node that the Delayers are connected to, as long as takes heartbeats to be
// missed.
func pauseNode(ctx context.Context, s *Scene) error {
	node := s.Cluster.Nodes()[0]
	if err := node.Pause(); err != nil {
		return err
	}
	if err := s.wait(ctx, s.Hold); err != nil {
		return err
	}
	if err := node.Resume(); err != nil {
		return err
	}
	s.mended()
	return s.work(ctx, 5)
}

func loseNode(ctx context.Context, s *Scene) error {
	const first = 0 // of the URLs: all are connected there
	if err := s.Cluster.Nodes()[first].Kill(); err != nil {
		return err
	}
	if err := s.work(ctx, 100); err != nil {
		return err
	}
	return s.restart(ctx, first)
}
