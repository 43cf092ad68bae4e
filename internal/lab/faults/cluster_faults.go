package faults

import (
	"context"
	"errors"
	"time"

	"github.com/delayer-go/delayer/internal/lib/pace"
)

// cluster are the faults of three nodes. All Delayers are connected to the first.
func cluster() []Fault {
	return []Fault{
		{Name: "node gone", Cluster: true, Inject: loseNodes},
		// The last: what is declared in a cluster that has just healed may run on two of its three
		// members (RabbitMQ 3.10.8), and not survive the next loss.
		{Name: "partition", Cluster: true, Inject: partition},
	}
}

// loseNodes kills the node that leads the longest queue, and then the one that everybody is connected
// to. Each is back when publishing has gone on without it.
func loseNodes(ctx context.Context, s *Scene) error {
	const first = 0 // of the URLs
	leads, err := s.busiest(ctx)
	if err != nil {
		return err
	}
	for _, i := range []int{leads, first} {
		s.Logf("kill node %d", i+1)
		node := s.Cluster.Nodes()[i]
		if err := node.Kill(); err != nil {
			return err
		}
		if err := s.work(ctx, 100); err != nil {
			return err
		}
		if err := node.Run(ctx); err != nil {
			return err
		}
		s.fixed()
		if err := s.work(ctx, 5); err != nil {
			return err
		}
		const catchUp = 5 * time.Second // two of three replicas must be up to date before the next goes
		if err := pace.Sleep(ctx, catchUp); err != nil {
			return err
		}
	}
	return nil
}

// LoseLeader kills the node that leads the longest queue, and does not start it again: for a
// campaign that has no time.
func LoseLeader(ctx context.Context, s *Scene) error {
	i, err := s.busiest(ctx)
	if err != nil {
		return err
	}
	defer s.fixed()
	return s.Cluster.Nodes()[i].Kill()
}

// busiest is the node that leads the longest queue.
func (s *Scene) busiest(ctx context.Context) (int, error) {
	leaders, err := s.Cluster.Leaders(ctx)
	if err != nil {
		return 0, err
	}
	if len(leaders) == 0 {
		return 0, errors.New("faults: the cluster has no queues")
	}
	busiest := leaders[0]
	for _, l := range leaders {
		if l.Node >= 0 && l.Messages > busiest.Messages {
			busiest = l
		}
	}
	s.Logf("%s, with %d messages, is led by node %d", busiest.Queue, busiest.Messages, busiest.Node+1)
	return max(0, busiest.Node), nil
}

// partition makes the first node and the others refuse each other's connections, as their cookies
// differ. Its clients stay connected until it notices that it is alone, and pauses itself.
func partition(ctx context.Context, s *Scene) error {
	const (
		isolate = `persistent_term:put(others, nodes()),
			[begin erlang:set_cookie(N, another), erlang:disconnect_node(N) end || N <- nodes()].`
		rejoin = `[erlang:set_cookie(N, erlang:get_cookie()) || N <- persistent_term:get(others)].`
	)
	node := s.Cluster.Nodes()[0]
	if _, err := node.Ctl(ctx, "eval", isolate); err != nil {
		return err
	}
	err := pace.Sleep(ctx, s.Hold)
	_, rejoined := node.Ctl(context.WithoutCancel(ctx), "eval", rejoin)
	s.fixed()
	if err = errors.Join(err, rejoined); err != nil {
		return err
	}
	return s.work(ctx, 5)
}
