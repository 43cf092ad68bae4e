// Package broker is the only place that talks to RabbitMQ: connections that come back by themselves
// (Conn), confirmed and mandatory publishing (Publisher), and everything else a channel is asked for
// (Control). It knows nothing of delays.
package broker

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// Options say which broker, and how to reach it.
type Options struct {
	URL     string       // amqp:// or amqps://; never logged
	TLS     *tls.Config  // for amqps; nil takes what the URL's parameters say
	Logger  *slog.Logger // nil: slog.Default()
	Name    string       // shown in the broker's list of connections
	Backend string       // for errors
}

// Slog is the logger to use.
func (o Options) Slog() *slog.Logger {
	if o.Logger == nil {
		return slog.Default()
	}
	return o.Logger
}

// parseURL reads an AMQP URL. Its error never contains the URL: that holds the password.
func parseURL(raw string) (amqp091.URI, error) {
	bad := func(reason, hint string) error {
		return &delayer.Error{Op: "open", Object: "url", Kind: delayer.ErrConfig, Cause: errors.New(reason), Hint: hint}
	}
	const form = "want amqp://user:password@host:5672/vhost, or amqps:// for TLS"
	if raw == "" {
		return amqp091.URI{}, bad("empty", form)
	}
	scheme, _, found := strings.Cut(raw, "://")
	if !found {
		return amqp091.URI{}, bad("no scheme", form)
	}
	if scheme != "amqp" && scheme != "amqps" {
		return amqp091.URI{}, bad("scheme "+strconv.Quote(scheme)+" is not AMQP", form)
	}
	uri, err := amqp091.ParseURI(raw)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) || strings.Contains(err.Error(), "invalid") {
			return uri, bad("malformed", "percent-encode reserved characters in user name, password and vhost; "+form)
		}
		return uri, bad("malformed query or port", form)
	}
	return uri, nil
}

// Vhost is the virtual host of an AMQP URL.
func Vhost(raw string) (string, error) {
	uri, err := parseURL(raw)
	return uri.Vhost, err
}

// endpoint is what may be shown of a broker's address.
func endpoint(uri amqp091.URI) string {
	vhost := uri.Vhost
	if vhost == "/" {
		vhost = ""
	}
	return uri.Scheme + "://" + net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)) + "/" + vhost
}
