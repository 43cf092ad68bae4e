package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

var sprintf = fmt.Sprintf

// caseTime bounds a case, beyond its delays: a World may never answer.
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

	began time.Time // the epoch of its accounts
}

// try opens what a case needs, runs it, and closes it all. shared returns the Delayer that cases
// share, as goroutines of an application do.
func try(t tester, h Harness, c testCase, shared func() (delayer.Delayer, error)) {
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
	tr := &trial{tester: t, Case: c.Case, ctx: ctx, h: h, w: w, began: time.Now()}
	if c.own || c.alone {
		tr.d = tr.open()
		defer func() { _ = tr.d.Close() }() // the cases about Close check what it returns
	} else if tr.d, err = shared(); err != nil {
		tr.failf("the Delayer does not open: %v", err)
	}
	tr.lim = tr.d.Limits()
	var end context.CancelFunc
	tr.ctx, end = context.WithTimeout(context.Background(), caseTime+100*tr.short())
	defer end()
	c.check(tr)
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

func (t *trial) failf(format string, args ...any) {
	t.Helper()
	t.Fatalf("%s: %s", t.Sentence, sprintf(format, args...))
}

// errorf fails the case and goes on, to tell what else is wrong.
func (t *trial) errorf(format string, args ...any) {
	t.Helper()
	t.Errorf("%s: %s", t.Sentence, sprintf(format, args...))
}

// must ends the case if the World has failed. It skips the case if the World is unable.
func (t *trial) must(err error) {
	t.Helper()
	var u *unableError
	if errors.As(err, &u) {
		t.Skipf("%s", u.reason)
	}
	if err != nil {
		t.failf("the world: %v", err)
	}
}

var (
	runID   = rand.Text()[:6]
	counter atomic.Int64
)

func (t *trial) name(hint string) string {
	return sprintf("conformance-%s-%d-%s", runID, counter.Add(1), hint)
}

func (t *trial) queue(name string) *receiver {
	t.Helper()
	t.must(t.w.DeclareQueue(t.ctx, name))
	in := newReceiver(name)
	t.must(t.w.Consume(t.ctx, name, in.add))
	return in
}

func (t *trial) exchange(kind string) string {
	t.Helper()
	name := t.name(kind)
	t.must(t.w.DeclareExchange(t.ctx, name, kind))
	return name
}

func (t *trial) routed(kind, key string) (in *receiver, exchange string) {
	t.Helper()
	in, exchange = t.queue(t.name("queue")), t.exchange(kind)
	t.bind(in, key, exchange)
	return in, exchange
}

func (t *trial) bind(in *receiver, key, exchange string) {
	t.Helper()
	t.must(t.w.Bind(t.ctx, in.queue, key, exchange, nil))
}

// A job is a message to publish. Its MessageId is unique.
type job struct {
	exchange, key string
	delay         time.Duration
	msg           amqp091.Publishing
}

func (j job) message() delayer.Message {
	return delayer.Message{Exchange: j.exchange, Key: j.key, Delay: j.delay, Publishing: j.msg}
}

type outcome struct {
	job
	before, after time.Time
	err           error
}

func (o outcome) id() string { return o.msg.MessageId }

// text returns a message that holds nothing but its id, also as its body.
func text(id string) amqp091.Publishing {
	return amqp091.Publishing{MessageId: id, Body: []byte(id)}
}

func to(in *receiver, id string, delay time.Duration) job {
	return job{key: in.queue, delay: delay, msg: text(id)}
}

func jobs(n int, prefix string, f func(i int, id string) job) []job {
	list := make([]job, n)
	for i := range list {
		list[i] = f(i, sprintf("%s-%03d", prefix, i))
	}
	return list
}

func publishBy(ctx context.Context, d delayer.Delayer, j job) outcome {
	o := outcome{job: j, before: time.Now()}
	o.err = d.Publish(ctx, j.exchange, j.key, j.delay, j.msg)
	o.after = time.Now()
	return o
}

func (t *trial) publish(j job) outcome {
	ctx, cancel := context.WithTimeout(t.ctx, t.h.Patience)
	defer cancel()
	return publishBy(ctx, t.d, j)
}

func (t *trial) publishAll(jobs []job) []outcome {
	outs := make([]outcome, len(jobs))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(32, len(jobs)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(jobs); i = int(next.Add(1)) - 1 {
				outs[i] = t.publish(jobs[i])
			}
		})
	}
	wg.Wait()
	return outs
}

func (t *trial) mustPublish(jobs ...job) []outcome {
	t.Helper()
	outs := t.publishAll(jobs)
	t.allStored(outs)
	return outs
}

func (t *trial) allStored(outs []outcome) {
	t.Helper()
	for _, o := range outs {
		if o.err != nil {
			t.failf("message %s to exchange %q key %q after %v: Publish returned %v", o.id(), o.exchange, abridged(o.key), o.delay, o.err)
		}
	}
}

// refused checks that a Publish failed with this kind of error, and that the message is safe to
// send again.
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

func abridged(s string) string {
	const readable = 150
	if len(s) <= readable {
		return s
	}
	return sprintf("%s… (%d bytes)", s[:readable], len(s))
}

// tester is the part of *testing.T that cases use. The suite's own tests put a recorder in its
// place, to see the suite fail where it should.
type tester interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	// Skipf ends the case as one that could not be run.
	Skipf(format string, args ...any)
	// Passf ends the case as one that shows nothing of this Delayer. It is not a failure where no
	// case may be skipped.
	Passf(format string, args ...any)
	Failed() bool
	// Run runs f as a subtest, and returns when it has ended. It may be called by several
	// goroutines at a time.
	Run(name string, f func(tester))
}

type goTest struct {
	*testing.T
	skip func(t *testing.T, reason string)
}

func (g goTest) Skipf(format string, args ...any) {
	g.T.Helper()
	if g.skip != nil {
		g.skip(g.T, sprintf(format, args...))
	}
	g.T.Skipf(format, args...)
}

func (g goTest) Passf(format string, args ...any) {
	g.T.Helper()
	g.T.Skipf(format, args...)
}

func (g goTest) Run(name string, f func(tester)) {
	g.T.Run(name, func(t *testing.T) { f(goTest{t, g.skip}) })
}
