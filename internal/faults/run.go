package faults

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// Quorum is the type of the queues in which nothing is lost.
const Quorum = "quorum"

// A Subject is a Delayer's configuration under test.
type Subject struct {
	Name      string
	QueueType string // where messages wait: Quorum, or what may lose some in a crash
	// Open opens a Delayer at the broker or brokers. Every object of its begins with the prefix.
	Open func(ctx context.Context, urls []string, prefix string) (delayer.Delayer, error)
	// Delays are what messages ask for, in turn.
	Delays []time.Duration
	// Controller is the command of a controller in a process of its own; nil where there is none to
	// be run.
	Controller func(url, prefix string) *exec.Cmd
	// Unroutable is the name of the queue for unroutable messages.
	Unroutable func(prefix string) string
}

// A Load says how much is published.
type Load struct {
	Publishers int           // goroutines
	Rate       int           // messages a second, of all together
	Patience   time.Duration // of each Publish
}

// A Run is one Subject under load: publishers, a consumer, and the ledger. Half of the messages go
// to a queue through the default exchange, half to the same queue through an exchange.
type Run struct {
	Subject Subject
	Prefix  string
	Ledger  *Ledger
	Delayer delayer.Delayer

	load     Load
	receiver *receiver
	gate     gate
	stop     context.CancelFunc
	ended    sync.WaitGroup
	turn     atomic.Int64
	closed   time.Duration // how long Close of the Delayer took

	scheduler   delayer.Scheduler // the Delayer, or nil if it is none
	ticketDelay time.Duration     // of the messages that have a ticket

	onClose []func()
}

// Start declares the destinations, opens the Delayer through the first urls and publishes until
// Stop. The consumer has a connection of its own, to the second urls. After an error nothing is
// left open.
func Start(ctx context.Context, s Subject, delayerURLs, consumerURLs []string, load Load) (*Run, error) {
	r := &Run{
		Subject: s, Prefix: "faults-" + rand.Text()[:8], Ledger: NewLedger(), load: load,
	}
	r.gate.open()
	var err error
	if r.receiver, err = openReceiver(ctx, r, consumerURLs); err != nil {
		return nil, err
	}
	if r.Delayer, err = s.Open(ctx, delayerURLs, r.Prefix); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", s.Name, err), r.receiver.close())
	}
	r.scheduler, _ = r.Delayer.(delayer.Scheduler)
	r.ticketDelay = r.Delayer.Limits().CancelBefore + toCancel
	if err := r.receiver.collect(ctx, consumerURLs, s.Unroutable(r.Prefix)); err != nil {
		return nil, errors.Join(err, r.CloseDelayer(), r.receiver.close())
	}
	publishing, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.Ledger.Begin()
	for i := range load.Publishers {
		r.ended.Go(func() { r.publish(publishing, i) })
	}
	return r, nil
}

// Queue is where messages arrive.
func (r *Run) Queue() string { return r.Prefix + "-in" }

// Exchange leads to the queue as well.
func (r *Run) Exchange() string { return r.Prefix + "-to" }

// Pause holds the publishers, and returns when none is publishing any more; Resume lets them go on.
func (r *Run) Pause() { r.gate.close() }

// Resume lets paused publishers go on.
func (r *Run) Resume() { r.gate.open() }

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
		if !r.gate.enter(ctx) {
			return
		}
		r.once()
		r.gate.leave()
		if next = next.Add(pace); time.Since(next) > time.Second {
			next = time.Now() // what an outage has kept back is not made up for all at once
		}
	}
}

// Of eight messages of a Scheduler four have a ticket. Two of these are cancelled, and one is made
// due later.
const (
	ofMessages, haveTickets, areCancelled, isRescheduled = 8, 4, 2, 2

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
	ticketed := r.scheduler != nil && n%ofMessages < haveTickets
	if ticketed {
		delay = r.ticketDelay
	}
	id := r.Ledger.Ask(delay, r.load.Patience)
	msg := amqp091.Publishing{Body: fmt.Appendf(nil, "%s %d", r.Prefix, id)}
	var ticket delayer.Ticket
	err := r.patiently(func(ctx context.Context) (err error) {
		if ticketed {
			ticket, err = r.scheduler.Schedule(ctx, exchange, key, delay, msg)
			return err
		}
		return r.Delayer.Publish(ctx, exchange, key, delay, msg)
	})
	r.Ledger.Answer(id, err)
	if err == nil && ticketed {
		r.change(id, n%ofMessages, ticket)
	}
}

