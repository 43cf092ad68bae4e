// Package messagescmd looks after messages that were not delivered: delayer messages.
package messagescmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

// Command is `delayer messages`.
type Command struct {
	List   listCmd   `cmd:"" help:"Show the messages in a table, and why they are there."`
	Show   showCmd   `cmd:"" help:"Write one message whole, as JSON: properties, headers, body in base64, and each error to its end."`
	Retry  retryCmd  `cmd:"" help:"Send them: unroutable ones to their destinations, parked ones to their queue."`
	Export exportCmd `cmd:"" help:"Write a copy of them as JSON lines."`
	Purge  purgeCmd  `cmd:"" help:"Delete them."`
}

// Help says which messages these are.
func (c *Command) Help() string {
	return "Unroutable messages are those whose destination was gone when they were due. They are in the queues PREFIX.misrouted and PREFIX.unroutable, which are read if no QUEUE is given. " +
		"Parked messages are those that package retry has given up. They are in a QUEUE that is usually named after the consumer's, such as orders.parked. " +
		"A command takes messages out while it looks at them, and gives back in the old order what it does not remove."
}

// queueFlags select the queue, and the messages in it.
type queueFlags struct {
	Queue *string `arg:"" optional:"" help:"A queue of parked messages, such as orders.parked. Without it, the queue for unroutable messages of the prefix."`
	flags.Broker
	flags.Choice
	flags.Deadline `set:"wait=How long to wait for a connection, and for each confirm"`
	Exchange       *string  `placeholder:"NAME" help:"Only messages that were published to this exchange. --exchange= selects those to a queue."`
	Key            *string  `placeholder:"KEY" help:"Only messages that were published with this routing key, or to this queue."`
	ID             []string `name:"id" placeholder:"ID" help:"Only messages with this id: Delayer's, or the message-id property."`
}

// Validate refuses invalid values as usage errors.
func (f *queueFlags) Validate() error {
	if f.Queue != nil && *f.Queue == "" {
		return errors.New("the queue's name is empty")
	}
	return f.Deadline.Validate()
}

// with connects to the queue and runs a command on it.
func (f *queueFlags) with(ctx context.Context, do func(*undelivered.Client) error) error {
	cfg, err := f.Load()
	if err != nil {
		return err
	}
	if cfg, err = f.Choose(cfg); err != nil {
		return err
	}
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return err
	}
	queue := cfg.UnroutableQueue()
	if f.Queue != nil {
		queue = *f.Queue
	}
	opening, cancel := f.Within(ctx)
	client, err := kept.Open(opening, cfg, settings, queue)
	cancel()
	if err != nil {
		return err
	}
	defer client.Close()
	err = do(client)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w; no message is lost", cli.ErrInterrupted)
	}
	return err
}

func (f *queueFlags) selects(m *undelivered.Kept) bool {
	exchange, key, known := m.Published()
	if f.Exchange != nil && (!known || exchange != *f.Exchange) {
		return false
	}
	if !known {
		key = m.RoutingKey
	}
	if f.Key != nil && key != *f.Key {
		return false
	}
	return len(f.ID) == 0 || m.Ours && slices.Contains(f.ID, m.Envelope.ID) ||
		m.MessageId != "" && slices.Contains(f.ID, m.MessageId)
}

func (f *queueFlags) filtered() bool { return f.Exchange != nil || f.Key != nil || len(f.ID) > 0 }

// walk reads the whole queue, which keeps its order, and visits the selected messages. after, unless
// it is nil, is called once all were read, before they are returned to the queue. total is how many the queue had
// at the start, and read how many of them were read, also if that was interrupted.
func (f *queueFlags) walk(
	ctx context.Context, client *undelivered.Client, visit func(*undelivered.Kept) error, after func() error,
) (total, read int, err error) {
	reader, total, err := client.Read(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer reader.Close()
	for {
		m, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			if after == nil {
				return total, read, nil
			}
			return total, read, after()
		}
		if err != nil {
			return total, read, err
		}
		if read++; !f.selects(m) {
			m.Forget()
		} else if err := visit(m); err != nil {
			return total, read, err
		}
	}
}

// ids are Delayer's id, and the message-id property if there is one.
func ids(m kept.Message) string {
	var ids []string
	if m.ID != "" {
		ids = append(ids, cli.Shown(string(m.ID)))
	}
	if m.MessageID != "" {
		ids = append(ids, "message-id="+cli.Shown(string(m.MessageID)))
	}
	return cmp.Or(strings.Join(ids, " "), "-")
}

// A tally counts messages by text.
type tally map[string]int

func (t tally) sum() (n int) {
	for _, count := range t {
		n += count
	}
	return n
}

// order is the names, those with most messages first.
func (t tally) order() []string {
	return slices.SortedStableFunc(slices.Values(slices.Sorted(maps.Keys(t))), func(a, b string) int { return t[b] - t[a] })
}
