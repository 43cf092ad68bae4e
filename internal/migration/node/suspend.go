package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Suspend suspends the plugin's process on every node. Messages that fall due wait until it is
// resumed, and so do the confirms of messages that are published with a delay.
//
// A watchdog on each node, which is started first, resumes the process after the given time whatever
// happens to this process. Suspending again only sets that time anew. If one node cannot be
// suspended, all are resumed, and the error names it. resume ends the watchdogs.
func (c *Control) Suspend(ctx context.Context, lasting time.Duration) (resume func(context.Context) error, err error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	resume = func(ctx context.Context) error { return c.each(ctx, nodes, "resume.erl", nil) }
	if err := c.each(ctx, nodes, "suspend.erl", [][]byte{fmt.Append(nil, lasting.Milliseconds())}); err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerFor)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("suspend the plugin: %w", err), resume(undo))
	}
	return resume, nil
}

// each runs a program on several nodes at the same time. A node without the plugin has nothing to
// suspend.
func (c *Control) each(ctx context.Context, nodes []string, program string, in [][]byte) error {
	errs := make([]error, len(nodes))
	var all sync.WaitGroup
	for i, name := range nodes {
		all.Go(func() {
			errs[i] = c.eval(ctx, answerFor, name, program, in, func(fields) {})
			if errors.Is(errs[i], ErrNoPlugin) {
				errs[i] = nil
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
