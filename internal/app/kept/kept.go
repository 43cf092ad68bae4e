// Package kept opens the queues of messages that were not delivered, and says why they were not:
// for delayer messages, and for the page of delayer serve.
package kept

import (
	"context"
	"errors"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/lib/attempt"
	"github.com/delayer-go/delayer/internal/lib/delivery"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/management"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
)

// Open connects to a queue: the one for unroutable messages of a configuration, or one of parked
// messages.
func Open(ctx context.Context, cfg backend.Config, settings engine.Settings, queue string) (*undelivered.Client, error) {
	opts := settings.BrokerOptions("messages")
	if queue != cfg.UnroutableQueue() {
		client, err := undelivered.OpenParked(ctx, opts, queue)
		if err == nil && settings.Management != "" {
			client.Limit = func(ctx context.Context) (int64, error) { return deliveryLimit(ctx, settings, queue) }
		}
		return client, err
	}
	if cfg.Backend == "plugin" && cfg.Plugin.Exchange != "" {
		return nil, errors.New("with plugin.exchange no message is kept as unroutable: that exchange drops it (leave plugin.exchange out, or give the prefix's other backend with --backend)")
	}
	r, err := rules(cfg)
	if err != nil {
		return nil, err
	}
	client, err := undelivered.OpenUnroutable(ctx, opts, settings.Prefix)
	if err == nil {
		client.Rules = r
	}
	return client, err
}

// deliveryLimit asks the management API. Where a queue has an argument and a policy, the smaller
// one counts.
func deliveryLimit(ctx context.Context, settings engine.Settings, queue string) (int64, error) {
	api, vhost, err := settings.API()
	if err != nil {
		return 0, err
	}
	var found struct {
		Arguments management.Arguments `json:"arguments"`
		Effective management.Arguments `json:"effective_policy_definition"`
	}
	err = api.Get(ctx, management.Request{Op: "look at the queue", Path: management.Path("queues", vhost, queue)}, &found)
	if err != nil {
		return 0, err
	}
	argument, has := found.Arguments["x-delivery-limit"].(int64)
	policy, set := found.Effective["delivery-limit"].(int64)
	switch {
	case !has && !set:
		return undelivered.DefaultLimit, nil
	case !has || set && policy >= 0 && (argument < 0 || policy < argument):
		return policy, nil
	default:
		return argument, nil
	}
}

// rules returns the rules that compute remaining delays with this configuration.
func rules(cfg backend.Config) (delivery.Rules, error) {
	t, err := backend.Topology(cfg)
	if err != nil {
		return delivery.Rules{}, err
	}
	r := delivery.Rules{TTL: delivery.TTLs(t)}
	if cfg.Backend == controller.Name {
		r.Own = delivery.WhenDue
	}
	return r, nil
}

// A Failure is of one attempt to handle a message that was parked.
type Failure = attempt.Failure

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

// Why returns the reason, as far as it can be known.
func (l *Look) Why(ctx context.Context, m *undelivered.Kept) (string, error) {
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
	there, err := l.There(ctx, m)
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

// There asks for the destination of a message.
func (l *Look) There(ctx context.Context, m *undelivered.Kept) (delivery.Presence, error) {
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

// Destination is where retry sends a message.
func Destination(m *undelivered.Kept) string {
	switch exchange, key, known := m.Destination(); {
	case !known:
		return "unknown"
	case exchange == "":
		return "queue " + cli.Shown(key)
	default:
		return "exchange " + cli.Shown(exchange)
	}
}
