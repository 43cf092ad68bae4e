// Package faults injects failures and accounts for every message. A [Run] publishes to one Delayer
// from many goroutines at a steady rate, consumes the messages, and keeps an account of each:
// confirmed, refused or unknown, and delivered, twice, early or missing. A [Fault] is injected
// meanwhile: into a broker, a [Proxy] in front of it, a controller or a destination. A [Campaign]
// injects one fault for several Delayers at once.
//
// Publishers retry nothing: Publish's answer is compared with what happened to that message.
package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// A Campaign injects faults, and accounts for every message.
type Campaign struct {
	Subjects []Subject
	Broker   *rabbit.Broker
	Cluster  *rabbit.Cluster
	Load     Load
	Messages int           // confirmed of each Delayer, at least
	Times    int           // see Scene
	Hold     time.Duration // see Scene
	Leave    bool          // what was declared, because the broker ends with the campaign
	// Redeliver is after how long the broker repeats a dead-lettering that was refused or
	// unroutable. 0 is its default, three minutes.
	Redeliver time.Duration
	Seed      uint64
	Logf      func(format string, args ...any)
}

// Run injects one fault for all Subjects that it concerns, at the same time. The error is about the
// campaign itself; the violations of the Delayers are in the rows.
func (c Campaign) Run(ctx context.Context, f Fault) (rows []Row, err error) {
	s := &Scene{Rand: rand.New(rand.NewPCG(c.Seed, 0)), Times: c.Times, Hold: c.Hold, Logf: c.Logf}
	if f.Cluster {
		s.Cluster = c.Cluster
		s.consumerURLs = c.Cluster.URLs()
		s.delayerURLs = s.consumerURLs
	} else {
		if s.Proxy, err = NewProxy(c.Broker.URL()); err != nil {
			return nil, err
		}
		defer s.Proxy.Close()
		s.Broker = c.Broker
		s.consumerURLs = []string{c.Broker.URL()}
		s.delayerURLs = []string{s.Proxy.URL(c.Broker.URL())}
	}
	if err := c.start(ctx, f, s); err != nil || len(s.Runs) == 0 {
		return nil, err
	}
	disturbed := c.disturb(ctx, f, s)
	var arriving sync.WaitGroup
	for _, r := range s.Runs {
		arriving.Go(func() { r.Await(ctx, c.patience(r.Subject)) })
	}
	arriving.Wait()
	for _, r := range s.Runs {
		rows = append(rows, c.row(f, r))
	}
	left, err := c.clear(ctx, s)
	for i, r := range s.Runs {
		if left > 0 {
			rows[i].problem("%d connections of closed Delayers are left", left)
		}
		if r.closed > mostClosing {
			rows[i].problem("Close took %v", r.closed)
		}
	}
	if disturbed != nil {
		err = errors.Join(fmt.Errorf("%s: %w", f.Name, disturbed), err)
	}
	return rows, err
}

// patience is how long a message may be late: what has not come before may still come. It is
// shorter if messages may be lost: they would be awaited in vain.
func (c Campaign) patience(s Subject) time.Duration {
	if s.QueueType != Quorum {
		return 30 * time.Second
	}
	return c.latest()
}

// settle is how long topology is left alone before anything is killed: RabbitMQ 3.10 forgets a
// durable queue that was declared less than two seconds before a SIGKILL.
const settle = 3 * time.Second

// start opens the Delayers and publishes until what they declared has settled.
func (c Campaign) start(ctx context.Context, f Fault, s *Scene) error {
	for _, subject := range c.Subjects {
		if !f.concerns(subject) {
			continue
		}
		r, err := Start(ctx, subject, s.delayerURLs, s.consumerURLs, c.Load)
		if err != nil {
			for _, r := range s.Runs {
				err = errors.Join(err, r.Close())
			}
			return err
		}
		s.Runs = append(s.Runs, r)
	}
	return pace.Sleep(ctx, settle)
}

// disturb injects the fault and publishes until enough messages were confirmed.
func (c Campaign) disturb(ctx context.Context, f Fault, s *Scene) error {
	defer func() {
		for _, r := range s.Runs {
			r.Stop()
		}
	}()
	if err := s.work(ctx, 1); err != nil {
		return err
	}
	if f.Inject != nil {
		if err := f.Inject(ctx, s); err != nil {
			return err
		}
	}
	if err := s.work(ctx, 10); err != nil { // it publishes again
		return err
	}
	return s.each(func(r *Run) error { return r.AwaitConfirmed(ctx, c.Messages-r.Confirmed()) })
}

