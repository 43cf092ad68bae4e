package messagescmd

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

// An entry is what list and show say of a message.
type entry struct {
	ID        messagejson.Text  `json:"id,omitempty"`
	MessageID messagejson.Text  `json:"message_id,omitempty"`
	Exchange  *messagejson.Text `json:"exchange"` // it was published to; null if that is not known
	Key       messagejson.Text  `json:"routing_key"`
	Size      int               `json:"size"`
	Why       string            `json:"why"`

	// Of an unroutable message.
	Due   time.Time `json:"due,omitzero"`
	Since time.Time `json:"since,omitzero"` // it is in the queue

	// Of a parked message.
	Queue     messagejson.Text `json:"queue,omitempty"`    // in which it failed
	Attempts  int              `json:"attempts,omitempty"` // 0: it was not parked by package retry
	First     time.Time        `json:"first_failure,omitzero"`
	LastError string           `json:"last_error,omitempty"`
}

// entries are of a list of messages.
func (l *look) entries(ctx context.Context, list []*undelivered.Kept) ([]entry, error) {
	all := make([]entry, len(list))
	for i, m := range list {
		why, err := l.why(ctx, m)
		if err != nil {
			return nil, err
		}
		e := entry{MessageID: messagejson.Text(m.MessageId), Key: messagejson.Text(m.RoutingKey), Size: m.Size, Why: why}
		if exchange, key, known := m.Published(); known {
			text := messagejson.Text(exchange)
			e.Exchange, e.Key = &text, messagejson.Text(key)
		}
		if m.Ours {
			e.ID = messagejson.Text(m.Envelope.ID)
		}
		switch p := m.Parked; {
		case p != nil:
			e.Queue, e.Attempts, e.First, e.LastError = messagejson.Text(p.Queue), p.Failures, p.First, p.LastError()
		case !l.client.Parked():
			e.Due, e.Since = m.Envelope.Due, m.Came
		}
		all[i] = e
	}
	return all, nil
}

// ids are Delayer's id, and the message-id property if there is one.
func (e *entry) ids() string {
	var ids []string
	if e.ID != "" {
		ids = append(ids, cli.Shown(string(e.ID)))
	}
	if e.MessageID != "" {
		ids = append(ids, "message-id="+cli.Shown(string(e.MessageID)))
	}
	if ids == nil {
		return "-"
	}
	return strings.Join(ids, " ")
}

// A look finds out why messages are in the queue. It asks for each destination once.
type look struct {
	client *undelivered.Client
	known  map[[2]string]delivery.Presence
}

// mostLooks bounds the questions. Further destinations are shown without an answer.
const mostLooks = 200

func newLook(client *undelivered.Client) *look {
	return &look{client: client, known: map[[2]string]delivery.Presence{}}
}

// why returns the reason, as far as it can be known.
func (l *look) why(ctx context.Context, m *undelivered.Kept) (string, error) {
	switch {
	case m.Parked != nil:
		return m.Parked.Reason, nil
	case l.client.Parked():
		return "no " + attempt.Header + " header: not parked by package retry", nil
	case !m.Ours:
		return "no x-delayer header: not a Delayer's", nil
	}
	what := "exchange"
	if m.Envelope.Exchange == "" {
		what = "queue"
	}
	there, err := l.there(ctx, m)
	switch {
	case err != nil:
		return "", err
	case there == delivery.Gone:
		return "no such " + what, nil
	case m.Early():
		return "it was misrouted: retry", nil
	case there == delivery.There:
		return what + " was gone, is there now: retry", nil
	}
	return what + " was gone", nil
}

// there asks for the destination of a message.
func (l *look) there(ctx context.Context, m *undelivered.Kept) (delivery.Presence, error) {
	exchange, key, _ := m.Destination()
	if exchange != "" {
		key = ""
	}
	at := [2]string{exchange, key}
	there, asked := l.known[at]
	if asked || len(l.known) == mostLooks {
		return there, nil
	}
	there, err := l.client.Exists(ctx, exchange, key)
	if err == nil {
		l.known[at] = there
	}
	return there, err
}

// destination is where retry sends a message.
func destination(m *undelivered.Kept) string {
	switch exchange, key, known := m.Destination(); {
	case !known:
		return "unknown"
	case exchange == "":
		return "queue " + cli.Shown(key)
	default:
		return "exchange " + cli.Shown(exchange)
	}
}

// A tally counts messages by text.
type tally map[string]int

func (t tally) sum() (n int) {
	for _, count := range t {
		n += count
	}
	return n
}

// order is the names, those with most messages first.
func (t tally) order() []string {
	return slices.SortedStableFunc(slices.Values(slices.Sorted(maps.Keys(t))), func(a, b string) int { return t[b] - t[a] })
}
