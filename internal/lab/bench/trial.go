package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/account"
)

// A trial is one run of a scenario with one subject, on fresh queues.
type trial struct {
	subject     Subject
	env         Env
	recorder    *recorder
	destination *destination
	delayer     delayer.Delayer
	meter       meter
	body        []byte
	started     reading // when measuring began
	moved       atomic.Int64
	movedBefore int64 // it began
}

const (
	// removeTimeout bounds the clean-up, which also runs when the benchmark was interrupted.
	removeTimeout = time.Minute
	// openTimeout bounds the opening of a subject, which an interruption does not end.
	openTimeout = time.Minute
	// linger is how long to go on listening for a second copy once all have arrived.
	linger = 250 * time.Millisecond
	// warmUpDelay is long enough to wait in a queue of any subject.
	warmUpDelay = time.Second
	// fewPrimers are not waited for, nor one for each fewPrimersOf messages: what they cost the
	// broker later is little beside what those do, and the longest may take hours.
	fewPrimers, fewPrimersOf = 16, 50
)

// openTrial declares the destination and opens the subject. Nothing is left in the broker if it
// fails.
func openTrial(ctx context.Context, s Subject, env Env, r Receiving, m meter) (*trial, error) {
	t := &trial{subject: s, env: env, recorder: newRecorder(), meter: m}
	t.env.Moved = func() { t.moved.Add(1) }
	var err error
	t.destination, err = openDestination(ctx, env, r, t.recorder.arrival)
	if err != nil {
		return nil, err
	}
	// Interrupted in its middle, it would leave what it has declared.
	openCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTimeout)
	defer cancel()
	t.delayer, err = s.Open(openCtx, t.env)
	if err != nil {
		return nil, errors.Join(err, t.destination.remove(openCtx))
	}
	return t, nil
}

// close removes all that the trial declared, also if ctx has ended.
func (t *trial) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	err := t.delayer.Close() // first: it declares again what is deleted under it
	if t.subject.Remove != nil {
		err = errors.Join(err, t.subject.Remove(ctx, t.env))
	}
	if err := errors.Join(err, t.destination.remove(ctx)); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// warmUp sends the messages that are not measured, waits for them, and starts the measurement.
func (t *trial) warmUp(ctx context.Context, c common) error {
	t.body = make([]byte, c.body())
	if t.subject.Lazy {
		as := primer
		if len(t.env.Delays) > max(fewPrimers, c.messages/fewPrimersOf) {
			as = warmUp
		}
		if err := t.publish(ctx, load{delays: t.env.Delays, workers: c.concurrency, role: as}); err != nil {
			return fmt.Errorf("before the warm-up: %w", err)
		}
	}
	delays := make([]time.Duration, c.warmUp)
	if !t.subject.Undelayed {
		delays = slices.Repeat([]time.Duration{warmUpDelay}, c.warmUp)
	}
	if err := t.publish(ctx, load{delays: delays, workers: c.concurrency, role: warmUp}); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	if err := t.recorder.Await(ctx, c.patience); err != nil {
		return err
	}
	// No figure has these messages, so a promise that they break would not be seen elsewhere, and
	// one that does not come would be awaited until the end of the run.
	counts := count(t.recorder.samplesOf(warmUp, 0))
	switch {
	case counts.Lost > 0:
		return fmt.Errorf("warm-up: of %d messages %d were lost", counts.Published, counts.Lost)
	case !t.subject.Baseline && (counts.Failed > 0 || counts.Early > 0 || counts.Duplicated > 0):
		return fmt.Errorf("warm-up: of %d messages %d could not be published, %d were early, and %d came twice",
			counts.Published+counts.Failed, counts.Failed, counts.Early, counts.Duplicated)
	}
	t.started, t.movedBefore = t.meter.read(), t.moved.Load()
	return nil
}

// finish waits for what is still to come and returns the run. Lateness is over the samples that
// counted accepts; nil is all. published is how publishing ended: what was stored before that error
// is waited for as well, and the error returned.
func (t *trial) finish(
	ctx context.Context, c common, counted func(sample) bool, published error,
) (result, error) {
	err := t.awaitAll(ctx, c.patience)
	ended := t.meter.read()
	if err == nil {
		time.Sleep(linger)
	}
	run := summarise(t.recorder.samples(), counted)
	run.Hops = t.hops(run.samples)
	c.settings(&run)
	run.BrokerCPU = t.meter.perMessage(t.started, ended, run.Published)
	run.BrokerRSS, _ = t.meter.broker.RSS()
	// To publish and receive a message, and to delay it if the subject works in this process.
	run.ProcessCPU = (ended.own - t.started.own).Seconds() * 1e6 / float64(max(1, run.Published))
	if published != nil {
		err = published
	}
	return run, err
}

// unpriced takes away what a message costs: what was measured was not of its messages alone.
func (r *result) unpriced() { r.BrokerCPU, r.ProcessCPU = 0, 0 }

// hops is in how many queues the messages waited on average; 0 if that is not known.
func (t *trial) hops(of []sample) float64 {
	switch {
	case len(of) == 0:
		return 0
	case t.subject.Moves:
		return 1 + float64(t.moved.Load()-t.movedBefore)/float64(len(of))
	case t.subject.Hops == nil:
		return 0
	}
	delays := make([]time.Duration, len(of))
	for i, m := range of {
		delays[i] = m.Delay
	}
	sum := 0
	for _, n := range t.subject.Hops(t.env.Tick, delays...) {
		sum += n
	}
	return float64(sum) / float64(len(of))
}

// awaitAll waits for all messages. It is an error if some may have arrived unseen.
func (t *trial) awaitAll(ctx context.Context, patience time.Duration) error {
	err := t.recorder.Await(ctx, patience)
	if err == nil && t.destination.client != nil && t.destination.client.Interrupted() {
		err = errConsumerLost
	}
	return err
}

var errConsumerLost = errors.New("the consumer's connection was lost: messages may have arrived unseen")

// A recorder is the account of a trial. Ids are numbers in the order of publishing.
type recorder struct {
	*account.Account[int]
	planned atomic.Int64 // ids that are given away
}

type sample = account.Course[int]

// A role is what a message is for: its group.
type role int

const (
	measured role = iota
	warmUp        // awaited, and in no figure
	primer        // one of few that make the subject declare its paths: not awaited, and in no figure
	backlog       // only waits: not awaited, and in no figure of those that are
)

func newRecorder() *recorder { return &recorder{Account: account.New[int](time.Now())} }

func (r *recorder) plan(n int) (first int) { return int(r.planned.Add(int64(n))) - n }

// arrival notes that the message with that id came in now. An id that is not ours is ignored.
func (r *recorder) arrival(id string) {
	at := r.Now()
	if i, err := strconv.Atoi(id); err == nil && i >= 0 && int64(i) < r.planned.Load() {
		r.Arrive(i, at)
	}
}

// samples returns what was measured and published, in the order of ids.
func (r *recorder) samples() []sample { return r.samplesOf(measured, 0) }

// samplesOf returns the messages of a role that were published, from an id on.
func (r *recorder) samplesOf(as role, from int) []sample {
	all := slices.DeleteFunc(r.Messages(), func(m sample) bool {
		return m.Group != int(as) || m.ID < from || m.Stranger()
	})
	slices.SortFunc(all, func(a, b sample) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