// mostClosing bounds Close: ten seconds for confirms, two to close each connection, half a minute
// for the confirm that package retry awaits before, and a busy machine.
const mostClosing = 70 * time.Second

// mostOverrun bounds how long after the end of its context a Publish returns. It should return at
// once, but a busy machine may run no goroutine for seconds. A Publish that ignores its context
// hangs for longer.
const mostOverrun = 30 * time.Second

// latest is how late a message may be once nothing is broken any more, or where nothing was. What
// was refused or unroutable goes on when the broker repeats it. It looks once in each interval for
// what has waited for one, so that takes up to two (rabbit_fifo_dlx_worker:redeliver_messages/1).
// What is misrouted then, and refused, goes to an exchange a second time after a minute
// (docs/operating.md). A busy machine has a minute to spare.
func (c Campaign) latest() time.Duration {
	const usual, again, busy = 3 * time.Minute, time.Minute, time.Minute
	return 2*cmp.Or(c.Redeliver, usual) + again + busy
}

func (c Campaign) row(f Fault, r *Run) Row {
	row := Row{Fault: f.Name, Backend: r.Subject.Name, Queues: r.Subject.QueueType, Totals: r.Totals()}
	p := promises{
		lossy: f.loses(r.limits), unroutable: f.Unroutable || f.Refuses && c.misroutes(r.Subject),
		once: f.Once, patience: r.load.Patience, latest: c.latest(),
	}
	row.Problems, row.Slow = row.broken(p, r.describe), row.slow(p)
	if f.Serve { // a second copy is promised not to come but after a crash or a lost connection
		var twice []int
		for _, m := range r.Account.Messages() {
			if m.Copies > 1 && m.Asked > r.repaired {
				twice = append(twice, m.ID)
			}
		}
		if len(twice) > 0 {
			row.problem("%d came twice that were published after the last crash: %v", len(twice), twice)
		}
	}
	return row
}

// misroutes reports whether the broker forgets in a second attempt by which way a message was to
// go. It is misrouted then, and a Delayer tries to send it on for some two minutes.
func (c Campaign) misroutes(s Subject) bool {
	return c.Broker.From(3, 10) && !c.Broker.From(3, 13) && !strings.HasPrefix(s.Name, "controller")
}

// describe says of the first messages when they were asked for and due.
func (r *Run) describe(list []course) string {
	var b strings.Builder
	for _, m := range list[:min(len(list), 10)] {
		fmt.Fprintf(&b, " [%d asked %s, delay %v, answered after %v",
			m.ID, r.Account.Time(m.Asked).Format("15:04:05.000"), m.Delay, (m.Answered - m.Asked).Round(time.Millisecond))
		if m.Copies > 0 {
			fmt.Fprintf(&b, ", arrived after %v", m.Arrived-m.Asked)
		}
		b.WriteString("]")
	}
	return b.String()
}

// clear closes the Delayers, removes the topologies, and counts the connections that are left.
func (c Campaign) clear(ctx context.Context, s *Scene) (left int, err error) {
	for _, r := range s.Runs {
		r.endProcesses() // or they would declare again what is removed
		err = errors.Join(err, r.CloseDelayer())
		if !c.Leave {
			const enough = time.Minute // a queue without a leader is not deleted
			removing, cancel := context.WithTimeout(ctx, enough)
			err = errors.Join(err, r.Subject.Remove(removing, s.consumerURLs, r.Prefix))
			cancel()
		}
		err = errors.Join(err, r.Close()) // its destinations last: nothing is bound to them any more
	}
	const patience = time.Minute // what a process was killed with is noticed by the broker
	for began := time.Now(); ; {
		out, asked := s.ctl(ctx, "list_connections", "--silent", "client_properties")
		left = 0
		for _, r := range s.Runs {
			left += strings.Count(out, "delayer "+r.Prefix)
		}
		if asked != nil || left == 0 || time.Since(began) > patience {
			return left, errors.Join(err, asked)
		}
		if ended := pace.Sleep(ctx, time.Second); ended != nil {
			return left, errors.Join(err, ended)
		}
	}
}
