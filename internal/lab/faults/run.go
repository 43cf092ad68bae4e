package faults

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/account"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// Quorum is the type of the queues in which nothing is lost.
const Quorum = "quorum"

// A Command is the command delayer with arguments. It ends with its context.
type Command func(ctx context.Context, args ...string) *exec.Cmd

// A Subject is a Delayer's configuration under test.
type Subject struct {
	Name      string
	QueueType string // where messages wait: Quorum, or what may lose some in a crash
	// Open opens a Delayer at the broker or brokers. Every object of its begins with the prefix.
	Open func(ctx context.Context, urls []string, prefix string) (delayer.Delayer, error)
	// Remove deletes what Open has declared, with its messages, after the Delayer was closed.
	Remove func(ctx context.Context, urls []string, prefix string) error
	// Delays are what messages ask for, in turn.
	Delays []time.Duration
	// Controller starts a controller in a process of its own, by the environment; nil where there is
	// none to be run.
	Controller Command
	// Env is the environment of Controller, beside the broker's URL and the prefix.
	Env []string
	// Serve says that the Delayer is clients of delayer serve.
	Serve bool
	// Unroutable is the name of the queue for unroutable messages.
	Unroutable func(prefix string) string
}

// NewSubject is a configuration of ours. Its URL and prefix are those of each run.
func NewSubject(name string, cfg backend.Config, delays ...time.Duration) Subject {
	at := func(urls []string, prefix string) backend.Config {
		c := cfg
		c.URL, c.Prefix = strings.Join(urls, ","), prefix
		return c
	}
	const withMessages = true
	return Subject{
		Name: name, QueueType: string(cfg.QueueType), Delays: delays,
		Unroutable: func(prefix string) string { return at(nil, prefix).UnroutableQueue() },
		Open: func(ctx context.Context, urls []string, prefix string) (delayer.Delayer, error) {
			return backend.Open(ctx, at(urls, prefix))
		},
		Remove: func(ctx context.Context, urls []string, prefix string) error {
			return backend.Remove(ctx, at(urls, prefix), withMessages)
		},
	}
}

// A Load says how much is published.
type Load struct {
	Publishers int           // goroutines
	Rate       int           // messages a second, of all together
	Patience   time.Duration // of each Publish
}

// A Run is one Subject under load: publishers, a consumer, and the account of its messages. Half of
// the messages go to a queue through the default exchange, half to the same queue through an
// exchange.
type Run struct {
	Subject Subject
	Prefix  string
	Account *account.Account[int]
	Delayer delayer.Delayer

	load     Load
	receiver *receiver
	gate     sync.RWMutex // held by each publisher while it publishes
	stop     context.CancelFunc
	running  sync.WaitGroup
	turn     atomic.Int64  // the number of the last message
	deleted  []span        // by an operator
	repaired time.Duration // when nothing was broken any more
	began    time.Duration // publishing, as ended
	ended    time.Duration
	closed   time.Duration // how long Close of the Delayer took

	limits      delayer.Limits
	ticketDelay time.Duration // of the messages that have a ticket

	onClose []func()
}

// Start declares the destinations, opens the Delayer through the first urls and publishes until
// Stop. The consumer has a connection of its own, to the second urls. After an error nothing is
// left open.
func Start(ctx context.Context, s Subject, delayerURLs, consumerURLs []string, load Load) (*Run, error) {
	r := &Run{
		Subject: s, Prefix: "faults-" + rand.Text()[:8], Account: account.New[int](time.Now()), load: load,
	}
	var err error
	if r.receiver, err = openReceiver(ctx, r, consumerURLs); err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, mostOutage)
	defer cancel()
	if r.Delayer, err = s.Open(opening, delayerURLs, r.Prefix); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", s.Name, err), r.receiver.close())
	}
	r.limits = r.Delayer.Limits()
	r.ticketDelay = r.limits.CancelBefore + toCancel
	if err := r.receiver.collect(ctx, consumerURLs, s.Unroutable(r.Prefix)); err != nil {
		return nil, errors.Join(err, r.CloseDelayer(), r.receiver.close())
	}
	publishing, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.began = r.Account.Now()
	for i := range load.Publishers {
		r.running.Go(func() { r.publish(publishing, i) })
	}
	return r, nil
}

// Queue is where messages arrive.
func (r *Run) Queue() string { return r.Prefix + "-in" }

// Exchange leads to the queue as well.
func (r *Run) Exchange() string { return exchangeOf(r.Prefix) }

func exchangeOf(prefix string) string { return prefix + "-to" }

// publish publishes at this publisher's share of the rate, each message with a number of its own,
// and repeats none.
func (r *Run) publish(ctx context.Context, first int) {
	pace := time.Second * time.Duration(r.load.Publishers) / time.Duration(r.load.Rate)
	next := time.Now().Add(pace * time.Duration(first) / time.Duration(r.load.Publishers))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(next)):
		}
		r.gate.RLock()
		r.once()
		r.gate.RUnlock()
		if next = next.Add(pace); time.Since(next) > time.Second {
			next = time.Now() // what an outage has kept back is not made up for all at once
		}
	}
}

