package page

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/management"
)

const retriesPath = "/page/retries"

// Retries know the queues that package retry consumes.
type Retries struct {
	managed bool
	queues  *question[retried]
}

type retried struct {
	Queues []retryQueue
	More   int
}

// NewRetries finds the queues of a configuration's virtual host.
func NewRetries(cfg backend.Config) (*Retries, error) {
	settings, err := engine.Resolve(cfg.Options, "")
	if err != nil {
		return nil, err
	}
	ask := func(ctx context.Context) (retried, error) { return readRetried(ctx, settings) }
	return &Retries{managed: cfg.Management != "", queues: &question[retried]{ask: ask, now: time.Now}}, nil
}

type retriesView struct {
	reading[retried]
	Managed bool
}

func (p *Page) retries(w http.ResponseWriter, r *http.Request, v *visitor) {
	view := retriesView{Managed: p.Retries.managed}
	if view.Managed {
		view.reading = p.Retries.queues.look(r.Context())
	}
	p.show(w, http.StatusOK, "retries", frame{Title: "Retries", At: retriesPath, Visitor: v, Live: true, Content: view})
}

// A retryQueue is one that package retry consumes, with its queue of parked messages.
type retryQueue struct {
	Name, Parked string
	// There is whether the queue exists. If it does not, all but Given is zero.
	There    bool
	Ready    int // messages that wait for a handler
	Handling int // messages that consumers hold
	Workers  int // consumers
	Given    int // messages that were given up: those in Parked
	// Ended are attempts that have ended since the broker counts, and Rate is how many do a second:
	// messages that consumers have acknowledged. nil: the broker does not count them.
	Ended *int
	Rate  *float64
}

// mostRetried is how many queues are read.
const mostRetried = 200

// parkedSuffix ends the names of queues of parked messages, unless a consumer gives another one.
const parkedSuffix = ".parked"

// readRetried finds queues of parked messages by their names, and asks for the queues in front of
// them. The fullest come first.
func readRetried(ctx context.Context, settings engine.Settings) (r retried, err error) {
	api, vhost, err := settings.API()
	if err != nil {
		return r, err
	}
	found, err := management.List[parkedQueue](ctx, api, management.Request{
		Op: "look at", Path: management.Path("queues", vhost), Query: url.Values{"columns": {"name,messages_ready"}},
	}, parkedSuffix)
	if err != nil {
		return r, err
	}
	r.Queues, r.More = pick(found, settings.Prefix)
	for i := range r.Queues {
		var q counted
		err := api.Get(ctx, management.Request{Op: "look at", Path: management.Path("queues", vhost, r.Queues[i].Name), Query: url.Values{"columns": {columns}}}, &q)
		switch {
		case err == nil:
			r.Queues[i].add(q)
		case !errors.Is(err, delayer.ErrNotFound):
			return r, err
		}
	}
	return r, nil
}

// A parkedQueue is one of parked messages as the API lists it.
type parkedQueue struct {
	Name  string `json:"name"`
	Ready int    `json:"messages_ready"`
}

const columns = "messages_ready,messages_unacknowledged,consumers,message_stats"

// counted is what the API counts of a queue.
type counted struct {
	Ready    int `json:"messages_ready"`
	Handling int `json:"messages_unacknowledged"`
	Workers  int `json:"consumers"`
	Stats    struct {
		Ended *int `json:"ack"`
		Rate  struct {
			Value *float64 `json:"rate"`
		} `json:"ack_details"`
	} `json:"message_stats"`
}

// pick returns the queues of those of parked messages, the fullest first. Those of delayer serve
// are not of package retry.
func pick(found []parkedQueue, prefix string) (list []retryQueue, more int) {
	for _, p := range found {
		name, is := strings.CutSuffix(p.Name, parkedSuffix)
		if !is || name == "" || strings.HasPrefix(p.Name, prefix+".serve"+parkedSuffix+".") {
			continue
		}
		list = append(list, retryQueue{Name: name, Parked: p.Name, Given: p.Ready})
	}
	slices.SortFunc(list, func(p, q retryQueue) int { return cmp.Or(cmp.Compare(q.Given, p.Given), cmp.Compare(p.Name, q.Name)) })
	more = max(0, len(list)-mostRetried)
	return list[:len(list)-more], more
}

func (q *retryQueue) add(c counted) {
	q.There, q.Ready, q.Handling, q.Workers = true, c.Ready, c.Handling, c.Workers
	q.Ended, q.Rate = c.Stats.Ended, c.Stats.Rate.Value
}
