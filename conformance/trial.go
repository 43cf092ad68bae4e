package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

var sprintf = fmt.Sprintf

// caseTime ends a case that hangs where patience does not reach, as in a World that never answers.
// Where delays are long it is longer.
const caseTime = 10 * time.Minute

// A trial is one case being tried: a World of its own, and a Delayer.
type trial struct {
	tester
	Case
	ctx context.Context
	h   Harness
	w   World
	d   delayer.Delayer
	lim delayer.Limits
}

// try opens what a case needs, runs it, and closes it all. The case has a Delayer of its own if there is
// none to share.
func try(t tester, h Harness, c testCase, shared *sharedDelayer) {
	ctx, cancel := context.WithTimeout(context.Background(), caseTime)
	defer cancel()
	w, err := h.World(ctx)
	if err != nil {
		t.Fatalf("%s: the world does not open: %v", c.Sentence, err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Logf("closing the world: %v", err)
		}
	}()
	tr := &trial{tester: t, Case: c.Case, ctx: ctx, h: h, w: w}
	if tr.d = shared.open(tr); tr.d == nil {
		tr.d = tr.open()
		defer func() { _ = tr.d.Close() }() // the cases about Close check what it returns
	}
	tr.lim = tr.d.Limits()
	var end context.CancelFunc
	tr.ctx, end = context.WithTimeout(context.Background(), caseTime+100*tr.short())
	defer end()
	c.check(tr)
}

// A sharedDelayer is one that cases use at the same time, as the goroutines of an application do. It
// opens when the first case needs it.
type sharedDelayer struct {
	once sync.Once
	d    delayer.Delayer
	err  error
}

// open returns the Delayer, or nil if there is none to share.
func (s *sharedDelayer) open(t *trial) delayer.Delayer {
	t.Helper()
	if s == nil {
		return nil
	}
	s.once.Do(func() { s.d, s.err = t.h.Open(t.ctx) })
	if s.err != nil {
		t.failf("the Delayer does not open: %v", s.err)
	}
	return s.d
}

func (s *sharedDelayer) close() {
	if s.d != nil {
		_ = s.d.Close() // the cases about Close check what it returns
	}
}

// open opens another Delayer. The caller closes it.
func (t *trial) open() delayer.Delayer {
	t.Helper()
	d, err := t.h.Open(t.ctx)
	if err != nil {
		t.failf("the Delayer does not open: %v", err)
	}
	return d
}

// failf ends the case as failed.
func (t *trial) failf(format string, args ...any) {
	t.Helper()
	t.Fatalf("%s: %s", t.Sentence, sprintf(format, args...))
}

// errorf fails the case and goes on, to tell what else is wrong.
func (t *trial) errorf(format string, args ...any) {
	t.Helper()
	t.Errorf("%s: %s", t.Sentence, sprintf(format, args...))
}

// must ends the case if the World did not do what it was asked. It skips the case if the World
// cannot.
func (t *trial) must(err error) {
	t.Helper()
	if reason, ok := unable(err); ok {
		t.Skipf("%s", reason)
	}
	if err != nil {
		t.failf("the world: %v", err)
	}
}

var (
	runID   = rand.Text()[:6]
	counter atomic.Int64
)

// name returns a name that nothing else in the broker has.
func (t *trial) name(hint string) string {
	return sprintf("conformance-%s-%d-%s", runID, counter.Add(1), hint)
}

// queue declares a queue and returns a receiver of what arrives there.
func (t *trial) queue(name string) *receiver {
	t.Helper()
	t.must(t.w.DeclareQueue(t.ctx, name))
	in := newReceiver(name)
	t.must(t.w.Consume(t.ctx, name, in.add))
	return in
}

// exchange declares an exchange with a new name.
func (t *trial) exchange(kind string) string {
	t.Helper()
	name := t.name(kind)
	t.must(t.w.DeclareExchange(t.ctx, name, kind))
	return name
}

// bind binds the queue of a receiver.
func (t *trial) bind(in *receiver, key, exchange string) {
	t.Helper()
	t.must(t.w.Bind(t.ctx, in.queue, key, exchange, nil))
}

// A job is one Publish to be made. Its message's MessageId tells it from others.
type job struct {
	exchange, key string
	delay         time.Duration
	msg           amqp091.Publishing
}

// An outcome is a job and what came of it.
type outcome struct {
	job
	before, after time.Time
	err           error
}

// id is the message's id, as it is found in a receiver.
func (o outcome) id() string { return o.msg.MessageId }

// text is the plainest message: its id, also as its body.
func text(id string) amqp091.Publishing {
	return amqp091.Publishing{MessageId: id, Body: []byte(id)}
}

// to returns a job for the queue of a receiver through the default exchange.
func to(in *receiver, id string, delay time.Duration) job {
	return job{key: in.queue, delay: delay, msg: text(id)}
}

// jobs returns n jobs made by f from ids "<prefix>-000", "<prefix>-001", …
func jobs(n int, prefix string, f func(i int, id string) job) []job {
	list := make([]job, n)
	for i := range list {
		list[i] = f(i, sprintf("%s-%03d", prefix, i))
	}
	return list
}

// publishBy publishes with any Delayer and context.
func publishBy(ctx context.Context, d delayer.Delayer, j job) outcome {
	o := outcome{job: j, before: time.Now()}
	o.err = d.Publish(ctx, j.exchange, j.key, j.delay, j.msg)
	o.after = time.Now()
	return o
}

// publish publishes with the trial's Delayer; every Publish of the suite has an end.
func (t *trial) publish(j job) outcome {
	ctx, cancel := context.WithTimeout(t.ctx, t.h.Patience)
	defer cancel()
	return publishBy(ctx, t.d, j)
}

// publishAll publishes from many goroutines, and returns outcomes in the order of jobs.
func (t *trial) publishAll(jobs []job) []outcome {
	const publishers = 32
	outs := make([]outcome, len(jobs))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(publishers, len(jobs)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs); i = int(next.Add(1)) - 1 {
				outs[i] = t.publish(jobs[i])
			}
		})
	}
	wg.Wait()
	return outs
}

// mustPublish publishes all jobs, and ends the case if one was refused.
func (t *trial) mustPublish(jobs ...job) []outcome {
	t.Helper()
	outs := t.publishAll(jobs)
	for _, o := range outs {
		if o.err != nil {
			t.failf("message %s to exchange %q key %q after %v: Publish returned %v", o.id(), o.exchange, abridged(o.key), o.delay, o.err)
		}
	}
	return outs
}

// refused checks that a Publish failed with the kind of error that was due, and that it told the
// truth of it.
func (t *trial) refused(o outcome, kind error) {
	t.Helper()
	var e *delayer.Error
	switch {
	case o.err == nil:
		t.errorf("message %s: Publish returned nil, want an error that is %q", o.id(), kind)
	case !errors.Is(o.err, kind):
		t.errorf("message %s: Publish returned %q, want an error that is %q", o.id(), o.err, kind)
	case !errors.As(o.err, &e):
		t.errorf("message %s: Publish returned a %T, want a *delayer.Error", o.id(), o.err)
	case !delayer.SafeToRetry(o.err):
		t.errorf("message %s: not safe to retry after %q, though it was certainly not stored", o.id(), o.err)
	}
}

// abridged is s, or enough of it to be read.
func abridged(s string) string {
	const readable = 100
	if len(s) <= readable {
		return s
	}
	return sprintf("%s… (%d bytes)", s[:readable], len(s))
}
