package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// A Fault is a failure that is injected while messages are published, wait and arrive.
type Fault struct {
	Name       string
	About      string                              // one line for the table's readers
	Cluster    bool                                // done to a cluster of three nodes
	OneCopy    bool                                // for Subjects without quorum queues too: a crash loses some of theirs, and how many is measured
	Alone      bool                                // for Subjects with controllers in processes of their own, and only those
	Serve      bool                                // for Subjects that are clients of delayer serve, and only those
	User       bool                                // the Delayer logs in as a user of its own
	Answers    bool                                // it is over, or judged, by what a Delayer's Publish answers: not for Subjects that are Indirect
	Once       bool                                // nothing crashes and no connection is lost: no message may come twice
	Kills      bool                                // the broker is killed: whose Limits do not promise it may lose messages
	Stops      bool                                // the same, where it is stopped in good order and started again
	Refuses    bool                                // a destination refuses messages
	Unroutable bool                                // a destination, or what leads to it, may be gone: messages may be kept as unroutable
	Inject     func(context.Context, *Scene) error `json:"-"`
}

// loses reports whether a Delayer may lose messages when this is done to its broker.
func (f Fault) loses(l delayer.Limits) bool {
	return f.Kills && !l.SurvivesCrash || f.Stops && !l.SurvivesRestart
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

	Notes []string // what the fault has measured beside the accounts

	delayerURLs, consumerURLs []string
	finally                   func() // measures when all has arrived
}

// URLs are the broker's, or brokers', without the proxy.
func (s *Scene) URLs() []string { return s.consumerURLs }

// Note adds a remark to the report.
func (s *Scene) Note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
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

// mended notes that what a fault broke works again, or is left as it is. A fault that is injected
// several times ends with the last.
func (s *Scene) mended() {
	for _, r := range s.Runs {
		r.fixed()
	}
}

// between waits a random time.
func (s *Scene) between(ctx context.Context, from, to time.Duration) error {
	return s.wait(ctx, from+time.Duration(s.Rand.Int64N(int64(to-from))))
}

func (s *Scene) wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// mostOutage is how long a Delayer may need to publish again. A reconnect that hangs is given up
// after 30 s.
const mostOutage = 3 * time.Minute

