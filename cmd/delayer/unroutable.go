package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/unroutable"
)

// unroutableCmd is `delayer unroutable`.
type unroutableCmd struct {
	List   unroutableListCmd   `cmd:"" help:"Show the messages whose destination was gone when they were due. It removes none."`
	Retry  unroutableRetryCmd  `cmd:"" help:"Send them to their destination, where it exists again."`
	Export unroutableExportCmd `cmd:"" help:"Write them as JSON lines. It removes none."`
	Purge  unroutablePurgeCmd  `cmd:"" help:"Delete them."`
}

// queueFlags say which queue, and which of its messages.
type queueFlags struct {
	Config   string        `placeholder:"FILE" help:"The configuration of the Delayers, YAML or JSON; DELAYER_… variables win over it. Without it: those and the defaults."`
	URL      string        `placeholder:"AMQP" help:"Instead of the configuration's. Others on this machine can see it: a password is better in DELAYER_URL."`
	Prefix   string        `placeholder:"NAME" help:"Instead of the configuration's: the queue is NAME.unroutable."`
	Backend  string        `placeholder:"NAME" help:"Instead of the configuration's: ${backends}."`
	Timeout  time.Duration `default:"30s" help:"How long to wait for a connection, and for each confirm (${default})."`
	Exchange *string       `placeholder:"NAME" help:"Only messages to this exchange; --exchange= are those straight to a queue."`
	Key      *string       `placeholder:"KEY" help:"Only messages with this routing key, or to this queue."`
	ID       []string      `name:"id" placeholder:"ID,…" help:"Only the message with this id, that of Delayer or its own message-id."`
}

// Validate makes a value that cannot be right a usage error.
func (f *queueFlags) Validate() error {
	if f.Timeout <= 0 {
		return fmt.Errorf("--timeout: %v is no time at all", f.Timeout)
	}
	return nil
}

// settings are the configuration's and the flags'.
func (f *queueFlags) settings() (backend.Config, error) {
	cfg, err := loadConfig(f.Config)
	if err != nil {
		return cfg, err
	}
	for _, flag := range []struct {
		given string
		to    *string
	}{{f.URL, &cfg.URL}, {f.Prefix, &cfg.Prefix}, {f.Backend, &cfg.Backend}} {
		if flag.given != "" {
			*flag.to = flag.given
		}
	}
	if cfg.URL == "" {
		return cfg, errNoURL
	}
	if cfg.Prefix == "" {
		cfg.Prefix = backend.Default().Prefix
	}
	if _, err := backend.Topology(cfg); err != nil { // what Open would refuse
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
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	cfg.Logger = slog.New(slog.DiscardHandler) // the error says it all
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

// selects says that a message is one of those that the flags name.
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

// A walk goes through the whole queue, so that it keeps its order: visit sees every message that the flags select.
type walk struct {
	client *unroutable.Client
	flags  *queueFlags
	visit  func(*unroutable.Message) error
	// after is called once all were seen and before they are given back.
	after func() error
	show  *cli.Display
}

// run returns how many messages the queue had at the start.
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
		if !w.flags.selects(m) {
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

// withClient runs a command on the queue and gives its error a name.
func withClient(ctx context.Context, name string, f *queueFlags, do func(*unroutable.Client) error) error {
	client, err := f.open(ctx)
	if err == nil {
		err = do(client)
		client.Close()
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("delayer unroutable %s: %w; no message is lost", name, cli.ErrInterrupted)
	}
	return failure("unroutable "+name, err)
}

// isTerminalFile says that a person is at the other end.
func isTerminalFile(r any) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
