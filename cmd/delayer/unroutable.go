package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/unroutable"
)

// unroutableCmd is `delayer unroutable`.
type unroutableCmd struct {
	List   unroutableListCmd   `cmd:"" help:"Show the unroutable messages. Removes none."`
	Retry  unroutableRetryCmd  `cmd:"" help:"Send them to their destinations, if those exist again."`
	Export unroutableExportCmd `cmd:"" help:"Write them as JSON lines. Removes none."`
	Purge  unroutablePurgeCmd  `cmd:"" help:"Delete them."`
}

// queueFlags select the queue, and the messages in it.
type queueFlags struct {
	brokerFlags
	Prefix      string `placeholder:"NAME" help:"The prefix, instead of the configuration's. The queue is NAME.unroutable."`
	Backend     string `placeholder:"NAME" help:"The backend, instead of the configuration's: ${backends}."`
	timeoutFlag `set:"wait=How long to wait for a connection, and for each confirm"`
	Exchange    *string  `placeholder:"NAME" help:"Only messages to this exchange. --exchange= selects those to a queue."`
	Key         *string  `placeholder:"KEY" help:"Only messages with this routing key, or to this queue."`
	ID          []string `name:"id" placeholder:"ID" help:"Only messages with this id: Delayer's, or the message-id property."`
}

// settings returns the configuration with the flags applied.
func (f *queueFlags) settings() (backend.Config, error) {
	cfg, err := f.load()
	if err != nil {
		return cfg, err
	}
	cfg.Backend = cmp.Or(f.Backend, cfg.Backend)
	cfg.Prefix = cmp.Or(f.Prefix, cfg.Prefix, backend.Default().Prefix)
	if _, err := backend.Topology(cfg); err != nil { // the same errors as Open
		return cfg, err
	}
	if cfg.Backend == "plugin" && cfg.Plugin.Exchange != "" {
		return cfg, errors.New("with plugin.exchange no message is kept as unroutable: that exchange drops it (leave plugin.exchange out, or give the prefix's other backend with --backend)")
	}
	return cfg, nil
}

// open connects to the queue.
func (f *queueFlags) open(ctx context.Context) (*unroutable.Client, error) {
	cfg, err := f.settings()
	if err != nil {
		return nil, err
	}
	ctx, cancel := f.within(ctx)
	defer cancel()
	cfg.Logger = slog.New(slog.DiscardHandler) // the error is enough
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return nil, err
	}
	rules, err := misroutedRules(cfg)
	if err != nil {
		return nil, err
	}
	client, err := unroutable.Open(ctx, settings.BrokerOptions("unroutable"), cfg.Prefix)
	if err == nil {
		client.Rules = rules
	}
	return client, err
}

// selects reports whether the flags select a message.
func (f *queueFlags) selects(m *unroutable.Message) bool {
	if f.Exchange != nil && (!m.Ours || m.Envelope.Exchange != *f.Exchange) {
		return false
	}
	if f.Key != nil && m.RoutingKey != *f.Key {
		return false
	}
	if len(f.ID) == 0 {
		return true
	}
	for _, id := range f.ID {
		if m.Ours && m.Envelope.ID == id || m.MessageId == id {
			return true
		}
	}
	return false
}

func (f *queueFlags) filtered() bool { return f.Exchange != nil || f.Key != nil || len(f.ID) > 0 }

// A walk reads the whole queue, which keeps its order. visit is called for every selected message.
type walk struct {
	client  *unroutable.Client
	selects func(*unroutable.Message) bool
	visit   func(*unroutable.Message) error
	// after is called once all were read, before they are returned to the queue.
	after func() error
	show  *cli.Display
}

// run returns the number of messages that the queue had at the start.
func (w walk) run(ctx context.Context) (total int, err error) {
	reader, total, err := w.client.Read(ctx)
	if err != nil {
		return 0, err
	}
	defer reader.Close()
	for n := 1; ; n++ {
		m, err := reader.Next(ctx)
		if err != nil {
			if !ended(err) {
				return total, err
			}
			break
		}
		if !w.selects(m) {
			m.Forget()
			continue
		}
		if err := w.visit(m); err != nil {
			return total, err
		}
		if w.show != nil && w.show.Live() && n%100 == 0 {
			w.show.Draw(fmt.Sprintf("%d of %d messages", n, total))
		}
	}
	if w.after != nil {
		return total, w.after()
	}
	return total, nil
}

// An opener connects to the queue of a command.
type opener func(context.Context) (*unroutable.Client, error)

// withClient runs a command on the queue. Its error names the command.
func withClient(ctx context.Context, command string, open opener, do func(*unroutable.Client) error) error {
	client, err := open(ctx)
	if err == nil {
		err = do(client)
		client.Close()
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("delayer %s: %w; no message is lost", command, cli.ErrInterrupted)
	}
	return failure(command, err)
}
