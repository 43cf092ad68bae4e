package faults

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// Strangers are the faults of what is there, and not as a Delayer left it.
func Strangers() []Fault {
	return []Fault{
		{Name: "destination suspended", About: "it confirms nothing for a while, as without a majority", Inject: suspendDestination},
		{Name: "permission revoked", About: "to configure, and the connections cut; given back after a while", User: true, Inject: revokePermission},
		{Name: "stage deleted", About: "the exchanges behind the last hop deleted while nobody publishes", Inject: deleteStage},
		{Name: "stranger's queue", Answers: true, About: "the queues where messages wait deleted, and declared with another TTL", Inject: replaceWaiting},
	}
}

// suspendDestination suspends the one replica of the destination.
func suspendDestination(ctx context.Context, s *Scene) error {
	for _, r := range s.Runs {
		if err := s.suspend(ctx, "suspend", r.Queue()); err != nil {
			return err
		}
	}
	waited := s.wait(ctx, s.Hold/2)
	for _, r := range s.Runs {
		if err := s.suspend(ctx, "resume", r.Queue()); err != nil {
			return err
		}
		r.fixed()
	}
	return waited
}

// suspend suspends or resumes the process that a quorum queue of one replica is.
func (s *Scene) suspend(ctx context.Context, what, queue string) error {
	_, err := s.ctl(ctx, "eval", fmt.Sprintf("ok = sys:%s('%%2F_%s').", what, queue))
	return err
}

// mostOfIdle is the part of one core that the broker may use while nobody publishes and nothing can
// be declared.
const mostOfIdle = 0.5

// revokePermission takes the permission to configure away and cuts the connections, so that nothing
// can be declared again. Meanwhile nobody publishes for a while: then nothing may keep the broker
// busy.
func revokePermission(ctx context.Context, s *Scene) error {
	for _, r := range s.Runs {
		r.Pause()
		r.Await(ctx, inFlight)
	}
	if err := s.permit(ctx, "^$", ".*"); err != nil {
		return err
	}
	s.Proxy.Cut()
	if err := s.wait(ctx, inFlight); err != nil { // they are back
		return err
	}
	from, err := s.Broker.CPU()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.wait(ctx, s.Hold/2); err != nil {
		return err
	}
	to, err := s.Broker.CPU()
	if err != nil {
		return err
	}
	used := float64(to-from) / float64(time.Since(began))
	s.Note("nobody published, and nothing could be declared: the broker used %.2f of a core for %d Delayers", used, len(s.Runs))
	if used > mostOfIdle {
		err = fmt.Errorf("the broker used %.2f of a core while nobody published", used)
	}
	for _, r := range s.Runs {
		r.Resume() // Publish answers that it may not
	}
	err = errors.Join(err, s.wait(ctx, s.Hold/4), s.permit(ctx, ".*", ".*"))
	s.mended()
	return err
}

// deleteStage deletes the delivery exchanges and the discard queue while nobody publishes, and
// waits until what was on its way has arrived.
func deleteStage(ctx context.Context, s *Scene) error {
	for _, r := range s.Runs {
		r.Pause()
	}
	for _, r := range s.Runs {
		err := r.receiver.client.Do(ctx, func(ch *amqp091.Channel) error {
			for _, name := range []string{".delivery", ".delivery.exchanges"} {
				if err := ch.ExchangeDelete(r.Prefix+name, ifUnused, noWait); err != nil {
					return err
				}
			}
			return deleteQueue(ch, r.Prefix+".discard")
		})
		if err != nil {
			return fmt.Errorf("delete stage: %w", err)
		}
		r.fixed() // by the Delayer, from here on
	}
	for _, r := range s.Runs {
		r.Await(ctx, mostOutage)
		r.Resume()
	}
	return nil
}

// waiting matches the names of the queues where messages wait.
var waiting = regexp.MustCompile(`\.(wait|delay)\.`)