// Of eight messages of a Scheduler four have a ticket. Two of these are cancelled, and one is made
// due later.
const (
	ofMessages, haveTickets, areCancelled, isPostponed = 8, 4, 2, 2

	// later is by how much, and toCancel how much time there is to do so.
	later, toCancel = time.Second, 3 * time.Second
)

func (r *Run) once() {
	n := r.turn.Add(1)
	exchange, key := "", r.Queue()
	if n%2 == 0 {
		exchange, key = r.Exchange(), "to.it"
	}
	delay := r.Subject.Delays[int(n)%len(r.Subject.Delays)]
	ticketed := r.limits.CancelBefore > 0 && n%ofMessages < haveTickets
	if ticketed {
		delay = r.ticketDelay
	}
	id := int(n)
	r.Account.Ask(course{ID: id, Asked: r.Account.Now(), Delay: delay})
	msg := amqp091.Publishing{Body: fmt.Appendf(nil, "%s %d", r.Prefix, id)}
	var ticket delayer.Ticket
	err := r.patiently(func(ctx context.Context) (err error) {
		if ticketed {
			ticket, err = r.Delayer.Schedule(ctx, delayer.Message{Exchange: exchange, Key: key, Delay: delay, Publishing: msg})
			return err
		}
		return r.Delayer.Publish(ctx, exchange, key, delay, msg)
	})
	r.Account.Answer(id, r.Account.Now(), err)
	if err == nil && ticketed {
		r.change(id, n%ofMessages, ticket)
	}
}

func (r *Run) change(id int, turn int64, ticket delayer.Ticket) {
	switch {
	case turn < areCancelled:
		r.Account.Cancel(id, r.patiently(func(ctx context.Context) error { return r.Delayer.Cancel(ctx, ticket) }))
	case turn == isPostponed:
		delay := r.ticketDelay + later
		due := r.Account.Now() + delay
		r.Account.Postpone(id, due, r.patiently(func(ctx context.Context) error {
			_, err := r.Delayer.Postpone(ctx, ticket, delay)
			return err
		}))
	}
}

func (r *Run) patiently(f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.load.Patience)
	defer cancel()
	return f(ctx)
}

// Stop ends publishing and returns when every Publish has answered.
func (r *Run) Stop() {
	r.stop()
	r.running.Wait()
	if r.ended == 0 {
		r.ended = r.Account.Now()
	}
}

// Confirmed is how many messages were published.
func (r *Run) Confirmed() int { return r.Account.Counts().Confirmed }

// Totals say what became of the messages.
func (r *Run) Totals() Totals {
	messages := r.Account.Messages()
	t := totals(messages, r.deleted, r.repaired)
	t.Outage = outage(messages, r.began, r.ended)
	return t
}

// Await returns once every confirmed message has arrived or is kept as unroutable, and what was
// cancelled would have, or when none has for patience. Halfway through its patience it consumes on
// a new channel: a quorum queue whose leader was killed may have counted messages as given to a
// consumer that never got them, and tells only with the next delivery.
func (r *Run) Await(ctx context.Context, patience time.Duration) {
	for arrived := -1; r.Account.Await(ctx, patience/2) == nil; {
		now := r.Account.Counts()
		if now.Undone == 0 {
			break
		}
		if now.Arrived == arrived {
			return // nothing came on the new channel either
		}
		arrived = now.Arrived
		_ = r.receiver.renew(ctx) // or else what is missing is counted as missing
	}
	var cancelled time.Duration // when the last would have arrived that was cancelled, or may have been
	for _, m := range r.Account.Messages() {
		if m.Outcome == account.Cancelled || m.Outcome == account.Unknown && m.Err == nil {
			cancelled = max(cancelled, m.Due()+inFlight)
		}
	}
	_ = pace.Sleep(ctx, cancelled-r.Account.Now())
}

// AwaitConfirmed returns once n more messages were confirmed than when it was called.
func (r *Run) AwaitConfirmed(ctx context.Context, n int) error {
	before := r.Confirmed()
	for r.Confirmed() < before+n {
		if pace.Sleep(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("%s: no %d messages confirmed: %w", r.Subject.Name, n, context.Cause(ctx))
		}
	}
	return nil
}

// CloseDelayer closes the Delayer and remembers how long that took. It may be called more than
// once.
func (r *Run) CloseDelayer() error {
	if r.Delayer == nil {
		return nil
	}
	began := time.Now()
	err := r.Delayer.Close()
	r.closed = time.Since(began)
	r.Delayer = nil
	return err
}

// Close ends all, deletes the destinations and whatever has the run's prefix, and returns when no
// goroutine is left.
func (r *Run) Close() error {
	r.Stop()
	err := r.CloseDelayer()
	r.endProcesses()
	return errors.Join(err, r.receiver.close())
}

// endProcesses ends the controllers that a fault has left running, and removes what it has
// declared.
func (r *Run) endProcesses() {
	for _, end := range r.onClose {
		end()
	}
	r.onClose = nil
}
