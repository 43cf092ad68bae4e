package main

import (
	"context"
	"fmt"

	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/migration/evacuate"
	"github.com/delayer-go/delayer/internal/migration/swap"
)

// known refuses an exchange that does not exist and for which nothing waits: its name is mistyped. It
// refuses none while one of the queues has messages: an earlier run may have left what waited there.
func known(ctx context.Context, j evacuate.Job, queues ...string) error {
	if len(j.Exchanges) == 0 {
		return nil
	}
	conn, err := broker.Dial(ctx, j.Broker)
	if err != nil {
		return err
	}
	defer conn.Close()
	w := swap.Wire{Conn: conn}
	for _, name := range j.Exchanges {
		there, err := w.Exists(ctx, name)
		if err == nil && !there {
			err = waits(ctx, w, j, name, queues)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// waits fails if nothing waits for an exchange that is gone, and the queues are empty.
func waits(ctx context.Context, w swap.Wire, j evacuate.Job, name string, queues []string) error {
	for _, queue := range queues {
		if d, err := w.Depth(ctx, queue); err != nil || d.Messages > 0 {
			return err
		}
	}
	j.Exchanges = []string{name}
	left, err := j.Left(ctx)
	if err == nil && left.Rows == 0 {
		err = fmt.Errorf("exchange %q does not exist in vhost %q, and nothing waits for it (is --exchange right?)", name, j.Vhost)
	}
	return err
}
