package status

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
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

// said is what the API says that needs no answer of the broker's own. It is asked for while queues
// are read.
type said struct {
	away      error // why the API does not answer
	policies  []string
	noPolicy  error      // why policies is nil
	consumers []consumer // nil: there are too many to list
	parked    []apiQueue
	noParked  error
	prefixed  []apiQueue // whose names contain the prefix
	noOthers  error
	asked     bool // for policies and prefixed; not: there was nothing wrong with them
}

// mostListed is how many consumers are listed at once. Where a broker has more, those of each queue
// are asked for: the broker looks at all of a virtual host for the list.
const mostListed = 1000

// calmFor is how long nobody asks again for policies and for queues of other configurations, once
// there was nothing wrong with them. They hardly change, and the broker lists all its queues for
// each: half of the cost of a Read.
const calmFor = time.Minute

// askAPI asks what does not depend on other answers, side by side.
func (r *Reader) askAPI(ctx context.Context) (s said) {
	ctx, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	consumers := 0
	if consumers, s.away = r.reachable(ctx); s.away != nil {
		return s
	}
	s.policies, s.asked = []string{}, time.Since(r.calm) >= calmFor
	var all sync.WaitGroup
	if s.asked {
		all.Go(func() { s.policies, s.noPolicy = r.policies(ctx) })
	}
	all.Go(func() {
		if consumers <= mostListed {
			s.consumers, _ = r.allConsumers(ctx) // or else those of each queue
		}
		if len(r.cfg.Parked) == 0 {
			s.parked, s.noParked = r.queues(ctx, parkedSuffix)
		}
		if s.asked {
			s.prefixed, s.noOthers = r.queues(ctx, r.settings.Prefix+".")
		}
	})
	all.Wait()
	return s
}

// readAPI adds what AMQP does not show. A question that failed is in Unknown.
func (r *Reader) readAPI(ctx context.Context, s *Status, states map[string]objects.State, a said) {
	patient, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	s.Policies = a.policies
	for _, question := range []struct {
		what string
		ask  func() error
	}{
		{"policies", func() error { return cmp.Or(a.away, a.noPolicy) }},
		{"what controllers hold", func() error { return r.askControllers(patient, s, a) }},
		{"parked messages", func() error { return r.addParked(s, a) }},
		{"queues of other configurations", func() error { return r.addOthers(s, states, a) }},
		{"what waits in the plugin", func() error { return r.askPlugin(ctx, s, a.away) }},
	} {
		if err := question.ask(); err != nil {
			s.unknown(question.what, err)
		}
	}
	if calm := s.Policies != nil && len(s.Policies) == 0 && s.Others != nil && len(s.Others) == 0; !calm {
		r.calm = time.Time{}
	} else if a.asked {
		r.calm = time.Now()
	}
}

// reachable asks how many consumers the broker has, so that an API that does not answer is reported
// only once.
func (r *Reader) reachable(ctx context.Context) (consumers int, err error) {
	if r.api == nil {
		return 0, errNoAPI
	}
	var overview struct {
		Totals struct {
			Consumers int `json:"consumers"`
		} `json:"object_totals"`
	}
	err = r.api.Get(ctx, management.Request{
		Op: op, Path: "overview", Query: url.Values{"columns": {"object_totals.consumers"}},
	}, &overview)
	return overview.Totals.Consumers, err
}

// policies returns what policies harm.
func (r *Reader) policies(ctx context.Context) ([]string, error) {
	found := []string{}
	for _, p := range r.parts {
		if !p.configured {
			continue
		}
		harm, err := r.settings.Problems(ctx, p.plan)
		if err != nil {
			return nil, err
		}
		for _, h := range harm {
			found = append(found, h.String())
		}
	}
	return found, nil
}

