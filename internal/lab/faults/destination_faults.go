package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/pace"
)

// destinations are the faults of where messages go, and of what an operator does to a broker.
func destinations() []Fault {
	return []Fault{
		{Name: "destination deleted", Once: true, Unroutable: true, Inject: deleteDestination},
		{Name: "destination full", Once: true, Refuses: true, Inject: fillDestination},
		{Name: "destination silent", Inject: silenceDestination},
		{Name: "topology deleted", Unroutable: true, Inject: deleteTopology},
	}
}

// deleteDestination deletes queue and exchange, and declares them again.
func deleteDestination(ctx context.Context, s *Scene) error {
	err := s.each(func(r *Run) error {
		from := time.Now()
		if err := r.receiver.remove(ctx); err != nil {
			return err
		}
		r.deletedArrived(from, time.Now())
		return nil
	})
	if err = errors.Join(err, pace.Sleep(ctx, s.Hold/2)); err != nil {
		return err
	}
	return s.each(func(r *Run) error {
		defer r.fixed()
		return r.receiver.declare(ctx, nil)
	})
}

// fillDestination declares the queue again with room for few, and stops taking from it until it has
// been full for a while.
func fillDestination(ctx context.Context, s *Scene) error {
	const room = int64(20)
	err := s.each(func(r *Run) error {
		r.gate.Lock() // nothing is published
		defer r.gate.Unlock()
		r.Await(ctx, inFlight) // or what arrives while the queue is deleted would be unroutable
		r.receiver.pause()
		if err := r.receiver.delete(ctx, r.Queue()); err != nil {
			return err
		}
		return r.receiver.declare(ctx, amqp091.Table{"x-max-length": room, "x-overflow": "reject-publish"})
	})
	if err = errors.Join(err, pace.Sleep(ctx, s.Hold)); err != nil {
		return err
	}
	return s.each(func(r *Run) error {
		defer r.fixed()
		return r.receiver.resume(ctx)
	})
}

// silenceDestination makes the queue confirm nothing for a while, as one without a majority.
func silenceDestination(ctx context.Context, s *Scene) error {
	var again []func(context.Context) error
	err := s.each(func(r *Run) error {
		resume, err := s.Broker.Suspend(ctx, r.Queue())
		again = append(again, resume)
		return err
	})
	err = errors.Join(err, pace.Sleep(ctx, s.Hold/2))
	for _, resume := range again {
		err = errors.Join(err, resume(ctx))
	}
	s.fixed()
	return err
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
		err = r.receiver.client.Do(ctx, func(ch *amqp091.Channel) error {
			for _, name := range exchanges {
				if err := ch.ExchangeDelete(name, ifUnused, noWait); err != nil {
					return err
				}
			}
			return nil
		})
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
