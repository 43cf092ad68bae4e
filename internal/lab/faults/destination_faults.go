package faults

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// Destinations are the faults of where messages go, and of what an operator does to a broker.
func Destinations() []Fault {
	return []Fault{
		{Name: "destination deleted", Once: true, Unroutable: true, About: "queue and exchange deleted, and declared again", Inject: deleteDestination},
		{Name: "reply queues gone", Answers: true, Once: true, Unroutable: true, About: "temporary queues deleted while messages for them wait, which may hold up no other", Inject: goneReplies},
		{Name: "destination full", Once: true, Refuses: true, About: "x-max-length with reject-publish, and nobody consumes for a while", Inject: fillDestination},
		{Name: "destination forbidden", About: "write permission on it taken away, and given back", User: true, Inject: forbidDestination},
		{Name: "waiting queues full", Answers: true, Once: true, About: "an operator's max-length for the queues where messages wait, until Publish answers that they refuse messages", Inject: fillWaiting},
		{Name: "topology deleted", Unroutable: true, About: "every exchange and queue of the Delayer deleted under it", Inject: deleteTopology},
	}
}

func deleteDestination(ctx context.Context, s *Scene) error {
	for _, r := range s.Runs {
		from := time.Now()
		if err := r.receiver.remove(ctx); err != nil {
			return err
		}
		r.deletedArrived(from, time.Now())
	}
	if err := s.wait(ctx, s.Hold/2); err != nil {
		return err
	}
	for _, r := range s.Runs {
		if err := r.receiver.declare(ctx, nil); err != nil {
			return err
		}
		r.fixed()
	}
	return nil
}

// fillDestination declares the queue again with room for few, and stops taking from it until it has
// been full for a while.
func fillDestination(ctx context.Context, s *Scene) error {
	const room = int64(20)
	for _, r := range s.Runs {
		r.Pause()
		r.Await(ctx, inFlight) // or what arrives while the queue is deleted would be unroutable
		r.receiver.pause()
		err := r.receiver.client.Do(ctx, func(ch *amqp091.Channel) error { return deleteQueue(ch, r.Queue()) })
		if err != nil {
			return err
		}
		full := amqp091.Table{"x-max-length": room, "x-overflow": "reject-publish"}
		if err := r.receiver.declare(ctx, full); err != nil {
			return err
		}
		r.Resume()
	}
	if err := s.wait(ctx, s.Hold); err != nil {
		return err
	}
	for _, r := range s.Runs {
		if err := r.receiver.resume(ctx); err != nil {
			return err
		}
		r.fixed()
	}
	return nil
}

// fillWaiting limits the queues where messages wait, until every Delayer has answered that they
// refuse messages. Destinations keep their room.
func fillWaiting(ctx context.Context, s *Scene) error {
	const policy, queues = "faults-waiting", `\.(wait|delay)\.|\.intake$`
	from := time.Now()
	if _, err := s.ctl(ctx, "set_policy", policy, queues, `{"max-length": 5}`, "--apply-to", "queues", "--priority", "100"); err != nil {
		return err
	}
	for _, r := range s.Runs {
		if err := r.awaitRefused(ctx, from); err != nil {
			_, _ = s.ctl(ctx, "clear_policy", policy)
			return err
		}
	}
	if _, err := s.ctl(ctx, "clear_policy", policy); err != nil {
		return err
	}
	s.mended()
	return s.work(ctx, 10)
}

// awaitRefused returns when Publish has answered, after a time, that a queue is full.
func (r *Run) awaitRefused(ctx context.Context, after time.Time) error {
	const most, look = time.Minute, 10 * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("%s: no message was refused within %v", r.Subject.Name, most))
	defer cancel()
	for tick := time.Tick(look); time.Duration(r.refused.Load()) < r.Account.At(after); {
		select {
		case <-tick:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// user is who the Delayers log in as where their permissions change.
const user = "faults-user"

func (s *Scene) addUser(ctx context.Context) error {
	_, _ = s.ctl(ctx, "delete_user", user) // of a campaign before
	if _, err := s.ctl(ctx, "add_user", user, user); err != nil {
		return err
	}
	for i, raw := range s.delayerURLs {
		at, err := url.Parse(raw)
		if err != nil {
			return errors.New("faults: one of the URLs is malformed")
		}
		at.User = url.UserPassword(user, user)
		s.delayerURLs[i] = at.String()
	}
	return s.permit(ctx, ".*", ".*")
}

func (s *Scene) permit(ctx context.Context, configure, write string) error {
	_, err := s.ctl(ctx, "set_permissions", user, configure, write, ".*")
	return err
}

func forbidDestination(ctx context.Context, s *Scene) error {
	if err := s.permit(ctx, ".*", "^(?!.*-(in|to)$).*$"); err != nil {
		return err
	}
	if err := s.wait(ctx, s.Hold/2); err != nil {
		return err
	}
	defer s.mended()
	return s.permit(ctx, ".*", ".*")
}

// deleteTopology deletes all that begins with the prefix. What waits there is gone with it, and is
// forgiven; what is published afterwards is not.
func deleteTopology(ctx context.Context, s *Scene) error {
	for _, r := range s.Runs {
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
			gone := r.receiver.client.Do(ctx, func(ch *amqp091.Channel) error { return deleteQueue(ch, name) })
			if !locked(gone) { // those of the Delayer's own connection only it can delete
				err = errors.Join(err, gone)
			}
		}
		if err != nil {
			return fmt.Errorf("delete topology: %w", err)
		}
		r.deletedWaiting(from, time.Now())
		r.fixed() // by the Delayer, from here on
	}
	return nil
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