// askControllers groups the consumers of a backend's queues by their connections.
func (r *Reader) askControllers(ctx context.Context, s *Status, a said) error {
	for i := range s.Backends {
		b := &s.Backends[i]
		switch {
		case b.Controllers == nil:
			continue
		case *b.Controllers == 0:
			b.Each, b.Held = []Controller{}, new(int)
			continue
		case a.away != nil:
			return a.away
		}
		each := map[string]*Controller{}
		for _, q := range b.Queues {
			if q.Consumers == 0 {
				continue
			}
			list := a.of(q.Name)
			if a.consumers == nil {
				var err error
				if list, err = r.consumers(ctx, q.Name); err != nil {
					return err
				}
			}
			add(list, q.Intake, each)
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
	Queue struct {
		Name string `json:"name"`
	} `json:"queue"`
}

// of returns the consumers of a queue.
func (a said) of(queue string) (list []consumer) {
	for _, c := range a.consumers {
		if c.Queue.Name == queue {
			list = append(list, c)
		}
	}
	return list
}

// allConsumers lists those of the virtual host.
func (r *Reader) allConsumers(ctx context.Context) ([]consumer, error) {
	list := []consumer{}
	err := r.api.Get(ctx, management.Request{
		Op: op, Path: management.Path("consumers", r.vhost),
		Query: url.Values{"columns": {"queue.name,activity_status,channel_details.connection_name,channel_details.user"}},
	}, &list)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// consumers lists those of a queue.
func (r *Reader) consumers(ctx context.Context, queue string) ([]consumer, error) {
	var q struct {
		Consumers []consumer `json:"consumer_details"`
	}
	err := r.get(ctx, &q, "queues", r.vhost, queue)
	return q.Consumers, err
}

// add adds the connections of consumers.
func add(list []consumer, intake bool, each map[string]*Controller) {
	for _, c := range list {
		name := c.Channel.Connection
		if name == "" {
			continue
		}
		if each[name] == nil {
			each[name] = &Controller{Connection: name, User: c.Channel.User}
		}
		if intake {
			each[name].Leads = c.leads()
		}
	}
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

// name says which processes connections are of, and since when. Those that have ended meanwhile
// stay without.
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
func (r *Reader) askPlugin(ctx context.Context, s *Status, away error) error {
	for i := range s.Backends {
		b := &s.Backends[i]
		if b.Waiting != nil {
			continue
		}
		at := slices.IndexFunc(r.parts, func(p part) bool { return p.name == b.Name })
		switch {
		case !r.cfg.Plugin:
			return errors.New("not asked for: the broker would read the plugin's whole table")
		case away != nil:
			return away
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

// addParked adds the queues of parked messages that the API has found.
func (r *Reader) addParked(s *Status, a said) error {
	if len(r.cfg.Parked) > 0 {
		return nil
	}
	if err := cmp.Or(a.away, a.noParked); err != nil {
		return err
	}
	s.Parked = []Queue{}
	for _, q := range a.parked {
		if isParked(r.settings.Prefix, q.Name) {
			s.Parked = append(s.Parked, Queue{Name: q.Name, Messages: q.Ready, Consumers: q.Consumers})
		}
	}
	return nil
}

// forgotten reports whether a queue under the prefix, which no backend here has, holds messages
// that nobody will look at.
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

// addOthers adds queues under the prefix that no backend here has. What a migration is at work on
// is for delayer migrate status.
func (r *Reader) addOthers(s *Status, states map[string]objects.State, a said) error {
	if err := cmp.Or(a.away, a.noOthers); err != nil {
		return err
	}
	s.Others = []Queue{}
	var longer []string // prefixes of other Delayers that begin with this one
	for _, q := range a.prefixed {
		if of, is := strings.CutSuffix(q.Name, ".misrouted"); is && of != r.settings.Prefix {
			longer = append(longer, of+".")
		}
	}
	for _, q := range a.prefixed {
		_, known := states[q.Name]
		others := slices.ContainsFunc(longer, func(prefix string) bool { return strings.HasPrefix(q.Name, prefix) })
		if !known && !others && forgotten(r.settings.Prefix, q) {
			s.Others = append(s.Others, Queue{Name: q.Name, Messages: q.Ready + q.Held, Consumers: q.Consumers})
		}
	}
	return nil
}

func (r *Reader) get(ctx context.Context, into any, path ...string) error {
	return r.api.Get(ctx, management.Request{Op: op, Path: management.Path(path...)}, into)
}
