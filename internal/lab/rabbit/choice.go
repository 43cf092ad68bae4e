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

	"github.com/delayer-go/delayer/internal/lab/amqpclient"
)

const (
	// startTimeout bounds Start where ctx has no deadline; a slow machine boots a broker in half a
	// minute.
	startTimeout = 2 * time.Minute

	urlVariable    = "AMQP_URL"                     // of the broker that the user gives
	choiceVariable = "DELAYER_BROKER"               // the Choice of Options that have none
	configVariable = "DELAYER_TEST_RABBITMQ_CONFIG" // of every broker of our own, before that of Options

	readyPoll      = 50 * time.Millisecond
	connectionName = "delayer: internal/lab/rabbit"
)

// errNotWanted is why nothing is started in a run without brokers.
const errNotWanted = missing("no broker, as " + choiceVariable + "=" + None + " says")

// Start returns a broker that answers. If there is none and none can be started the error matches
// [ErrNone] and says what to do; an AMQP_URL that does not answer is another error.
func Start(ctx context.Context, o Options) (*Broker, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
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
		return startAlone(ctx, o)
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
	b, nodeErr := startAlone(ctx, o)
	if nodeErr == nil || !errors.Is(nodeErr, ErrNone) {
		return b, nodeErr
	}
	return nil, fmt.Errorf(`rabbit: %w. Any of these provides one:
  a broker that runs:  AMQP_URL is not set (type: export AMQP_URL=amqp://guest:guest@localhost:5672/)
  Docker:              %w (start the engine, then type: docker pull %s)
  a private node:      %w (type: make install-rabbitmq)`, ErrNone, dockerErr, image(), nodeErr)
}

// missing is why one kind of broker cannot be had here. It matches [ErrNone].
type missing string

func (m missing) Error() string        { return string(m) }
func (m missing) Is(target error) bool { return target == ErrNone }

func startAlone(ctx context.Context, o Options) (*Broker, error) {
	ports, err := newNodePorts()
	if err != nil {
		return nil, err
	}
	return startNode(ctx, nodeSpec{Options: o, ports: ports})
}

// start runs the server of a broker for the first time, and closes the broker if it does not come
// up.
func start(ctx context.Context, b *Broker, o Options) (*Broker, error) {
	began := time.Now()
	if err := b.Run(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	o.Logf("%v ready after %v", b, time.Since(began).Round(time.Millisecond))
	return b, nil
}

func startGiven(ctx context.Context, o Options) (*Broker, error) {
	address := os.Getenv(urlVariable)
	if address == "" {
		return nil, fmt.Errorf("rabbit: %s is not set (type: export %[1]s=amqp://guest:guest@localhost:5672/)", urlVariable)
	}
	b, err := At(ctx, address, urlVariable)
	if err != nil {
		return nil, fmt.Errorf("rabbit: %s: %w (start that broker, or unset %[1]s)", urlVariable, err)
	}
	o.Logf("using the broker at %s", b.at.Redacted())
	return b, nil
}

// At returns the broker at an AMQP URL, if it answers. It is used, and neither started nor stopped.
// how says where the URL came from. The error says what to do, and never contains the password.
func At(ctx context.Context, address, how string) (*Broker, error) {
	about, err := handshake(ctx, address)
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(address)
	return &Broker{at: at, how: how, about: about}, err
}

// about is what a broker says of itself in the AMQP handshake.
type about struct{ product, version, platform string }

// awaitReady polls with AMQP handshakes: the listener opens before logins work, so a TCP connect
// would be too early. It gives up when the server's process ends, with the server's last words.
func (b *Broker) awaitReady(ctx context.Context) (about, error) {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		a, err := handshake(ctx, b.URL())
		if err == nil {
			return a, nil
		}
		select {
		case <-b.own.ended():
			return a, fmt.Errorf("rabbit: %s ended before it was ready; its last output:\n%s", b.how, b.own.logTail())
		case <-ctx.Done():
			return a, fmt.Errorf("rabbit: %s is not ready (%w): %w; its last output:\n%s",
				b.how, ctx.Err(), err, b.own.logTail())
		case <-tick.C:
		}
	}
}

func handshake(ctx context.Context, address string) (about, error) {
	conn, err := amqpclient.Dial(ctx, address, connectionName)
	if err != nil {
		return about{}, err
	}
	product, _ := conn.Properties["product"].(string)
	version, _ := conn.Properties["version"].(string)
	platform, _ := conn.Properties["platform"].(string)
	return about{product, version, platform}, conn.Close()
}
