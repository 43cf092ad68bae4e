package migratecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
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
	flags.Managed `set:"wait=How long to wait for a connection, for another tool that works on the exchange, and for each answer that needs no scan of the plugin's table"`
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
	api := inventory.New(client, vhost)
	api.Within = f.Timeout
	return api, err
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

// A delayed counts what a Delayer still has.
type delayed struct {
	Queues interface {
		Depth(ctx context.Context, queue string) (swap.Depth, error)
		Holds(ctx context.Context, queue string) (bool, error)
	}
	API interface {
		Unacknowledged(ctx context.Context, queues []string) (int, error)
	}
	Say      io.Writer
	Consumed []topology.Role // of queues from which controllers take messages before they are due
	Late     time.Duration   // by which the API is
}

// statsLate is by how much the management API is late at most: queues tell every five seconds, and
// it collects as often.
const statsLate = 11 * time.Second

// count counts the messages that wait, or that a controller has in hand. Those that were kept as
// unroutable are no matter.
func (d delayed) count(ctx context.Context, p topology.Plan) (int, error) {
	var queues, consumed []string
	for _, q := range p.Queues {
		if q.Role == topology.Waiting || q.Role == topology.Intake || q.Role == topology.Misrouted {
			queues = append(queues, q.Name)
		}
		if slices.Contains(d.Consumed, q.Role) {
			consumed = append(consumed, q.Name)
		}
	}
	if n, err := d.ready(ctx, queues); err != nil || n > 0 {
		return n, err
	}
	if consumed == nil {
		return d.unseen(ctx, queues)
	}
	fmt.Fprintf(d.Say, "looking whether a controller has messages in hand, which takes %v\n", d.Late)
	select {
	case <-time.After(d.Late):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if n, err := d.API.Unacknowledged(ctx, consumed); err != nil || n > 0 {
		return n, err
	}
	if n, err := d.ready(ctx, queues); err != nil || n > 0 { // a controller may have put some back
		return n, err
	}
	return d.unseen(ctx, queues)
}

// ready counts what is in queues, twice: a message may move from one that was not looked at yet to
// one that was.
func (d delayed) ready(ctx context.Context, queues []string) (most int, err error) {
	for range 2 {
		n := 0
		for _, name := range queues {
			depth, err := d.Queues.Depth(ctx, name)
			if err != nil {
				return 0, err
			}
			n += depth.Messages
		}
		most = max(most, n)
		queues = slices.Clone(queues)
		slices.Reverse(queues)
	}
	return most, nil
}

// unseen counts the queues of which the broker counts no message, and which have some; see
// [objects.Holds].
func (d delayed) unseen(ctx context.Context, queues []string) (n int, err error) {
	for _, name := range queues {
		switch holds, err := d.Queues.Holds(ctx, name); {
		case err != nil:
			return 0, err
		case holds:
			n++
		}
	}
	return n, nil
}

// removeServe removes what delayer serve needed.
func (m *session) removeServe(ctx context.Context, s cli.Streams, swapper *swap.Swapper, force bool) error {
	plan, err := backend.Topology(m.cfg)
	if err != nil {
		return err
	}
	left := swap.Left{ByName: m.cfg.Backend == controller.Name, Force: force}
	d := delayed{Queues: m.wire(), API: m.api, Say: s.Err, Late: statsLate}
	switch {
	case left.ByName && m.cfg.Controller.Wheel == controller.Rounds:
		d.Consumed = []topology.Role{topology.Waiting, topology.Intake}
	case left.ByName: // in the intake of slots the leader holds its summons
		d.Consumed = []topology.Role{topology.Waiting}
	}
	if left.Waiting, err = d.count(ctx, plan); err != nil {
		return err
	}
	if err := swapper.RemoveServe(ctx, m.wire(), left); err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.Out, "what delayer serve needed was removed")
	return err
}

// known refuses an exchange that does not exist and for which nothing waits: its name is mistyped.
// It refuses none while one of the queues has messages: an earlier run may have left what waited
// there.
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
			if holds, err := w.Holds(ctx, queue); err != nil || holds {
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
