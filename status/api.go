package status

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/objects"
)

const op = "look at"

// apiPatience bounds all questions. It is shorter than a Read usually has, so
// that the broker's own answers are shown even if the API does not answer.
const apiPatience = 20 * time.Second

// readAPI adds what AMQP does not show. A question that failed is in Unknown. An API that does not
// answer is not asked again.
func (r *Reader) readAPI(ctx context.Context, s *Status, states map[string]objects.State) {
	patient, cancel := context.WithTimeout(ctx, apiPatience)
	defer cancel()
	var away error
	if r.api == nil {
		away = errors.New("no management API is given")
	}
	ask := func(what string, question func() error) {
		err := away
		if err == nil {
			err = question()
		}
		if errors.Is(err, delayer.ErrUnavailable) {
			away = err
		}
		if err != nil {
			s.unknown(what, err)
		}
	}
	ask("policies", func() error {
		harm, err := r.settings.Problems(patient, r.parts[0].plan) // of the configured one
		if err != nil {
			return err
		}
		harm, unknown := objects.Unknown(harm)
		if len(unknown) == 0 {
			s.Policies = []string{}
		}
		for _, h := range harm {
			s.Policies = append(s.Policies, h.String())
		}
		if len(unknown) > 0 {
			return errors.New(objects.Summary(unknown))
		}
		return nil
	})
	ask("bindings that go around delayer serve", func() error {
		around, err := objects.Around(patient, r.api, r.vhost, r.settings.Prefix)
		if err == nil {
			s.Bindings = []string{}
		}
		for _, b := range around {
			s.Bindings = append(s.Bindings, b.String())
		}
		return err
	})
	if len(r.cfg.Parked) == 0 {
		ask("parked messages", func() (err error) {
			s.Parked, err = r.parked(patient)
			return err
		})
	}
	ask("queues of other configurations", func() (err error) {
		s.Others, err = r.others(patient, states)
		return err
	})
	if slices.ContainsFunc(s.Backends, hides) {
		ask("what waits in queues that hide it", func() error { return r.askHidden(patient, s.Backends) })
	}
	if slices.ContainsFunc(s.Backends, func(b Backend) bool { return b.Name == "plugin" }) {
		s.unknown("what waits in the plugin", errors.New("it is in no queue; delayer migrate assess --rabbitmqctl counts it"))
	}
}

func hides(b Backend) bool {
	return slices.ContainsFunc(b.Queues, func(q Queue) bool { return q.Hidden })
}

// askHidden counts what waits in queues that hide it.
func (r *Reader) askHidden(ctx context.Context, backends []Backend) error {
	for i := range backends {
		b := &backends[i]
		if !hides(*b) {
			continue
		}
		at := slices.IndexFunc(r.parts, func(p part) bool { return p.name == b.Name })
		counts, err := objects.Hidden(ctx, r.api, r.vhost, r.parts[at].plan)
		if err != nil {
			return err
		}
		exist, total := map[string]objects.State{}, 0
		for j := range b.Queues {
			q := &b.Queues[j]
			exist[q.Name] = objects.State{}
			if n, counted := counts[q.Name]; counted {
				q.Messages, q.Hidden = n, false
				total += n
			}
		}
		if err := objects.Uncounted(r.parts[at].plan, exist, counts); err != nil {
			return err
		}
		b.Waiting = &total
	}
	return nil
}

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

func (r *Reader) parked(ctx context.Context) ([]Queue, error) {
	found, err := r.queues(ctx, parkedSuffix)
	if err != nil {
		return nil, err
	}
	list := []Queue{}
	for _, q := range found {
		if isParked(r.settings.Prefix, q.Name) {
			list = append(list, Queue{Name: q.Name, Messages: q.Ready, Consumers: q.Consumers})
		}
	}
	return list, nil
}

// forgotten reports whether a queue under the prefix, which no backend here has, holds messages
// that nobody will look at.
func forgotten(prefix string, q apiQueue) bool {
	rest, is := strings.CutPrefix(q.Name, prefix+".")
	if !is || rest == "controller.counts" || q.Exclusive || q.Ready+q.Held == 0 || isParked(prefix, q.Name) {
		return false
	}
	if strings.HasPrefix(rest, "serve.") {
		return q.Consumers == 0
	}
	return true
}

// others are the queues under the prefix that no backend here has, without those of Delayers whose
// prefix begins with this one.
func (r *Reader) others(ctx context.Context, states map[string]objects.State) ([]Queue, error) {
	found, err := r.queues(ctx, r.settings.Prefix+".")
	if err != nil {
		return nil, err
	}
	var longer []string
	for _, q := range found {
		if of, is := strings.CutSuffix(q.Name, ".misrouted"); is && of != r.settings.Prefix {
			longer = append(longer, of+".")
		}
	}
	list := []Queue{}
	for _, q := range found {
		_, known := states[q.Name]
		theirs := slices.ContainsFunc(longer, func(prefix string) bool { return strings.HasPrefix(q.Name, prefix) })
		if !known && !theirs && forgotten(r.settings.Prefix, q) {
			list = append(list, Queue{Name: q.Name, Messages: q.Ready + q.Held, Consumers: q.Consumers})
		}
	}
	return list, nil
}
