package status

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lib/broker"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/objects"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/topology"
)

// Config says which queues to read, and what else to find out.
type Config struct {
	// Backend is the configuration whose queues are read. Required.
	Backend backend.Config
	// Parked are the queues of parked messages. Default: those whose names end in .parked and those
	// of delayer serve, from the management API.
	Parked []string
	// Entries are queues of messages that delayer serve has parked. They are counted where there is no
	// management API and no Parked; one that does not exist is passed over.
	Entries []string
}

// A Reader reads the status as often as Read is called, over one connection that it reopens when it
// is lost. It is not safe for concurrent use.
type Reader struct {
	cfg      Config
	settings engine.Settings
	parts    []part // the configured backend first
	conn     *engine.Connected
	api      *management.Client // nil without an address
	vhost    string

	lacks  error                // of [engine.Settings.Features]
	looked time.Time            // when that was asked for
	absent map[string]time.Time // when queues of Config.Entries were looked for and not there
}

type part struct {
	name       string
	configured bool
	plan       topology.Plan
	exchange   string // of the plugin, or ""
	counts     string // the queue in which the leader of slots writes what it has counted, or ""

	absent time.Time // when it was looked for and not there, if it is not configured
}

// absentFor is for how long a backend that is not configured, or a queue of Config.Entries, is not
// looked for again after it was not there: the broker logs each such question as the error of a channel.
const absentFor = time.Hour

// Open connects. ctx bounds the opening only. Errors are [delayer.ErrConfig],
// [delayer.ErrUnavailable] and [delayer.ErrAccess]. The management API is not asked yet.
func Open(ctx context.Context, cfg Config) (*Reader, error) {
	queues, err := backend.Choose(ctx, cfg.Backend)
	if err != nil {
		return nil, err
	}
	queues.Backend = cmp.Or(queues.Backend, backend.Default().Backend)
	settings, err := engine.Resolve(queues.Options, queues.Backend)
	if err != nil {
		return nil, err
	}
	r := &Reader{cfg: cfg, settings: settings, absent: map[string]time.Time{}}
	if r.parts, err = parts(queues, settings.Prefix); err != nil {
		return nil, err
	}
	if settings.Management != "" {
		if r.api, r.vhost, err = settings.API(); err != nil {
			return nil, err
		}
	}
	if r.conn, err = engine.Connect(ctx, settings); err != nil {
		return nil, err
	}
	return r, nil
}

// Close ends the connection.
func (r *Reader) Close() error {
	r.conn.Close()
	return nil
}

// parts returns the configured backend first, then the others that the configuration fits.
func parts(cfg backend.Config, prefix string) ([]part, error) {
	var all []part
	for _, name := range backend.Names() {
		one := cfg
		one.Backend = name
		t, err := backend.Topology(one)
		switch {
		case name == cfg.Backend && err != nil:
			return nil, err
		case err != nil:
			continue
		}
		p := part{name: name, configured: name == cfg.Backend, plan: t}
		if name == "plugin" {
			p.exchange = prefix + ".plugin.wait"
		}
		if i := slices.IndexFunc(t.Queues, func(q topology.Queue) bool { return q.Role == role.Counts }); i >= 0 {
			p.counts = t.Queues[i].Name
		}
		if p.configured {
			all = append([]part{p}, all...)
		} else {
			all = append(all, p)
		}
	}
	return all, nil
}

// Read asks the broker. A value that cannot be read is in Unknown. Errors are
// [delayer.ErrUnavailable] if the broker does not answer, [delayer.ErrNotFound] if it has no queues
// of this prefix, or not those of Parked, and [delayer.ErrAccess].
func (r *Reader) Read(ctx context.Context) (Status, error) {
	conn := r.conn.Control().Conn()
	_, _, version := conn.Server()
	s := Status{
		Time: time.Now().UTC().Truncate(time.Millisecond), Prefix: r.settings.Prefix,
		Broker: Broker{Address: conn.Endpoint(), Version: version},
	}
	states, err := r.readQueues(ctx, &s)
	if err != nil {
		return s, err
	}
	if err := r.nothing(s); err != nil {
		return s, err
	}
	if err := r.readParked(ctx, &s); err != nil {
		return s, err
	}
	if err := r.readEntries(ctx, &s); err != nil {
		return s, err
	}
	r.readFeatures(ctx, &s)
	r.readAPI(ctx, &s, states)
	if ctx.Err() != nil {
		return s, broker.Explain(op, "", s.Broker.Address, context.Cause(ctx))
	}
	total := 0
	for _, b := range s.Backends {
		if b.Waiting == nil {
			return s, nil
		}
		total += *b.Waiting
	}
	s.Waiting = &total
	return s, nil
}

// readFeatures asks once, and once a minute for what is lacking or not known: the answer may cost a
// channel, or the connection.
func (r *Reader) readFeatures(ctx context.Context, s *Status) {
	if r.looked.IsZero() || r.lacks != nil && time.Since(r.looked) > time.Minute {
		r.lacks, r.looked = objects.Of(r.conn.Control(), r.settings.Backend).Features(ctx, r.parts[0].plan), time.Now()
	}
	switch configured := &s.Backends[0]; {
	case errors.Is(r.lacks, delayer.ErrNotFound):
		configured.Missing = append(configured.Missing, objects.Feature)
	case r.lacks != nil:
		s.unknown(objects.Feature, r.lacks)
	}
}

