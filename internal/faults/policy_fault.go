package faults

import (
	"context"
	"fmt"
	"time"
)

// policies are mistakes of an operator. message-ttl makes messages early, overflow loses them in a
// crash, and max-length makes waiting queues refuse them. max-length applies to our queues only: in
// the destination it would drop the oldest messages of any publisher.
var policies = []struct{ pattern, definition string }{
	{".*", `{"message-ttl": 100}`},
	{".*", `{"overflow": "drop-head"}`},
	{`\.(wait|delay)\.|\.intake$`, `{"max-length": 5}`},
}

// policyName is the operator's.
const policyName = "faults-catch-all"

// catchAll sets each policy until every Delayer says in an answer that there is one, and takes it
// away again.
func catchAll(ctx context.Context, s *Scene) error {
	for _, policy := range policies {
		from := time.Now()
		if _, err := s.ctl(ctx, "set_policy", policyName, policy.pattern, policy.definition, "--apply-to", "queues", "--priority", "100"); err != nil {
			return err
		}
		for _, r := range s.Runs {
			at, err := r.awaitConflict(ctx, from)
			if err != nil {
				_, _ = s.ctl(ctx, "clear_policy", policyName)
				return fmt.Errorf("policy %s: %w", policy.definition, err)
			}
			r.Ledger.Announce(from, at)
			s.Note("%s: policy %s noticed after %v", r.Subject.Name, policy.definition, at.Sub(from).Round(100*time.Millisecond))
		}
		if _, err := s.ctl(ctx, "clear_policy", policyName); err != nil {
			return err
		}
		s.mended()
		if err := s.work(ctx, 10); err != nil {
			return err
		}
	}
	return nil
}

// mostUnnoticed is how long a policy may go unnoticed, rabbitmqctl's own seconds included.
const mostUnnoticed = time.Minute

// awaitConflict returns when Publish first answered, after a time, that something conflicts, or
// that a queue is full.
func (r *Run) awaitConflict(ctx context.Context, after time.Time) (at time.Time, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, mostUnnoticed, fmt.Errorf("not noticed within %v", mostUnnoticed))
	defer cancel()
	const look = 10 * time.Millisecond
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		if at := r.Ledger.lastConflict(); at.After(after) {
			return at, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return at, fmt.Errorf("%s: %w", r.Subject.Name, context.Cause(ctx))
		}
	}
}
