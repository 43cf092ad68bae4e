package amqpclient

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

const (
	// dialTimeout bounds the TCP connection and the AMQP handshake together.
	dialTimeout = 10 * time.Second
	heartbeat   = 10 * time.Second
)

// Dial connects to url under a name that the broker's tools show. Its errors say what to do and
// never contain the password: they name the host alone.
func Dial(ctx context.Context, url, name string) (*amqp091.Connection, error) {
	uri, err := amqp091.ParseURI(url)
	if err != nil {
		// The parser's error quotes the URL with its password.
		return nil, &delayer.Error{Op: "connect", Object: "url", Kind: delayer.ErrConfig,
			Hint: "give it as amqp://user:password@host:5672/vhost, or amqps:// for TLS"}
	}
	properties := amqp091.NewConnectionProperties()
	properties.SetClientConnectionName(name)
	conn, err := amqp091.DialConfig(url, amqp091.Config{
		Properties: properties,
		Heartbeat:  heartbeat,
		Dial: func(network, address string) (net.Conn, error) {
			return dialTCP(ctx, network, address)
		},
	})
	if err != nil {
		return nil, explain(ctx, uri, err)
	}
	return conn, nil
}

func dialTCP(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	// amqp091 clears this deadline once the handshake is done.
	return conn, conn.SetDeadline(time.Now().Add(dialTimeout))
}

// explain turns amqp091's error into one that names the host and what to do.
func explain(ctx context.Context, uri amqp091.URI, err error) error {
	host := net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))
	failure := &delayer.Error{Op: "connect", Object: host, Kind: delayer.ErrUnavailable, Cause: err,
		Hint: "is RabbitMQ running there, and is this its AMQP port?"}
	var refused *amqp091.Error
	switch {
	case ctx.Err() != nil:
		failure.Kind, failure.Cause, failure.Hint = delayer.ErrNotSent, ctx.Err(), ""
	case errors.As(err, &refused) && refused.Code == amqp091.AccessRefused:
		failure.Kind, failure.Hint = delayer.ErrAccess, "check the user and password in the URL"
	case errors.As(err, &refused) && refused.Code == amqp091.NotAllowed:
		failure.Kind, failure.Hint = delayer.ErrAccess,
			"check that the virtual host "+strconv.Quote(uri.Vhost)+" exists and that the user may use it"
	}
	return failure
}