func (r *Reader) readQueues(ctx context.Context, s *Status) (map[string]objects.State, error) {
	all := map[string]objects.State{}
	for i, p := range r.parts {
		if !p.absent.IsZero() && time.Since(p.absent) < absentFor {
			continue
		}
		ours := objects.Of(r.conn.Control(), p.name)
		only := p.exchange // that this backend alone has
		if len(p.plan.Markers) > 0 {
			only = p.plan.Markers[0].Name
		}
		missing, err := ours.Missing(ctx, topology.Plan{Exchanges: []topology.Exchange{{Name: only, Kind: amqp091.ExchangeDirect}}})
		if err != nil {
			return nil, err
		}
		there := len(missing) == 0
		if !there && !p.configured {
			r.parts[i].absent = time.Now()
			continue
		}
		states, err := ours.Look(ctx, p.plan)
		if err != nil {
			return nil, err
		}
		b, keeps := describe(p, states)
		if p.counts != "" {
			if err := r.readCounts(ctx, s, p, &b); err != nil {
				return nil, err
			}
		}
		if p.exchange != "" && !there { // and configured
			b.Missing = append(b.Missing, "exchange "+p.exchange)
		}
		s.Backends = append(s.Backends, b)
		for is, q := range keeps {
			switch is {
			case role.Misrouted:
				s.Misrouted = &q
			case role.Unroutable:
				s.Unroutable = &q
			}
		}
		maps.Copy(all, states)
	}
	return all, nil
}

// describe returns a backend with the queues that exist, and the queues for undelivered messages.
func describe(p part, states map[string]objects.State) (Backend, map[string]Queue) {
	b := Backend{Name: p.name, Configured: p.configured, Queues: []Queue{}, Missing: []string{}}
	keeps, waiting, intake, hides := map[string]Queue{}, 0, 0, false
	var candidates *int // of the intake's consumers the broker counts the one that leads
	for _, q := range p.plan.Queues {
		state, there := states[q.Name]
		switch {
		case !there && p.configured && !q.Optional:
			b.Missing = append(b.Missing, q.Name)
		case !there:
		case q.Role == role.Hidden: // readAPI counts
			hidden := queue(q, state)
			hidden.Hidden, hides = true, true
			b.Queues = append(b.Queues, hidden)
		case q.Role == role.Waiting || q.Role == role.Intake:
			b.Queues = append(b.Queues, queue(q, state))
			waiting += state.Messages
			if q.Role == role.Intake {
				intake += state.Messages
				b.Controllers = cmp.Or(b.Controllers, &state.Consumers)
			}
		case q.Role == role.Candidates:
			candidates = &state.Consumers
		case q.Role == role.Counts:
		default:
			keeps[q.Role] = queue(q, state)
		}
	}
	b.Controllers = cmp.Or(candidates, b.Controllers)
	if p.counts != "" {
		b.Unread, b.Controllers = &intake, cmp.Or(b.Controllers, new(int))
	}
	if p.exchange == "" && !hides { // the plugin's messages are in no queue
		b.Waiting = &waiting
	}
	return b, keeps
}

func queue(q topology.Queue, state objects.State) Queue {
	wait, _ := q.Args["x-message-ttl"].(int64)
	if q.Args["x-queue-type"] == string(delayer.Quorum) && wait > 0 {
		wait-- // see objects.WaitingQueue
	}
	return Queue{
		Name: q.Name, Wait: wait, Messages: state.Messages, Consumers: state.Consumers, Intake: q.Role == role.Intake,
	}
}

// nothing returns an error if the broker has nothing of this configuration.
func (r *Reader) nothing(s Status) error {
	if s.Unroutable != nil || s.Misrouted != nil {
		return nil
	}
	for _, b := range s.Backends {
		if len(b.Queues) > 0 || b.Name == "plugin" && len(b.Missing) == 0 {
			return nil
		}
	}
	return &delayer.Error{
		Op: op, Object: "prefix " + s.Prefix, Kind: delayer.ErrNotFound,
		Cause: fmt.Errorf("nothing of it is at %s", s.Broker.Address),
		Hint:  "a Delayer declares it when it is opened, or delayer topology apply: are prefix, backend, broker and virtual host those of a Delayer?",
	}
}

func (r *Reader) readParked(ctx context.Context, s *Status) error {
	for _, name := range r.cfg.Parked {
		q, there, err := r.look(ctx, name)
		if err != nil {
			return err
		}
		if !there {
			return &delayer.Error{
				Op: op, Object: fmt.Sprintf("queue %q", name), Kind: delayer.ErrNotFound, Cause: errors.New("there is no such queue"),
				Hint: "a consumer of package retry declares it when it starts: is the name right?",
			}
		}
		s.Parked = append(s.Parked, q)
	}
	return nil
}

func (s *Status) unknown(what string, why error) {
	s.Unknown = append(s.Unknown, Unknown{what, strings.TrimPrefix(why.Error(), "delayer: ")})
}

// readEntries counts what delayer serve has parked, where the management API does not list it.
func (r *Reader) readEntries(ctx context.Context, s *Status) error {
	if r.api != nil || len(r.cfg.Parked) > 0 {
		return nil
	}
	for _, name := range r.cfg.Entries {
		if time.Since(r.absent[name]) < absentFor {
			continue
		}
		switch q, there, err := r.look(ctx, name); {
		case err != nil:
			return err
		case there:
			s.Entries = append(s.Entries, q)
		default:
			r.absent[name] = time.Now()
		}
	}
	return nil
}

func (r *Reader) look(ctx context.Context, name string) (q Queue, there bool, err error) {
	asked := topology.Queue{Name: name}
	states, err := objects.Of(r.conn.Control(), "").Look(ctx, topology.Plan{Queues: []topology.Queue{asked}})
	state, there := states[name]
	return queue(asked, state), there, err
}