// change cancels or reschedules a message, or does nothing with it, in turn.
func (r *Run) change(id int, turn int64, ticket delayer.Ticket) {
	switch {
	case turn < areCancelled:
		r.Ledger.Cancel(id, r.patiently(func(ctx context.Context) error { return r.scheduler.Cancel(ctx, ticket) }))
	case turn == isRescheduled:
		delay := r.ticketDelay + later
		due := time.Now().Add(delay)
		r.Ledger.Reschedule(id, due, r.patiently(func(ctx context.Context) error {
			_, err := r.scheduler.Reschedule(ctx, ticket, delay)
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
	r.gate.open()
	r.stop()
	r.ended.Wait()
	r.Ledger.Stop()
}

// Confirmed is how many messages were published.
func (r *Run) Confirmed() int {
	confirmed, _, _ := r.Ledger.counts()
	return confirmed
}

// Await returns once every confirmed message has arrived or is kept as unroutable, or when none has
// for patience. Halfway through its patience it consumes on a new channel: a quorum queue whose leader was
// killed may have counted messages as given to a consumer that never got them, and tells only with
// the next delivery.
func (r *Run) Await(ctx context.Context, patience time.Duration) {
	const look = 20 * time.Millisecond
	tick := time.NewTicker(look)
	defer tick.Stop()
	began, renewed := time.Now(), time.Time{}
	for {
		_, undone, progress := r.Ledger.counts()
		if progress.Before(began) {
			progress = began
		}
		silent := time.Since(progress)
		if undone == 0 && !r.Ledger.pending() || silent > patience+r.longest() {
			return
		}
		if silent > patience/2+r.longest() && renewed.Before(progress) {
			renewed = time.Now()
			_ = r.receiver.renew(ctx) // or else what is missing is counted as missing
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (r *Run) longest() time.Duration {
	longest := time.Duration(0)
	if r.scheduler != nil {
		longest = r.ticketDelay + later
	}
	for _, d := range r.Subject.Delays {
		longest = max(longest, d)
	}
	return longest
}

// AwaitConfirmed returns once n more messages were confirmed than when it was called.
func (r *Run) AwaitConfirmed(ctx context.Context, n int) error {
	before, _, _ := r.Ledger.counts()
	const look = 10 * time.Millisecond
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		if now, _, _ := r.Ledger.counts(); now >= before+n {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: no %d messages confirmed: %w", r.Subject.Name, n, context.Cause(ctx))
		}
	}
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

// Closing is how long the Delayer took to close.
func (r *Run) Closing() time.Duration { return r.closed }

// Close ends all, deletes the destinations and whatever has the run's prefix, and returns when no
// goroutine is left.
func (r *Run) Close() error {
	r.Stop()
	err := r.CloseDelayer()
	r.endProcesses()
	return errors.Join(err, r.receiver.close())
}

// endProcesses ends the controllers that a fault has left running.
func (r *Run) endProcesses() {
	for _, end := range r.onClose {
		end()
	}
	r.onClose = nil
}

// A gate is what publishers pass one at a time each, and who closes it waits for those inside.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil while open; closed when it opens
	inside sync.WaitGroup
}

func (g *gate) enter(ctx context.Context) bool {
	for {
		g.mu.Lock()
		closed := g.closed
		if closed == nil {
			g.inside.Add(1)
			g.mu.Unlock()
			return true
		}
		g.mu.Unlock()
		select {
		case <-closed:
		case <-ctx.Done():
			return false
		}
	}
}

func (g *gate) leave() { g.inside.Done() }

func (g *gate) close() {
	g.mu.Lock()
	if g.closed == nil {
		g.closed = make(chan struct{})
	}
	g.mu.Unlock()
	g.inside.Wait()
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}
