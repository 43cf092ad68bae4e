package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/migration/evacuate"
	"github.com/delayer-go/delayer/internal/app/migration/inventory"
	"github.com/delayer-go/delayer/internal/app/migration/node"
	"github.com/delayer-go/delayer/internal/app/migration/record"
	"github.com/delayer-go/delayer/internal/app/migration/swap"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/topology"
)

// commonFlags are those of every step.
type commonFlags struct {
	flags.Managed `set:"wait=How long to wait for a connection, for another tool that works on the exchange, and for each answer"`
	Rabbitmqctl   string `placeholder:"COMMAND" help:"How to run rabbitmqctl on a node, such as 'kubectl exec rabbit-0 -- rabbitmqctl'. It is run without a shell."`
}

func (f *commonFlags) api(cfg backend.Config) (*inventory.API, error) {
	if cfg.Management == "" {
		return nil, errors.New("no management API: give --management, or management in the configuration (http://user:password@host:15672)")
	}
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return nil, err
	}
	client, vhost, err := settings.API()
	return inventory.New(client, vhost), err
}

// settings are those of a configuration. control is nil without --rabbitmqctl.
func (f *commonFlags) settings(cfg backend.Config) (settings engine.Settings, vhost string, control *node.Control, err error) {
	if settings, err = engine.Resolve(cfg.Options, ""); err != nil {
		return settings, "", nil, err
	}
	if vhost, err = broker.Vhost(cfg.URL); err == nil && f.Rabbitmqctl != "" {
		control, err = node.New(f.Rabbitmqctl)
	}
	return settings, vhost, control, err
}

// exchangeFlags are those of a step that works on one exchange.
type exchangeFlags struct {
	commonFlags
	Exchange string `required:"" placeholder:"NAME" help:"The exchange that is migrated."`
}

func (f *exchangeFlags) Validate() error {
	if f.Exchange == "" {
		return errors.New("--exchange: the name is empty; the default exchange delays nothing")
	}
	return f.commonFlags.Validate()
}

// A session has what the steps need of a broker.
type session struct {
	cfg      backend.Config
	settings engine.Settings
	vhost    string
	api      *inventory.API
	control  *node.Control // nil without --rabbitmqctl
	conn     *broker.Conn
	say      io.Writer     // for the user
	patience time.Duration // with another tool's lock
}

func (f *commonFlags) connect(ctx context.Context) (*session, error) {
	ctx, cancel := f.Within(ctx)
	defer cancel()
	cfg, err := f.Load()
	if err != nil {
		return nil, err
	}
	cfg.Logger = slog.New(slog.DiscardHandler) // the error says it all
	m := &session{cfg: cfg}
	if m.settings, m.vhost, m.control, err = f.settings(cfg); err != nil {
		return nil, err
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

func (m *session) wire() swap.Wire { return swap.Wire{Conn: m.conn} }

// locked runs f while no other tool works on the exchange.
func (m *session) locked(ctx context.Context, exchange string, f func(*swap.Swapper, *record.Journal) error) error {
	journal, err := whenUnlocked(ctx, m.patience, m.say, func() (*record.Journal, error) {
		return record.Open(ctx, m.conn, m.settings.Prefix, exchange)
	})
	if err != nil {
		return err
	}
	defer journal.Close() //nolint:errcheck // the broker gives the lock back with the connection
	s := &swap.Swapper{
		Prefix: m.settings.Prefix, Exchange: exchange, Vhost: m.vhost, API: m.api, Broker: m.wire(), Journal: journal, Now: time.Now,
		Plugin: func(ctx context.Context) error {
			return swap.HasPlugin(ctx, m.settings.BrokerOptions("migrate trial"), record.Hold(m.settings.Prefix, exchange)+".trial")
		},
	}
	if m.control != nil {
		s.Node = m.control
	}
	return f(s, journal)
}

// whenUnlocked opens a record, and waits for a tool that holds it. The broker may take some seconds
// to see that one which was killed is gone.
func whenUnlocked(ctx context.Context, patience time.Duration, say io.Writer, open func() (*record.Journal, error)) (*record.Journal, error) {
	const pause = 250 * time.Millisecond
	for began, first := time.Now(), true; ; first = false {
		journal, err := open()
		if !errors.Is(err, record.ErrLocked) || time.Since(began) >= patience {
			return journal, err
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

func (f *exchangeFlags) step(ctx context.Context, s cli.Streams, run func(*session) error) error {
	m, err := f.connect(ctx)
	if err == nil {
		defer m.conn.Close()
		m.say, m.patience = s.Err, f.Timeout
		err = run(m)
	}
	return err
}

func pendingOf(tables []node.Table, vhost, exchange string) int {
	rows := 0
	for _, t := range tables {
		for _, x := range t.Exchanges {
			if x.Vhost == vhost && x.Exchange == exchange {
				rows += x.Rows
			}
		}
	}
	return rows
}

// checkPolicies refuses policies that would remove the record.
func (m *session) checkPolicies(ctx context.Context, p topology.Plan) error {
	found, err := m.settings.Problems(ctx, p)
	if err != nil || len(found) == 0 {
		return err
	}
	return &delayer.Error{
		Op: "prepare", Object: "policies", Kind: delayer.ErrConflict,
		Cause: errors.New(objects.Summary(found)), Hint: objects.PolicyRemedy(m.settings.Prefix),
	}
}

// removeServe removes what delayer serve needed. Messages that were kept as unroutable are no matter.
func (m *session) removeServe(ctx context.Context, s cli.Streams, swapper *swap.Swapper, force bool) error {
	plan, err := backend.Topology(m.cfg)
	if err != nil {
		return err
	}
	left := swap.Left{ByName: m.cfg.Backend == controller.Name, Force: force}
	for _, q := range plan.Queues {
		if q.Name == m.settings.UnroutableQueue() {
			continue
		}
		d, err := m.wire().Depth(ctx, q.Name)
		if err != nil {
			return err
		}
		left.Waiting += d.Messages
	}
	if err := swapper.RemoveServe(ctx, m.wire(), left); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, "what delayer serve needed was removed")
	return err
}

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
		if err != nil {
			return err
		}
		if there {
			continue
		}
		for _, queue := range queues {
			if d, err := w.Depth(ctx, queue); err != nil || d.Messages > 0 {
				return err
			}
		}
		j.Exchanges = []string{name}
		left, err := j.Left(ctx)
		if err != nil {
			return err
		}
		if left.Rows == 0 {
			return fmt.Errorf("exchange %q does not exist in vhost %q, and nothing waits for it (is --exchange right?)", name, j.Vhost)
		}
	}
	return nil
}
