package messagescmd

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/kept"
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
	Due   messagejson.Instant `json:"due,omitzero"`
	Since messagejson.Instant `json:"since,omitzero"` // it is in the queue

	// Of a parked message.
	Queue     messagejson.Text `json:"queue,omitempty"`    // in which it failed
	Attempts  int              `json:"attempts,omitempty"` // 0: it was not parked by package retry
	First     time.Time        `json:"first_failure,omitzero"`
	LastError string           `json:"last_error,omitempty"`
}

// entries are of a list of messages.
func entries(ctx context.Context, client *undelivered.Client, list []*undelivered.Kept) ([]entry, error) {
	all, look := make([]entry, len(list)), kept.NewLook(client)
	for i, m := range list {
		why, err := look.Why(ctx, m)
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
		case !client.Parked():
			e.Due, e.Since = messagejson.Instant(m.Envelope.Due), messagejson.Instant(m.Came)
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