// replaceWaiting does what a stranger may: he deletes the queues where messages wait, and declares
// others of their names. A Delayer sees that when it looks, and refuses messages from then on. What
// passes through such a queue before is early, so nothing is on its way before, and until then
// nobody publishes what is accounted for.
func replaceWaiting(ctx context.Context, s *Scene) error {
	for _, r := range s.Runs {
		r.Pause()
		r.Await(ctx, inFlight)
	}
	replaced := map[*Run][]string{}
	after, err := s.deadLetterExchanges(ctx)
	if err != nil {
		return err
	}
	bound, err := s.bindings(ctx)
	if err != nil {
		return err
	}
	for _, r := range s.Runs {
		names, err := s.names(ctx, "list_queues", r.Prefix+".")
		if err != nil {
			return err
		}
		for _, name := range names {
			if !waiting.MatchString(name) || len(replaced[r]) == mostReplaced {
				continue
			}
			if after[name] == "" || len(bound) == 0 {
				return fmt.Errorf("queue %s: what rabbitmqctl prints of its arguments, or of bindings, is not understood", name)
			}
			if err := r.replace(ctx, name, after[name], bound[name]); err != nil {
				return err
			}
			replaced[r] = append(replaced[r], name)
		}
	}
	for _, r := range s.Runs {
		took, err := r.awaitConflict(ctx)
		if err != nil {
			return err
		}
		s.Note("%s: Publish returned ErrConflict after %v", r.Subject.Name, took.Round(100*time.Millisecond))
		r.Resume()
	}
	if err := s.wait(ctx, s.Hold/4); err != nil { // all is refused, and nothing is early
		return err
	}
	for _, r := range s.Runs {
		for _, name := range replaced[r] {
			if err := r.receiver.client.Do(ctx, func(ch *amqp091.Channel) error { return deleteQueue(ch, name) }); err != nil {
				return err
			}
		}
		r.fixed()
	}
	return nil
}

// mostReplaced is how many queues of a run a stranger takes: slots are 127.
const mostReplaced = 5

// A binding leads from an exchange to a queue.
type binding struct{ source, key string }

// bindings lists the bindings of every queue, but for those of the default exchange.
func (s *Scene) bindings(ctx context.Context) (map[string][]binding, error) {
	out, err := s.ctl(ctx, "list_bindings", "--silent", "source_name", "destination_kind", "destination_name", "routing_key")
	bound := map[string][]binding{}
	for line := range strings.Lines(out) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 4 && f[0] != "" && f[1] == "queue" {
			bound[f[2]] = append(bound[f[2]], binding{f[0], f[3]})
		}
	}
	return bound, err
}

var deadLetterExchange = regexp.MustCompile(`"x-dead-letter-exchange",\s*"([^"]+)"`)

// deadLetterExchanges lists those of the queues that have one.
func (s *Scene) deadLetterExchanges(ctx context.Context) (map[string]string, error) {
	out, err := s.ctl(ctx, "list_queues", "--silent", "name", "arguments")
	exchanges := map[string]string{}
	for line := range strings.Lines(out) {
		name, args, _ := strings.Cut(line, "\t")
		if m := deadLetterExchange.FindStringSubmatch(args); m != nil {
			exchanges[name] = m[1]
		}
	}
	return exchanges, err
}

// replace declares a queue anew, with a TTL that makes messages early. All else is as it was: a
// queue without its bindings would be found, because messages for it are returned. A controller
// that consumes it may be faster, and declare it as it was.
func (r *Run) replace(ctx context.Context, name, after string, bound []binding) (err error) {
	const attempts = 20
	args := amqp091.Table{"x-message-ttl": int64(1), "x-dead-letter-exchange": after}
	for range attempts {
		err = r.receiver.client.Do(ctx, func(ch *amqp091.Channel) error {
			if err := deleteQueue(ch, name); err != nil {
				return err
			}
			if _, err := ch.QueueDeclare(name, durable, autoDelete, exclusive, noWait, args); err != nil {
				return err
			}
			for _, b := range bound {
				if err := ch.QueueBind(name, b.key, b.source, noWait, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if !refusedWith(err, amqp091.PreconditionFailed) {
			return err
		}
	}
	return err
}

// awaitConflict publishes messages that are not accounted for until a Delayer refuses them.
func (r *Run) awaitConflict(ctx context.Context) (took time.Duration, err error) {
	const most, look = time.Minute, 200 * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("%s: no message was refused within %v", r.Subject.Name, most))
	defer cancel()
	began := time.Now()
	for tick := time.Tick(look); ; {
		err := r.Delayer.Publish(ctx, "", r.Queue(), r.Subject.Delays[0], amqp091.Publishing{Body: []byte(anothers)})
		if errors.Is(err, delayer.ErrConflict) {
			return time.Since(began), nil
		}
		select {
		case <-tick:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
