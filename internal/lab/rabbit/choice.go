package rabbit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"
)

// startTimeout bounds Start where ctx has no deadline; a slow machine boots a broker in half a
// minute.
const startTimeout = 2 * time.Minute

// configVariable names the environment variable with settings for every broker of our own, before
// those of Options.
const configVariable = "DELAYER_TEST_RABBITMQ_CONFIG"

// choiceVariable names the environment variable with the Choice of [Options] that have none.
const choiceVariable = "DELAYER_BROKER"

// errNotWanted is why nothing is started in a run without brokers.
const errNotWanted = missing("no broker, as " + choiceVariable + "=" + None + " says")

// Start returns a broker that answers. If there is none and none can be started the error matches
// [ErrNone] and says what to do; an AMQP_URL that does not answer is another error.
func Start(ctx context.Context, o Options) (*Broker, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	o.Image = cmp.Or(o.Image, os.Getenv("DELAYER_RABBITMQ_IMAGE"), DefaultImage)
	o.Choice = cmp.Or(o.Choice, os.Getenv(choiceVariable))
	o.Config = strings.TrimLeft(os.Getenv(configVariable)+"\n"+o.Config, "\n")
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	if os.Getenv(choiceVariable) == None && (o.Choice == Docker || o.Choice == Node) {
		o.Choice = None
	}
	switch o.Choice {
	case "":
		return startFirst(ctx, o)
	case None:
		return nil, errNotWanted
	case Given:
		return startGiven(ctx, o)
	case Docker:
		return startDocker(ctx, o)
	case Node:
		return startNode(ctx, o)
	default:
		return nil, fmt.Errorf("rabbit: unknown choice %q: DELAYER_BROKER is %s, %s, %s or %s, or not set",
			o.Choice, Given, Docker, Node, None)
	}
}

// startFirst goes through the order. A broker that was named and fails is an error; one that is
// merely not there is a reason to look further.
func startFirst(ctx context.Context, o Options) (*Broker, error) {
	if os.Getenv(urlVariable) != "" {
		return startGiven(ctx, o)
	}
	b, dockerErr := startDocker(ctx, o)
	if dockerErr == nil {
		return b, nil
	}
	o.Logf("no broker in Docker: %v", dockerErr)
	b, nodeErr := startNode(ctx, o)
	if nodeErr == nil || !errors.Is(nodeErr, ErrNone) {
		return b, nodeErr
	}
	return nil, noneOf(o.Image, dockerErr, nodeErr)
}

// noneOf is the error without a broker: each kind of broker, why it is missing, and how to get it.
func noneOf(image string, dockerErr, nodeErr error) error {
	return fmt.Errorf(`rabbit: %w. Any of these provides one:
  a broker that runs:  AMQP_URL is not set (type: export AMQP_URL=amqp://guest:guest@localhost:5672/)
  Docker:              %w (start the engine, then type: docker pull %s)
  a private node:      %w (type: make install-rabbitmq)`, ErrNone, dockerErr, image, nodeErr)
}

// missing is why one kind of broker cannot be had here. It matches [ErrNone].
type missing string

func (m missing) Error() string        { return string(m) }
func (m missing) Is(target error) bool { return target == ErrNone }

// begin runs the server of a host for the first time, and closes the host if it does not come up.
func begin(ctx context.Context, h host, o Options) (*Broker, error) {
	b := &Broker{host: h}
	began := time.Now()
	if err := b.Run(ctx); err != nil {
		return nil, errors.Join(err, h.close())
	}
	o.Logf("%v ready after %v", b, time.Since(began).Round(time.Millisecond))
	return b, nil
}

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
func (g *given) disk() (int64, error)       { return 0, ErrNotOwned }
func (g *given) ctlCommand() []string       { return nil }
func (g *given) evalCommand() []string      { return nil }
func (g *given) management() string         { return "" }
func (g *given) clock() *clock              { return nil }
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
