package page

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/management"
)

const retriesPath = "/page/retries"

// retried are the queues that package retry consumes, as far as they are known.
type retried struct {
	Queues []retryQueue
	More   int // that were not read
}

type retriesView struct {
	retried
	reply
	Managed bool
}

func (p *Page) retries(w http.ResponseWriter, r *http.Request, v *visitor) {
	view := retriesView{Managed: p.Retries != nil}
	if view.Managed {
		view.retried, view.reply = p.Retries.look(r.Context())
	}
	p.show(w, http.StatusOK, "retries", frame{Title: "Retries", At: retriesPath, Visitor: v, Live: true, Content: view})
}

// A retryQueue is one that package retry consumes, with its queue of parked messages.
type retryQueue struct {
	Name     string `json:"-"`
	Parked   string `json:"-"`
	Given    int    `json:"-"`                       // messages that were given up: those in Parked
	There    bool   `json:"-"`                       // the queue exists. If it does not, what follows is zero
	Ready    int    `json:"messages_ready"`          // messages that wait for a handler
	Handling int    `json:"messages_unacknowledged"` // messages that consumers hold
	Workers  int    `json:"consumers"`
	// Stats are of attempts that have ended since the broker counts: messages that consumers have
	// acknowledged. nil: the broker does not count them.
	Stats struct {
		Ended *int `json:"ack"`
		Rate  struct {
			ASecond *float64 `json:"rate"`
		} `json:"ack_details"`
	} `json:"message_stats"`
}

const columns = "messages_ready,messages_unacknowledged,consumers,message_stats"

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
		q := &r.Queues[i]
		err := api.Get(ctx, management.Request{Op: "look at", Path: management.Path("queues", vhost, q.Name), Query: url.Values{"columns": {columns}}}, q)
		if q.There = err == nil; !q.There && !errors.Is(err, delayer.ErrNotFound) {
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
