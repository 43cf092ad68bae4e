package main

import (
	"context"
	"fmt"
	"time"

	"github.com/delayer-go/delayer/internal/lab/faults"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
)

// churns says whether churn runs: --fault may leave it out.
func (c *campaign) churns() bool {
	named, err := c.chosen([]faults.Fault{{Name: "churn"}})
	return c.Churn > 0 && err == nil && len(named) > 0
}

// churn opens, uses and closes Delayers for the time of --churn, shared equally by the backends.
func (c *campaign) churn(ctx context.Context, b *rabbit.Broker) error {
	if !c.churns() {
		return nil
	}
	var todo []faults.Subject
	for _, s := range c.plan.Subjects {
		if s.Controller == nil && !s.Serve && !s.Indirect && s.QueueType != "classic" {
			todo = append(todo, s)
		}
	}
	for _, s := range todo {
		grown, err := faults.Churn(ctx, s, b, c.Churn/time.Duration(len(todo)))
		if err != nil {
			return fmt.Errorf("churn: %s: %w", s.Name, err)
		}
		fmt.Fprintf(c.out, "churn: %s: %v\n", s.Name, grown)
		c.failed = c.failed || grown.Bad()
	}
	return nil
}
