package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A Fault is a failure that is injected while messages are published, wait and arrive.
type Fault struct {
	Name       string
	Cluster    bool // done to a cluster of three nodes
	OneCopy    bool // for Subjects without quorum queues too: a crash loses some of theirs, and how many is measured
	Alone      bool // for Subjects with controllers in processes of their own, and only those
	Serve      bool // for Subjects that are clients of delayer serve, and only those
	Once       bool // nothing crashes and no connection is lost: no message may come twice
	Kills      bool // the broker is killed: a Delayer whose Limits do not promise it may lose messages
	Stops      bool // the same, where it is stopped in good order and started again
	Refuses    bool // a destination refuses messages
	Unroutable bool // a destination, or what leads to it, may be gone: messages may be kept as unroutable
	Inject     func(context.Context, *Scene) error
}

// loses reports whether a Delayer may lose messages when this is done to its broker.
func (f Fault) loses(l delayer.Limits) bool {
	return f.Kills && !l.SurvivesCrash || f.Stops && !l.SurvivesRestart
}

func (f Fault) concerns(s Subject) bool {
	return f.Alone == (s.Controller != nil) && f.Serve == s.Serve && (s.QueueType == Quorum || f.OneCopy)
}

// A Scene holds the targets of a Fault.
type Scene struct {
	Broker  *rabbit.Broker  // nil in a cluster
	Cluster *rabbit.Cluster // nil where there is one node
	Proxy   *Proxy          // between the Delayers and the broker; nil in a cluster
	Runs    []*Run
	Rand    *rand.Rand
	Times   int           // how often a repeated fault is repeated
	Hold    time.Duration // how long a lasting fault lasts
	Logf    func(format string, args ...any)

	delayerURLs, consumerURLs []string
}

// ctl runs rabbitmqctl on the broker, or on the first of the cluster's nodes where it works: others
// may be down.
func (s *Scene) ctl(ctx context.Context, args ...string) (out string, err error) {
	if s.Cluster == nil {
		return s.Broker.Ctl(ctx, args...)
	}
	for _, b := range s.Cluster.Nodes() {
		if out, err = b.Ctl(ctx, args...); err == nil {
			break
		}
	}
	return out, err
}

// fixed notes that what a fault broke works again, or is left as it is. A fault that is injected
// several times ends with the last.
func (s *Scene) fixed() {
	for _, r := range s.Runs {
		r.fixed()
	}
}

// each does something for all runs. A fault takes each of its steps for all of them: while it was
// at work on one after the other, the messages of the last were as late as the fault takes for all
// others, 48 s of 52.9 once.
func (s *Scene) each(do func(*Run) error) error {
	for _, r := range s.Runs {
		if err := do(r); err != nil {
			return err
		}
	}
	return nil
}

// between waits a random time.
func (s *Scene) between(ctx context.Context, from, to time.Duration) error {
	return pace.Sleep(ctx, from+time.Duration(s.Rand.Int64N(int64(to-from))))
}

// again does something several times, after random pauses, and waits each time until every Delayer
// publishes again.
func (s *Scene) again(ctx context.Context, times int, from, to time.Duration, do func() error) error {
	for range times {
		if err := s.between(ctx, from, to); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
		s.fixed()
		if err := s.work(ctx, 5); err != nil {
			return err
		}
	}
	return nil
}

// during breaks something for a while. It fixes it again whatever happens.
func (s *Scene) during(ctx context.Context, hold time.Duration, broken, fixed func() error) error {
	err := broken()
	if err == nil {
		err = pace.Sleep(ctx, hold)
	}
	err = errors.Join(err, fixed())
	s.fixed()
	return err
}

// mostOutage is how long a Delayer may need to publish again. A reconnect that hangs is given up
// after 30 s.
const mostOutage = 3 * time.Minute

// work returns once every Delayer has confirmed n more messages.
func (s *Scene) work(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, mostOutage, fmt.Errorf("it does not publish again within %v", mostOutage))
	defer cancel()
	return s.each(func(r *Run) error { return r.AwaitConfirmed(ctx, n) })
}
