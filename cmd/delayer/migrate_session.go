package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/engine"
	"github.com/delayer-go/delayer/internal/migration/inventory"
	"github.com/delayer-go/delayer/internal/migration/node"
	"github.com/delayer-go/delayer/internal/migration/record"
	"github.com/delayer-go/delayer/internal/migration/swap"
)

// exchangeFlags are those of a step that works on one exchange.
type exchangeFlags struct {
	migrateFlags
	Exchange string `required:"" placeholder:"NAME" help:"The exchange that is migrated."`
}

// Validate makes a value that cannot be right a usage error.
func (f *exchangeFlags) Validate() error {
	if f.Exchange == "" {
		return errors.New("--exchange: the name is empty; the default exchange delays nothing")
	}
	return f.migrateFlags.Validate()
}

// A migrationSession has what the steps need of a broker.
type migrationSession struct {
	cfg      backend.Config
	settings engine.Settings
	vhost    string
	api      *inventory.API
	control  *node.Control // nil without --rabbitmqctl
	conn     *broker.Conn
	say      io.Writer     // for the user
	patience time.Duration // with another tool's lock
}

// connect opens the management API and an AMQP connection.
func (f *migrateFlags) connect(ctx context.Context) (*migrationSession, error) {
	ctx, cancel := f.within(ctx)
	defer cancel()
	cfg, err := f.load()
	if err != nil {
		return nil, err
	}
	cfg.Logger = slog.New(slog.DiscardHandler) // the error says it all
	m := &migrationSession{cfg: cfg}
	if m.settings, err = engine.Resolve(cfg.Options, ""); err != nil {
		return nil, err
	}
	if m.vhost, err = broker.Vhost(cfg.URL); err != nil {
		return nil, err
	}
	if f.Rabbitmqctl != "" {
		if m.control, err = node.New(f.Rabbitmqctl); err != nil {
			return nil, err
		}
	}
	if m.api, err = f.api(cfg); err != nil {
		return nil, err
	}
	if err = m.api.Reachable(ctx); err != nil {
		return nil, err
	}
	m.conn, err = broker.Dial(ctx, m.settings.BrokerOptions("migrate"))
	return m, err
}

func (m *migrationSession) wire() swap.Wire { return swap.Wire{Conn: m.conn} }

// locked runs f while no other tool works on the exchange.
func (m *migrationSession) locked(ctx context.Context, exchange string, f func(*swap.Swapper, *record.Keeper) error) error {
	keeper, err := whenUnlocked(ctx, m.patience, m.say, func() (*record.Keeper, error) {
		return record.Open(ctx, m.conn, m.settings.Prefix, exchange)
	})
	if err != nil {
		return err
	}
	defer keeper.Close() //nolint:errcheck // the broker gives the lock back with the connection
	s := &swap.Swapper{
		Prefix: m.settings.Prefix, Exchange: exchange, Vhost: m.vhost, API: m.api, Broker: m.wire(), Keeper: keeper, Now: time.Now,
		Plugin: func(ctx context.Context) error {
			return swap.HasPlugin(ctx, m.settings.BrokerOptions("migrate trial"), record.Hold(m.settings.Prefix, exchange)+".trial")
		},
	}
	if m.control != nil {
		s.Node = m.control
	}
	return f(s, keeper)
}

// whenUnlocked opens a record, and waits for a tool that holds it. The broker may take some seconds
// to see that one which was killed is gone.
func whenUnlocked(ctx context.Context, patience time.Duration, say io.Writer, open func() (*record.Keeper, error)) (*record.Keeper, error) {
	const pause = 250 * time.Millisecond
	for began, first := time.Now(), true; ; first = false {
		keeper, err := open()
		if !errors.Is(err, record.ErrLocked) || time.Since(began) >= patience {
			return keeper, err
		}
		if first {
			fmt.Fprintf(say, "%v: waiting for up to %v\n", record.ErrLocked, patience)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// step is a command that works on one exchange.
func (f *exchangeFlags) step(ctx context.Context, s streams, name string, run func(*migrationSession) error) error {
	m, err := f.connect(ctx)
	if err == nil {
		defer m.conn.Close()
		m.say, m.patience = s.err, f.Timeout
		err = run(m)
	}
	if err == nil {
		return nil
	}
	return cli.InterruptedOr(ctx, failure("migrate "+name, err))
}

// agree asks the user at the terminal to type a text. Without a terminal it is an error that names
// the flag which agrees.
func agree(ctx context.Context, s streams, question, text, flag string) error {
	if !cli.IsTerminal(s.in) {
		return fmt.Errorf("standard input is no terminal: give %s to agree", flag)
	}
	fmt.Fprintf(s.out, "%s Type %s to agree: ", question, text)
	typed := make(chan string, 1)
	go func() { // a read of the terminal cannot be cancelled; the process ends soon
		line, _ := bufio.NewReader(s.in).ReadString('\n')
		typed <- strings.TrimSpace(line)
	}()
	select {
	case got := <-typed:
		if got == text {
			return nil
		}
		return errors.New("not agreed: nothing was changed")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
