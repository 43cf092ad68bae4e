// Package kept opens the queues of messages that were not delivered, and says why they were not:
// for delayer messages, and for the page of delayer serve.
package kept

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/bundle"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
	"github.com/delayer-go/delayer/internal/lib/role"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

// Open connects to a queue: the one for unroutable messages of a configuration, or one of parked
// messages.
func Open(ctx context.Context, cfg backend.Config, settings engine.Settings, queue string) (*undelivered.Client, error) {
	client, err := open(ctx, cfg, settings, queue)
	if err == nil && settings.Management != "" {
		client.Ask = func(ctx context.Context, queue string) (undelivered.Nature, error) {
			return nature(ctx, settings, queue)
		}
	}
	return client, err
}

func open(ctx context.Context, cfg backend.Config, settings engine.Settings, queue string) (*undelivered.Client, error) {
	opts := settings.BrokerOptions("messages")
	if queue != cfg.UnroutableQueue() {
		client, err := undelivered.OpenParked(ctx, opts, queue)
		if err != nil {
			return nil, err
		}
		client.Owner = settings.Prefix
		if Delayable(queue) {
			client.Again = entry.ParkedAgain(queue)
		}
		return client, nil
	}
	r, err := rules(cfg, settings.Prefix)
	if err != nil {
		return nil, err
	}
	client, err := undelivered.OpenUnroutable(ctx, opts, settings.Prefix)
	if err == nil {
		client.Rules = r
		client.Bundle = bundleOf(log(cfg))
	}
	return client, err
}

// log is the queue from which controllers read bundles, or "".
func log(cfg backend.Config) (queue string) {
	plan, _ := backend.Topology(cfg) // it was asked for before
	for _, q := range plan.Queues {
		switch q.Role {
		case role.Intake:
			queue = q.Name
		case role.Counts:
			return queue
		}
	}
	return ""
}

// bundleOf says what is known of bundles. One of the log that can be read is sent there again.
func bundleOf(log string) func(kind string, body []byte) *undelivered.Bundle {
	return func(kind string, body []byte) *undelivered.Bundle {
		if kind != bundle.ContentType {
			return nil
		}
		messages, inSlot, err := readBundle(body)
		b := &undelivered.Bundle{Messages: messages}
		switch what := "a bundle of " + cli.Count(messages, "message"); {
		case err != nil:
			b.Why = fmt.Sprintf("a bundle of messages that cannot be read: %v", err)
		case inSlot:
			b.Why = what + " of a slot, which only a controller may write"
		case log == "":
			b.Why = what + " for backend controller: give its configuration"
		default:
			b.Why, b.To = what+" that can be read: retry", log
		}
		return b
	}
}

// readBundle returns how many messages a bundle has, and whether it was written to a slot, otherwise
// to the log. One without messages has Cancels or Postpones, or only what controllers need.
func readBundle(body []byte) (messages int, inSlot bool, err error) {
	read, err := bundle.Read(body)
	if err != nil {
		return 0, false, err
	}
	for i := range read.Records {
		if read.Records[i].Kind == bundle.Message {
			messages++
		}
	}
	return messages, read.InSlot, nil
}

// Delayable reports whether a retry of a queue's messages can give them another delay: delayer serve
// has parked them.
func Delayable(queue string) bool { return attempt.BackOf(queue) != "" }

// nature asks the management API. It may show the name of a policy, and not what that sets.
func nature(ctx context.Context, settings engine.Settings, queue string) (n undelivered.Nature, err error) {
	api, vhost, err := settings.API()
	if err != nil {
		return n, err
	}
	var found struct {
		Type       string               `json:"type"`
		AutoDelete bool                 `json:"auto_delete"`
		Arguments  management.Arguments `json:"arguments"`
		Policy     json.RawMessage      `json:"policy"` // a name, null, or missing
		Operator   json.RawMessage      `json:"operator_policy"`
		Effective  management.Arguments `json:"effective_policy_definition"`
	}
	if err = api.Get(ctx, management.Request{Op: "look at the queue", Path: management.Path("queues", vhost, queue)}, &found); err != nil {
		return n, err
	}
	n = undelivered.Nature{Type: found.Type, AutoDelete: found.AutoDelete}
	named := ""
	for _, policy := range []json.RawMessage{found.Policy, found.Operator} {
		if text := string(policy); text != "" && text != "null" && text != `""` {
			named = text
		}
	}
	switch {
	case found.Effective != nil:
	case named == "" && found.Policy == nil: // the queue is new
		n.Hidden = "the management API does not tell its policies yet"
	case named != "":
		n.Hidden = "policy " + named + " applies to it, and the management API does not tell what that sets"
	}
	n.Single, _ = found.Arguments["x-single-active-consumer"].(bool)
	for _, limit := range []any{found.Arguments["x-delivery-limit"], found.Effective["delivery-limit"]} {
		if limit, is := limit.(int64); is {
			n.Limits = append(n.Limits, limit)
		}
	}
	return n, nil
}

