package entry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// Processes that serve an entry with different lists of what is allowed are no error: so a list
// changes, one process after the other. But if it lasts, what one passes on is parked by another.
// Each process consumes a queue that is named after its list, so each can count those that agree
// with it.

const (
	lookAround = 30 * time.Second // at the other processes
	lookAgain  = time.Second      // where they differ: that may be over
	goneAfter  = 2 * time.Minute  // without a process
)

// allowQueue is the queue of the processes with the same list. Its order, and what is there twice,
// mean nothing.
func (s Spec) allowQueue(prefix string) topology.Queue {
	list := slices.Compact(slices.Sorted(slices.Values(s.Allow)))
	sum := sha256.Sum256([]byte(strings.Join(list, "\n")))
	const enough = 4 // bytes
	return topology.Queue{
		Name: named(prefix, "allow", s.Name) + "." + hex.EncodeToString(sum[:enough]),
		Args: amqp091.Table{"x-queue-type": "classic", "x-expires": goneAfter.Milliseconds()},
	}
}

// agree logs, until ctx ends, when other processes begin to disagree about what is allowed, and
// when they end.
func (r *Runner) agree(ctx context.Context, f *forwarder) {
	queue := f.spec.allowQueue(r.cfg.Settings.Prefix)
	declare := func(ctx context.Context) {
		err := objects.Of(r.control, "").Apply(ctx, topology.Plan{Queues: []topology.Queue{queue}})
		if err != nil && !errors.Is(err, context.Canceled) {
			f.log.Warn("it is not known whether other processes have the same list allow", "error", err)
		}
	}
	declare(ctx)
	differ := false
	broker.Consume(ctx, r.in, broker.Consuming{
		Queue: queue.Name, Prefetch: 1,
		Serve: func(alive context.Context, _ <-chan amqp091.Delivery) { // nobody publishes to it
			for next := time.Duration(0); wait(ctx, alive, next); {
				next = lookAround
				all, others, err := r.others(ctx, alive, f.Queue, queue.Name)
				if err != nil {
					continue // what it depends on is told elsewhere
				}
				switch {
				case others > 0 && !differ:
					f.log.Warn("other processes serve this exchange with another list allow: what one passes on, another parks; "+
						"give all the same file, and send them SIGHUP", "processes", all, "others", others)
				case others == 0 && differ:
					f.log.Info("all processes that serve this exchange have the same list allow", "processes", all)
				}
				if differ = others > 0; differ {
					next = lookAgain
				}
			}
		},
		Failed: func(ctx context.Context, err error) {
			if broker.Code(err) == amqp091.NotFound {
				declare(ctx)
			}
		},
	})
}

// others counts the processes that serve an entry, and those of them with another list. Those are
// looked for twice: who stops does not leave both queues at once.
func (r *Runner) others(ctx, alive context.Context, queue, same string) (all, others int, err error) {
	for range 2 {
		serve, err := r.control.Queue(ctx, queue)
		if err != nil {
			return 0, 0, err
		}
		agree, err := r.control.Queue(ctx, same)
		if err != nil {
			return 0, 0, err
		}
		if all, others = serve.Consumers, serve.Consumers-agree.Consumers; others <= 0 {
			return all, 0, nil
		}
		if !wait(ctx, alive, lookAgain) {
			break
		}
	}
	return all, others, nil
}
