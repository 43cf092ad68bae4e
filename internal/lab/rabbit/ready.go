package rabbit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/lab/amqpclient"
)

const (
	readyPoll      = 50 * time.Millisecond
	connectionName = "delayer: internal/lab/rabbit"
)

// about is what a broker says of itself in the AMQP handshake.
type about struct{ product, version, platform string }

// awaitReady polls with AMQP handshakes: the listener opens before logins work, so a TCP connect
// would be too early. It gives up when the server's process ends, with the server's last words.
func awaitReady(ctx context.Context, h host) (about, error) {
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		a, err := handshake(ctx, h.url())
		if err == nil {
			return a, nil
		}
		select {
		case <-h.ended():
			return a, fmt.Errorf("rabbit: %s ended before it was ready; its last output:\n%s", h.how(), h.logTail())
		case <-ctx.Done():
			return a, fmt.Errorf("rabbit: %s is not ready (%w): %w; its last output:\n%s",
				h.how(), ctx.Err(), err, h.logTail())
		case <-tick.C:
		}
	}
}

// handshake opens and closes a connection.
func handshake(ctx context.Context, u *url.URL) (about, error) {
	conn, err := amqpclient.Dial(ctx, u.String(), connectionName)
	if err != nil {
		return about{}, err
	}
	product, _ := conn.Properties["product"].(string)
	version, _ := conn.Properties["version"].(string)
	platform, _ := conn.Properties["platform"].(string)
	return about{product, version, platform}, conn.Close()
}

// hasDelayedExchange finds out by declaring one: a missing exchange type costs the connection
// (503), which is why it has one of its own.
func hasDelayedExchange(u *url.URL) (bool, error) {
	conn, err := amqpclient.Dial(context.Background(), u.String(), connectionName)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return false, err
	}
	const (
		name       = "delayer-probe-delayed"
		durable    = false
		autoDelete = true
		internal   = false
		noWait     = false
		ifUnused   = false
	)
	args := amqp091.Table{"x-delayed-type": "direct"}
	if err := ch.ExchangeDeclare(name, "x-delayed-message", durable, autoDelete, internal, noWait, args); err != nil {
		var refused *amqp091.Error
		if errors.As(err, &refused) {
			return false, nil
		}
		return false, err
	}
	return true, ch.ExchangeDelete(name, ifUnused, noWait)
}

// evaluate does what `rabbitmqctl eval` would do, by erl_call, which is in most packages of Erlang:
// rabbitmqctl starts a virtual machine each time, which takes a second of processor time. Tests
// evaluate something more often than all else that they ask of rabbitmqctl. It returns false for
// another command, and after an error: rabbitmqctl then knows what to say. call is `erl_call -e` with
// its input.
func evaluate(ctx context.Context, args []string, call func(ctx context.Context, input string) (string, error)) (out string, ok bool) {
	if len(args) != 2 || args[0] != "eval" {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	expression := strings.TrimSuffix(strings.TrimSpace(args[1]), ".")
	answer, err := call(ctx, `base64:encode_to_string(iolist_to_binary(io_lib:format("~p~n", [begin `+expression+` end]))).`+"\n")
	encoded, found := strings.CutPrefix(strings.TrimSpace(answer), `{ok, "`)
	if err != nil || !found {
		return "", false
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSuffix(encoded, `"}`))
	return string(text), err == nil
}