// rules returns the rules that compute remaining delays with this configuration.
func rules(cfg backend.Config, prefix string) (delivery.Rules, error) {
	t, err := backend.Topology(cfg)
	if err != nil {
		return delivery.Rules{}, err
	}
	r := delivery.Rules{TTL: delivery.TTLs(prefix, t)}
	if cfg.Backend == controller.Name {
		r.Own = delivery.WhenDue
	}
	return r, nil
}

// A Message is what is shown of a message in the queue.
type Message struct {
	ID        messagejson.Text  `json:"id,omitempty"` // Delayer's
	MessageID messagejson.Text  `json:"message_id,omitempty"`
	Exchange  *messagejson.Text `json:"exchange"` // it was published to; null if that is not known
	Key       messagejson.Text  `json:"routing_key"`
	Size      int               `json:"size"`
	Why       string            `json:"why"`
	To        string            `json:"-"` // where retry sends it

	// Of an unroutable message.
	Due   messagejson.Instant `json:"due,omitzero"`
	Since messagejson.Instant `json:"since,omitzero"` // it is in the queue

	// Of a parked message.
	Queue     messagejson.Text `json:"queue,omitempty"`    // in which it failed
	Attempts  int              `json:"attempts,omitempty"` // 0: it was not parked by package retry
	First     time.Time        `json:"first_failure,omitzero"`
	LastError string           `json:"last_error,omitempty"`
}

// A Whole message is shown with all that it consists of.
type Whole struct {
	Message
	Failures []Failure `json:"failures,omitempty"` // the last ones, the oldest first
	undelivered.Content
}

// A Failure is one attempt of a parked message.
type Failure struct {
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	Error   string    `json:"error"`
}

// Whole adds what a message consists of.
func (m Message) Whole(of *undelivered.Kept) Whole {
	w := Whole{Message: m, Content: of.Content()}
	if of.Parked != nil {
		for _, f := range of.Parked.History {
			if f.Error == m.Why {
				continue
			}
			w.Failures = append(w.Failures, Failure{f.Attempt, f.At.UTC(), f.Error})
		}
	}
	return w
}

// A Look finds out why messages are in the queue. It asks for each destination once.
type Look struct {
	client *undelivered.Client
	known  map[[2]string]delivery.Presence
}

// mostLooks bounds the questions. Further destinations are shown without an answer.
const mostLooks = 200

// NewLook looks at the messages of a client.
func NewLook(client *undelivered.Client) *Look {
	return &Look{client: client, known: map[[2]string]delivery.Presence{}}
}

// Message says what there is to know of a message.
func (l *Look) Message(ctx context.Context, m *undelivered.Kept) (Message, error) {
	why, err := l.why(ctx, m)
	of := Message{
		MessageID: messagejson.Text(m.MessageId), Key: messagejson.Text(m.RoutingKey), Size: m.Size, Why: why, To: Destination(m),
	}
	if exchange, key, known := m.Published(); known {
		text := messagejson.Text(exchange)
		of.Exchange, of.Key = &text, messagejson.Text(key)
	}
	if m.Ours {
		of.ID = messagejson.Text(m.Envelope.ID)
	}
	switch p := m.Parked; {
	case p != nil:
		of.Queue, of.Attempts, of.First = messagejson.Text(p.Queue), p.Failures, p.First
		if last := p.LastError(); last != why { // delayer serve has one reason
			of.LastError = last
		}
	case !l.client.Parked():
		of.Due, of.Since = messagejson.Instant(m.Envelope.Due), messagejson.Instant(m.Came)
	}
	return of, err
}

// why returns the reason, as far as it can be known.
func (l *Look) why(ctx context.Context, m *undelivered.Kept) (string, error) {
	switch {
	case m.Parked != nil:
		return cmp.Or(m.Parked.Reason, "parked as it was: the log of delayer serve says why"), nil
	case l.client.Parked():
		return "no " + attempt.Header + " header: not parked by package retry", nil
	case m.Bundle != nil:
		return m.Bundle.Why, nil
	case !m.Ours:
		return "no x-delayer header: not a Delayer's", nil
	}
	what := "exchange"
	if m.Envelope.Exchange == "" {
		what = "queue"
	}
	exchange, key, _ := m.Destination()
	if exchange != "" {
		key = ""
	}
	at := [2]string{exchange, key}
	there, asked := l.known[at]
	if !asked && len(l.known) < mostLooks {
		var err error
		if there, err = l.client.Exists(ctx, exchange, key); err != nil {
			return "", err
		}
		l.known[at] = there
	}
	switch {
	case there == delivery.Gone:
		return "no such " + what, nil
	case m.Early():
		return "it was misrouted: retry", nil
	case there == delivery.There:
		return what + " was gone, is there now: retry", nil
	}
	return what + " was gone", nil
}

// Destination is where retry sends a message.
func Destination(m *undelivered.Kept) string {
	switch exchange, key, known := m.Destination(); {
	case !known:
		return "unknown"
	case exchange == "" && attempt.EntryOf(key) != "": // which passes it on
		return "exchange " + cli.Shown(attempt.EntryOf(key))
	case exchange == "":
		return "queue " + cli.Shown(key)
	default:
		return "exchange " + cli.Shown(exchange)
	}
}
