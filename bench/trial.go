package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/delayer-go/delayer"
)

// A Trial is one run of a scenario with one subject, on fresh queues.
type Trial struct {
	Subject Subject

	env         Env
	recorder    *recorder
	destination *destination
	delayer     delayer.Delayer
	former      []delayer.Delayer // those that were opened before the broker was taken down
	meter       meter
	body        []byte
	started     reading // when measuring began
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
)

// open declares the destination and opens the subject. Nothing is left in the broker if it fails.
func openTrial(ctx context.Context, s Subject, env Env, returns bool, m meter) (*Trial, error) {
	trial := &Trial{Subject: s, env: env, recorder: newRecorder(), meter: m}
	var err error
	trial.destination, err = openDestination(ctx, env, returns, trial.recorder.arrival)
	if err != nil {
		return nil, err
	}
	// Interrupted in its middle, it would leave what it has declared.
	openCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTimeout)
	defer cancel()
	trial.delayer, err = s.Open(openCtx, env)
	if err != nil {
		return nil, errors.Join(err, trial.destination.remove())
	}
	return trial, nil
}

// close removes all that the trial declared, also if ctx has ended.
func (s *Trial) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	var errs []error
	for _, d := range s.former { // first: they declare again what is deleted under them
		errs = append(errs, d.Close())
	}
	if r, ok := s.delayer.(Remover); ok {
		errs = append(errs, r.RemoveTopology(ctx))
	}
	errs = append(errs, s.delayer.Close(), s.destination.remove())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// warmUp sends the messages that are not measured, waits for them, and starts the measurement.
func (s *Trial) warmUp(ctx context.Context, l Load) error {
	s.body = make([]byte, l.body())
	if s.Subject.Prime != nil {
		primers := s.Subject.Prime(slices.Max(s.env.Delays), s.env.Tick)
		if err := s.publish(ctx, load{delays: primers, workers: l.Concurrency, role: primer}); err != nil {
			return fmt.Errorf("before the warm-up: %w", err)
		}
	}
	delays := slices.Repeat([]time.Duration{s.delay(warmUpDelay)}, l.WarmUp)
	if err := s.publish(ctx, load{delays: delays, workers: l.Concurrency, role: warmUp}); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	if err := s.recorder.await(ctx, s.destination.done, l.Patience); err != nil {
		return err
	}
	s.started = s.meter.read()
	return nil
}

// delay is what to ask the subject for: nothing, if it cannot delay.
func (s *Trial) delay(d time.Duration) time.Duration {
	if s.Subject.Undelayed {
		return 0
	}
	return d
}

// finish waits for what is still to come and returns the run. Lateness is over the samples that
// counted accepts; nil is all. published is how publishing ended: what was stored before an error
// is waited for as well, and the error returned.
func (s *Trial) finish(
	ctx context.Context, patience time.Duration, counted func(Sample) bool, published error,
) (Run, error) {
	err := s.recorder.await(ctx, s.destination.done, patience)
	ended := s.meter.read()
	if err == nil {
		time.Sleep(linger)
	}
	if err == nil && s.destination.lost() {
		err = errConsumerLost
	}
	run := summarise(s.recorder.samples(), counted)
	run.BrokerCPU = s.meter.perMessage(s.started, ended, run.Published)
	run.BrokerRSS = s.meter.rss()
	run.ProcessCPU = ownPerMessage(s.started, ended, run.Published)
	if published != nil {
		err = published
	}
	return run, err
}

var errConsumerLost = errors.New("the consumer's connection was lost: what is missing may have arrived unseen")

// pause waits; the error is that of ctx, if it ended first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
