package status

import (
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

// op is the operation in errors.
const op = "look at"

var errNoAPI = errors.New("no management API is given")

// apiPatience bounds all questions except the costly one. It is shorter than a Read usually has, so
// that the broker's own answers are shown even if the API does not answer.
const apiPatience = 20 * time.Second

// readAPI reads what AMQP does not show. A question that fails is in Unknown.
func (r *Reader) readAPI(ctx context.Context, s *Status, states map[string]objects.State) {
	patient, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	r.away = r.reachable(patient)
	for _, question := range []struct {
		what string
		ctx  context.Context
		ask  func(context.Context, *Status, map[string]objects.State) error
	}{
		{"policies", patient, r.askPolicies},
		{"what controllers hold", patient, r.askControllers},
		{"parked messages", patient, r.askParked},
		{"queues of other configurations", patient, r.askOthers},
		{"what waits in the plugin", ctx, r.askPlugin},
	} {
		if err := question.ask(question.ctx, s, states); err != nil {
			s.unknown(question.what, err)
		}
	}
}

// reachable asks who the user is, so that an API that does not answer is reported only once.
func (r *Reader) reachable(ctx context.Context) error {
	if r.api == nil {
		return errNoAPI
	}
	return r.get(ctx, &struct{}{}, "whoami")
}

func (r *Reader) askPolicies(ctx context.Context, s *Status, _ map[string]objects.State) error {
	if r.away != nil {
		return r.away
	}
	found := []string{}
	for _, p := range r.parts {
		if !p.configured {
			continue
		}
		harm, err := r.settings.Problems(ctx, p.plan)
		if err != nil {
			return err
		}
		for _, h := range harm {
			found = append(found, h.String())
		}
	}
	s.Policies = found
	return nil
}

// askControllers groups the consumers of a backend's queues by their connections.
func (r *Reader) askControllers(ctx context.Context, s *Status, _ map[string]objects.State) error {
	for i := range s.Backends {
		b := &s.Backends[i]
		switch {
		case b.Controllers == nil:
			continue
		case *b.Controllers == 0:
			b.Each, b.Held = []Controller{}, new(int)
			continue
		case r.away != nil:
			return r.away
		}
		each := map[string]*Controller{}
		for _, q := range b.Queues {
			if q.Consumers == 0 {
				continue
			}
			if err := r.consumers(ctx, q, each); err != nil {
				return err
			}
		}
		if err := r.held(ctx, each); err != nil {
			return err
		}
		if err := r.name(ctx, each); err != nil {
			return err
		}
		b.Each, b.Held = []Controller{}, new(int)
		for _, name := range slices.Sorted(maps.Keys(each)) {
			b.Each = append(b.Each, *each[name])
			*b.Held += each[name].Held
		}
	}
	return nil
}

// A consumer is one of a queue, as the API lists it.
type consumer struct {
	Activity string `json:"activity_status"` // of a single active consumer: single_active, or waiting
	Channel  struct {
		Connection string `json:"connection_name"`
		User       string `json:"user"`
	} `json:"channel_details"`
}

// consumers adds the connections that consume a queue.
func (r *Reader) consumers(ctx context.Context, queue Queue, each map[string]*Controller) error {
	var q struct {
		Consumers []consumer `json:"consumer_details"`
	}
	if err := r.get(ctx, &q, "queues", r.vhost, queue.Name); err != nil {
		return err
	}
	for _, c := range q.Consumers {
		name := c.Channel.Connection
		if name == "" {
			continue
		}
		if each[name] == nil {
			each[name] = &Controller{Connection: name, User: c.Channel.User}
		}
		if queue.Intake {
			each[name].Leads = c.leads()
		}
	}
	return nil
}

// leads reports whether a consumer of the intake gets its messages, or nil if all of them do.
func (c consumer) leads() *bool {
	var leads bool
	switch c.Activity {
	case "single_active":
		leads = true
	case "waiting":
	default:
		return nil
	}
	return &leads
}

// held counts the unacknowledged messages of connections.
func (r *Reader) held(ctx context.Context, each map[string]*Controller) error {
	for name, c := range each {
		var channels []struct {
			Unacknowledged int `json:"messages_unacknowledged"`
		}
		err := r.get(ctx, &channels, "connections", name, "channels")
		if errors.Is(err, delayer.ErrNotFound) { // the connection has ended
			delete(each, name)
			continue
		}
		if err != nil {
			return err
		}
		for _, ch := range channels {
			c.Held += ch.Unacknowledged
		}
	}
	return nil
}

// name says which processes connections are of, and since when. Those that have ended meanwhile stay
// without.
func (r *Reader) name(ctx context.Context, each map[string]*Controller) error {
	for name, c := range each {
		var about struct {
			Name  string `json:"user_provided_name"`
			Since int64  `json:"connected_at"` // ms since 1970
		}
		err := r.api.Get(ctx, management.Request{
			Op: op, Path: management.Path("connections", name), Query: url.Values{"columns": {"user_provided_name,connected_at"}},
		}, &about)
		if err != nil && !errors.Is(err, delayer.ErrNotFound) {
			return err
		}
		c.Name = about.Name
		if about.Since > 0 {
			since := time.UnixMilli(about.Since).UTC()
			c.Since = &since
		}
	}
	return nil
}

// askPlugin counts what waits in the plugin's exchange.
func (r *Reader) askPlugin(ctx context.Context, s *Status, _ map[string]objects.State) error {
	for i := range s.Backends {
		b := &s.Backends[i]
		if b.Waiting != nil {
			continue
		}
		at := slices.IndexFunc(r.parts, func(p part) bool { return p.name == b.Name })
		switch {
		case !r.cfg.Plugin:
			return errors.New("not asked for: the broker would read the plugin's whole table")
		case r.away != nil:
			return r.away
		}
		var x struct {
			Delayed *int `json:"messages_delayed"`
		}
		if err := r.get(ctx, &x, "exchanges", r.vhost, r.parts[at].exchange); err != nil {
			return err
		}
		if x.Delayed == nil {
			return errors.New("the broker does not count it: is the exchange of type x-delayed-message, and the plugin enabled?")
		}
		b.Waiting = x.Delayed
	}
	return nil
}

// apiQueue is a queue as the API lists it.
type apiQueue struct {
	Name      string `json:"name"`
	Ready     int    `json:"messages_ready"`
	Held      int    `json:"messages_unacknowledged"`
	Consumers int    `json:"consumers"`
	Exclusive bool   `json:"exclusive"`
}

func (r *Reader) queues(ctx context.Context, text string) ([]apiQueue, error) {
	return management.List[apiQueue](ctx, r.api, management.Request{
		Op: op, Path: management.Path("queues", r.vhost),
		Query: url.Values{"columns": {"name,messages_ready,messages_unacknowledged,consumers,exclusive"}},
	}, text)
}

// parkedSuffix ends the default names of queues of parked messages.
const parkedSuffix = ".parked"

// isParked reports whether a queue is one of those, or one of delayer serve.
func isParked(prefix, name string) bool {
	return strings.HasSuffix(name, parkedSuffix) || strings.HasPrefix(name, prefix+".serve"+parkedSuffix+".")
}

func (r *Reader) askParked(ctx context.Context, s *Status, _ map[string]objects.State) error {
	switch {
	case len(r.cfg.Parked) > 0:
		return nil
	case r.away != nil:
		return r.away
	}
	found, err := r.queues(ctx, parkedSuffix)
	if err != nil {
		return err
	}
	s.Parked = []Queue{}
	for _, q := range found {
		if isParked(r.settings.Prefix, q.Name) {
			s.Parked = append(s.Parked, Queue{Name: q.Name, Messages: q.Ready, Consumers: q.Consumers})
		}
	}
	return nil
}

// forgotten reports whether a queue under the prefix, which no backend here has, holds messages that
// nobody will look at.
func forgotten(prefix string, q apiQueue) bool {
	rest, is := strings.CutPrefix(q.Name, prefix+".")
	if !is || q.Exclusive || q.Ready+q.Held == 0 || isParked(prefix, q.Name) {
		return false
	}
	if strings.HasPrefix(rest, "serve.") {
		return q.Consumers == 0
	}
	ofMigration, is := strings.CutPrefix(rest, "migration.")
	_, err := hex.DecodeString(ofMigration) // the record of an exchange, see internal/app/migration/record
	return !is || err != nil && q.Consumers == 0
}

// askOthers finds queues under the prefix that no backend here has. What a migration is at work on
// is for delayer migrate status.
func (r *Reader) askOthers(ctx context.Context, s *Status, states map[string]objects.State) error {
	if r.away != nil {
		return r.away
	}
	found, err := r.queues(ctx, r.settings.Prefix+".")
	if err != nil {
		return err
	}
	s.Others = []Queue{}
	for _, q := range found {
		_, known := states[q.Name]
		if !known && forgotten(r.settings.Prefix, q) {
			s.Others = append(s.Others, Queue{Name: q.Name, Messages: q.Ready + q.Held, Consumers: q.Consumers})
		}
	}
	return nil
}

func (r *Reader) get(ctx context.Context, into any, path ...string) error {
	return r.api.Get(ctx, management.Request{Op: op, Path: management.Path(path...)}, into)
}
