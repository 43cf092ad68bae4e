package messagescmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

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

// open connects to the queue.
func (f *queueFlags) open(ctx context.Context) (*undelivered.Client, error) {
	cfg, err := f.Load()
	if err != nil {
		return nil, err
	}
	if cfg, err = f.Choose(cfg); err != nil {
		return nil, err
	}
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return nil, err
	}
	ctx, cancel := f.Within(ctx)
	defer cancel()
	queue := cfg.UnroutableQueue()
	if f.Queue != nil {
		queue = *f.Queue
	}
	return kept.Open(ctx, cfg, settings, queue)
}

// with runs a command on the queue.
func (f *queueFlags) with(ctx context.Context, do func(*undelivered.Client) error) error {
	client, err := f.open(ctx)
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

// selects reports whether the flags select a message.
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

// walk reads the whole queue, which keeps its order, and visits the selected messages. after is
// called once all were read, before they are returned to the queue. total is how many the queue had
// at the start, and read how many of them were read, also if that was interrupted.
func (f *queueFlags) walk(
	ctx context.Context, client *undelivered.Client, s cli.Streams, visit func(*undelivered.Kept) error, after func() error,
) (total, read int, err error) {
	show := cli.NewDisplay(s.Err)
	defer show.End()
	reader, total, err := client.Read(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer reader.Close()
	for {
		m, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			show.End()
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
		if show.Live() && read%100 == 0 {
			show.Draw(fmt.Sprintf("%d of %s", read, cli.Count(total, "message")))
		}
	}
}

// nothing is for a walk that ends with the last message.
func nothing() error { return nil }
