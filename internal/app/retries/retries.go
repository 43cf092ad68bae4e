// Package retries reads what the broker knows of the queues that package retry consumes: for the
// page of delayer serve. The rest, such as at which attempt a message succeeded, only their
// consumers know.
package retries

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/management"
)

// A Queue is one that package retry consumes, with its queue of parked messages.
type Queue struct {
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

// Most is how many queues are read.
const Most = 200

// suffix ends the names of queues of parked messages, unless a consumer gives another one.
const suffix = ".parked"

// Read finds queues of parked messages by their names, and asks for the queues in front of them.
// The fullest come first. more is how many there are beside.
func Read(ctx context.Context, settings engine.Settings) (list []Queue, more int, err error) {
	api, vhost, err := settings.API()
	if err != nil {
		return nil, 0, err
	}
	found, err := management.List[parked](ctx, api, management.Request{
		Op: op, Path: management.Path("queues", vhost), Query: url.Values{"columns": {"name,messages_ready"}},
	}, suffix)
	if err != nil {
		return nil, 0, err
	}
	list, more = pick(found, settings.Prefix)
	for i := range list {
		var q counted
		err := api.Get(ctx, management.Request{Op: op, Path: management.Path("queues", vhost, list[i].Name), Query: url.Values{"columns": {columns}}}, &q)
		switch {
		case err == nil:
			list[i].add(q)
		case !errors.Is(err, delayer.ErrNotFound):
			return nil, 0, err
		}
	}
	return list, more, nil
}

// op is the operation in errors.
const op = "look at"

// parked is a queue of parked messages as the API lists it.
type parked struct {
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
func pick(found []parked, prefix string) (list []Queue, more int) {
	for _, p := range found {
		name, is := strings.CutSuffix(p.Name, suffix)
		if !is || name == "" || strings.HasPrefix(p.Name, prefix+".serve"+suffix+".") {
			continue
		}
		list = append(list, Queue{Name: name, Parked: p.Name, Given: p.Ready})
	}
	slices.SortFunc(list, func(p, q Queue) int { return cmp.Or(cmp.Compare(q.Given, p.Given), cmp.Compare(p.Name, q.Name)) })
	more = max(0, len(list)-Most)
	return list[:len(list)-more], more
}

func (q *Queue) add(c counted) {
	q.There, q.Ready, q.Handling, q.Workers = true, c.Ready, c.Handling, c.Workers
	q.Ended, q.Rate = c.Stats.Ended, c.Stats.Rate.Value
}
