package rabbit

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
)

// urlVariable names the environment variable of the broker that the user gives.
const urlVariable = "AMQP_URL"

// given is a broker that somebody else runs: it is used, and otherwise left alone.
type given struct{ at *url.URL }

func startGiven(ctx context.Context, o Options) (*Broker, error) {
	at, err := parseGiven(os.Getenv(urlVariable))
	if err != nil {
		return nil, err
	}
	a, err := handshake(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("rabbit: the broker at %s=%s does not answer: %w (start it, or unset %s)",
			urlVariable, at.Redacted(), err, urlVariable)
	}
	o.Logf("using the broker at %s", at.Redacted())
	return &Broker{host: &given{at: at}, about: a}, nil
}

// parseGiven never wraps the parser's error: that one quotes its input, and with it the password.
func parseGiven(text string) (*url.URL, error) {
	if text == "" {
		return nil, fmt.Errorf("rabbit: %s is not set (type: export %s=amqp://guest:guest@localhost:5672/)",
			urlVariable, urlVariable)
	}
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "amqp" && at.Scheme != "amqps" {
		return nil, fmt.Errorf("rabbit: %s is not an AMQP URL; it looks like amqp://user:password@host:5672/vhost,"+
			" with special characters of the password percent-encoded", urlVariable)
	}
	return at, nil
}

func (g *given) how() string                { return urlVariable }
func (g *given) url() *url.URL              { return g.at }
func (g *given) owned() bool                { return false }
func (g *given) run(context.Context) error  { return nil }
func (g *given) ended() <-chan struct{}     { return nil }
func (g *given) logTail() string            { return "" }
func (g *given) complaints() []string       { return nil }
func (g *given) stop(context.Context) error { return ErrNotOwned }
func (g *given) kill() error                { return ErrNotOwned }
func (g *given) pause(bool) error           { return ErrNotOwned }
func (g *given) usage() (usage, error)      { return usage{}, ErrNotOwned }
func (g *given) close() error               { return nil }

func (g *given) ctl(context.Context, ...string) (string, error) {
	return "", errors.Join(errors.New("rabbit: no rabbitmqctl"), ErrNotOwned)
}

func (g *given) hasPlugin(name string) bool {
	if name != "rabbitmq_delayed_message_exchange" {
		return false
	}
	has, err := hasDelayedExchange(g.at)
	return has && err == nil
}