// work returns once every Delayer has confirmed n more messages.
func (s *Scene) work(ctx context.Context, n int) error {
	return within(ctx, "publish", func(ctx context.Context) error {
		for _, r := range s.Runs {
			if err := r.AwaitConfirmed(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// within bounds how long something needs to work again.
func within(ctx context.Context, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, mostOutage, fmt.Errorf("it does not %s again within %v", what, mostOutage))
	defer cancel()
	return f(ctx)
}

// A Campaign injects faults, and accounts for every message.
type Campaign struct {
	Subjects []Subject
	Broker   *rabbit.Broker
	Cluster  *rabbit.Cluster
	Load     Load
	Messages int           // confirmed of each Delayer, at least
	Times    int           // see Scene
	Hold     time.Duration // see Scene
	Patience time.Duration // without an arrival, until what has not come is missing; 0 is as late as messages may be
	Leave    bool          // what was declared, because the broker ends with the campaign
	Beside   bool          // other campaigns go on in this process: goroutines that are left are not counted
	// Redeliver is after how long the broker repeats a dead-lettering that was refused or
	// unroutable. 0 is its default, three minutes.
	Redeliver time.Duration
	Seed      uint64
	Logf      func(format string, args ...any)
}

// A Row is the result of one Fault with one Subject.
type Row struct {
	Fault     Fault
	Subject   string
	QueueType string
	Totals    Totals
	Took      time.Duration
	Notes     []string
	Problems  []string // violations of the contract
	Slow      []string // times that a Delayer explains, or a machine that does other work
}

// Run injects one fault for all Subjects that it concerns, at the same time. The error is about the
// campaign itself; the violations of the Delayers are in the rows.
func (c Campaign) Run(ctx context.Context, f Fault) (rows []Row, err error) {
	began := time.Now()
	goroutines := runtime.NumGoroutine()
	s, err := c.scene(f)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := c.start(ctx, f, s); err != nil || len(s.Runs) == 0 {
		return nil, err
	}
	disturbed := c.disturb(ctx, f, s)
	var arriving sync.WaitGroup
	for _, r := range s.Runs {
		arriving.Go(func() { r.Await(ctx, c.patience(r.Subject)) })
	}
	arriving.Wait()
	if s.finally != nil {
		s.finally()
	}
	for _, r := range s.Runs {
		rows = append(rows, c.row(f, r))
	}
	s.locate(ctx, rows)
	shared, err := c.clear(ctx, s, goroutines)
	for i := range rows {
		rows[i].Took = time.Since(began)
		rows[i].Notes = s.Notes
		rows[i].Problems = append(rows[i].Problems, shared...)
		rows[i].closing(s.Runs[i])
	}
	if disturbed != nil {
		err = errors.Join(fmt.Errorf("%s: %w", f.Name, disturbed), err)
	}
	return rows, err
}

// patience is how long a message may be late, unless it is set: what has not come before may still
// come. It is shorter if messages may be lost: they would be awaited in vain.
func (c Campaign) patience(s Subject) time.Duration {
	const forTheLost = 30 * time.Second
	patience := cmp.Or(c.Patience, c.latest())
	if s.QueueType != Quorum {
		return min(patience, forTheLost)
	}
	return patience
}

func (c Campaign) scene(f Fault) (*Scene, error) {
	s := &Scene{Rand: rand.New(rand.NewPCG(c.Seed, 0)), Times: c.Times, Hold: c.Hold, Logf: c.Logf}
	if f.Cluster {
		s.Cluster = c.Cluster
		s.consumerURLs = c.Cluster.URLs()
		s.delayerURLs = s.consumerURLs
		return s, nil
	}
	p, err := NewProxy(c.Broker.URL())
	if err != nil {
		return nil, err
	}
	s.Broker, s.Proxy = c.Broker, p
	s.consumerURLs = []string{c.Broker.URL()}
	s.delayerURLs = []string{p.URL(c.Broker.URL())}
	return s, nil
}

func (s *Scene) close() {
	if s.Proxy != nil {
		s.Proxy.Close()
	}
}

// settle is how long topology is left alone before anything is killed: RabbitMQ 3.10 forgets a
// durable queue that was declared less than two seconds before a SIGKILL.
const settle = 3 * time.Second

// start opens the Delayers and publishes until what they declared has settled.
func (c Campaign) start(ctx context.Context, f Fault, s *Scene) error {
	if f.User {
		if err := s.addUser(ctx); err != nil {
			return err
		}
	}
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
	return s.wait(ctx, settle)
}

func (f Fault) concerns(s Subject) bool {
	return f.Alone == (s.Controller != nil) && f.Serve == s.Serve && (s.QueueType == Quorum || f.OneCopy) && !(f.Answers && s.Indirect)
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
	for _, r := range s.Runs {
		for r.Confirmed() < c.Messages {
			if err := s.wait(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
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
// (docs/unroutable.md). A busy machine has a minute to spare.
func (c Campaign) latest() time.Duration {
	const usual, again, busy = 3 * time.Minute, time.Minute, time.Minute
	return 2*cmp.Or(c.Redeliver, usual) + again + busy
}

func (c Campaign) row(f Fault, r *Run) Row {
	t := r.Totals()
	p := promises{
		lossy: f.loses(r.limits), unroutable: f.Unroutable || f.Refuses && c.misroutes(r.Subject), once: f.Once, patience: r.load.Patience, latest: c.latest(),
	}
	return Row{Fault: f, Subject: r.Subject.Name, QueueType: r.Subject.QueueType, Totals: t,
		Problems: append(r.problems, t.broken(p, r.describe)...), Slow: append(r.slow, t.slow(p)...)}
}

// misroutes reports whether the broker forgets in a second attempt by which way a message was to
// go. It is misrouted then, and a Delayer tries to send it on for some two minutes.
func (c Campaign) misroutes(s Subject) bool {
	major, rest, _ := strings.Cut(c.Broker.Version(), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return major == "3" && slices.Contains([]string{"10", "11", "12"}, minor) && !strings.HasPrefix(s.Name, "controller")
}

// locate tells messages that are missing and wait somewhere from those that are lost.
func (s *Scene) locate(ctx context.Context, rows []Row) {
	if !slices.ContainsFunc(rows, func(r Row) bool { return len(r.Totals.Missing) > 0 }) {
		return
	}
	const enough = time.Minute
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	queues, err := s.ctl(ctx, "list_queues", "--silent", "name", "messages", "state")
	if err != nil {
		s.Logf("where the missing are: %v", err)
	}
	for i, r := range s.Runs {
		if len(rows[i].Totals.Missing) > 0 {
			rows[i].Problems = append(rows[i].Problems, heldBy(queues, r.Prefix)...)
		}
	}
}

// heldBy says which of the listed queues with a prefix hold messages, or were not started by
// RabbitMQ (docs/reliability.md).
func heldBy(queues, prefix string) (held []string) {
	for line := range strings.Lines(queues) {
		queue := strings.Split(strings.TrimSpace(line), "\t")
		if len(queue) == 3 && strings.HasPrefix(queue[0], prefix) && (queue[1] != "0" || queue[2] == "down") {
			held = append(held, fmt.Sprintf("queue %s (%s) still holds %s messages", queue[0], queue[2], queue[1]))
		}
	}
	return held
}

func (r *Row) closing(run *Run) {
	if run.Closing() > mostClosing {
		r.Problems = append(r.Problems, fmt.Sprintf("Close took %v", run.Closing()))
	}
}

// describe says of the first messages when they were asked for and due.
func (r *Run) describe(list []course) string {
	const enough = 10
	var b strings.Builder
	for _, m := range list[:min(len(list), enough)] {
		fmt.Fprintf(&b, " [%d asked %s, delay %v, answered after %v",
			m.ID, r.Account.Time(m.Asked).Format("15:04:05.000"), m.Delay, (m.Answered - m.Asked).Round(time.Millisecond))
		if m.Copies > 0 {
			fmt.Fprintf(&b, ", arrived after %v", m.Arrived-m.Asked)
		}
		b.WriteString("]")
	}
	return b.String()
}

// mostRemoving bounds the removal of a topology: a queue without a leader is not deleted.
const mostRemoving = time.Minute

// remove deletes the run's topology.
func (r *Run) remove(ctx context.Context, urls []string) error {
	ctx, cancel := context.WithTimeout(ctx, mostRemoving)
	defer cancel()
	return r.Subject.Remove(ctx, urls, r.Prefix)
}

// clear closes the Delayers, removes the topologies, and checks what is left.
func (c Campaign) clear(ctx context.Context, s *Scene, goroutines int) (problems []string, err error) {
	for _, r := range s.Runs {
		r.endProcesses() // or they would declare again what is removed
		err = errors.Join(err, r.CloseDelayer())
		if !c.Leave {
			err = errors.Join(err, r.remove(ctx, s.consumerURLs))
		}
		err = errors.Join(err, r.Close()) // its destinations last: nothing is bound to them any more
	}
	connections, asked := s.connections(ctx)
	s.close()
	s.Proxy = nil
	now := goroutines
	if !c.Beside {
		now = settleGoroutines(goroutines)
	}
	return left(connections, goroutines, now), errors.Join(err, asked)
}

// left says what closed Delayers have left: connections, and goroutines that there were not before.
func left(connections, before, now int) (problems []string) {
	if connections > 0 {
		problems = append(problems, fmt.Sprintf("%d connections of closed Delayers are left", connections))
	}
	if now > before {
		problems = append(problems, fmt.Sprintf("%d goroutines before, %d after", before, now))
	}
	return problems
}

// connections counts those of Delayers that the broker or the cluster still has.
func (s *Scene) connections(ctx context.Context) (left int, err error) {
	for _, r := range s.Runs {
		n, err := connectionsOf(ctx, s.ctl, r.Prefix)
		if err != nil {
			return left, err
		}
		left += n
	}
	return left, nil
}

// settleGoroutines waits until no more than there were are left, or a while.
func settleGoroutines(before int) int {
	const patience = time.Minute
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		if n := runtime.NumGoroutine(); n <= before {
			return n
		}
	}
	return runtime.NumGoroutine()
}
