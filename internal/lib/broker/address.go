// Package broker talks to RabbitMQ for the library. A Conn reconnects by itself, a Publisher
// publishes with confirms and mandatory, and a Control does everything else. The package knows
// nothing of delays.
package broker

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// Options say which broker, and how to reach it.
type Options struct {
	URL     string       // amqp:// or amqps://, or several of one cluster, separated by commas; never logged
	TLS     *tls.Config  // for amqps; nil takes what the URL's parameters say
	Logger  *slog.Logger // nil: slog.Default()
	Name    string       // shown in the broker's list of connections
	Backend string       // for errors

	Observer delayer.Observer // is told of the connection's states

	// AnyHeaders lets a connection read messages whose headers exceed the frame size, or that
	// amqp091-go cannot read: those get [UnreadableHeader]. Such a connection must not publish.
	AnyHeaders bool

	// Channels is how many channels the connection may have at a time, if that is more than 16, and
	// Heartbeat the shortest that it can do with. Dial refuses a broker, or an address, that grants
	// less. Open is how many channels Dial opens, so that limits of the user are met then.
	Channels, Open int
	Heartbeat      time.Duration
}

// Opening returns options with which Dial opens so many channels.
func (o Options) Opening(channels int) Options {
	o.Open = channels
	return o
}

// Slog is the logger to use.
func (o Options) Slog() *slog.Logger { return cmp.Or(o.Logger, slog.Default()) }

// An address is the URL of a broker, or of one node of a cluster.
type address struct {
	raw string // with the password
	uri amqp091.URI
}

// String is the address without credentials.
func (a address) String() string {
	vhost := a.uri.Vhost
	if vhost == "/" {
		vhost = ""
	}
	return a.uri.Scheme + "://" + net.JoinHostPort(a.uri.Host, strconv.Itoa(a.uri.Port)) + "/" + vhost
}

// next finds where another address begins: a comma within a password is never followed by a scheme.
var next = regexp.MustCompile(`,\s*[A-Za-z][A-Za-z0-9+.-]*://`)

// parseURLs reads a list of AMQP URLs. Its error never contains a URL: that holds the password.
func parseURLs(list string) ([]address, error) {
	var all []address
	for rest := strings.TrimSpace(list); ; {
		raw, more := rest, ""
		if at := next.FindStringIndex(rest); at != nil {
			raw, more = rest[:at[0]], strings.TrimSpace(rest[at[0]+1:])
		}
		uri, err := parseURL(strings.TrimSpace(raw))
		if err != nil {
			return nil, err
		}
		all = append(all, address{strings.TrimSpace(raw), uri})
		last, first := all[len(all)-1], all[0]
		if last.uri.Vhost != first.uri.Vhost || last.uri.Username != first.uri.Username {
			return nil, badURL(fmt.Sprintf("the addresses differ in vhost or user name (%v and %v)", first, last), "list the nodes of one cluster")
		}
		if more == "" {
			return all, nil
		}
		rest = more
	}
}

func badURL(reason, hint string) error {
	return &delayer.Error{Op: "open", Object: "url", Kind: delayer.ErrConfig, Cause: errors.New(reason), Hint: hint}
}

// parseURL reads one AMQP URL.
func parseURL(raw string) (amqp091.URI, error) {
	const form = "want amqp://user:password@host:5672/vhost, or amqps:// for TLS"
	if raw == "" {
		return amqp091.URI{}, badURL("empty", form)
	}
	scheme, _, found := strings.Cut(raw, "://")
	if !found {
		return amqp091.URI{}, badURL("no scheme", form)
	}
	if scheme != unencrypted && scheme != encrypted {
		return amqp091.URI{}, badURL(fmt.Sprintf("scheme %.20q is not AMQP", scheme), form)
	}
	uri, err := amqp091.ParseURI(raw)
	if err != nil {
		return uri, badURL("malformed", "percent-encode reserved characters in user name, password and vhost; "+form)
	}
	for _, mechanism := range uri.AuthMechanism {
		switch strings.ToUpper(mechanism) {
		case "PLAIN", "AMQPLAIN":
		case "EXTERNAL": // the certificate says who it is
			if u, err := url.Parse(raw); err == nil && u.User == nil {
				uri.Username = ""
			}
		default:
			return uri, badURL(fmt.Sprintf("auth_mechanism %.20q is not known", mechanism), "write external, to log in by certificate, or leave it out")
		}
	}
	if strings.Contains(uri.Host, ",") {
		return uri, badURL("several hosts in one address", "write each address in full: amqp://user:password@first/vhost,amqp://user:password@second/vhost")
	}
	return uri, nil
}

// Vhost is the virtual host of a list of AMQP URLs.
func Vhost(list string) (string, error) {
	all, err := parseURLs(list)
	if err != nil {
		return "", err
	}
	return all[0].uri.Vhost, nil
}

// WantTLS refuses addresses with which TLS files would have no effect.
func WantTLS(list string) error {
	all, err := parseURLs(list)
	if err != nil {
		return err
	}
	for _, a := range all {
		if a.uri.Scheme != encrypted {
			return badURL(fmt.Sprintf("%v is not encrypted, but TLS files are given", a), "write amqps://, or leave out tls")
		}
		if a.uri.CACertFile != "" || a.uri.CertFile != "" || a.uri.KeyFile != "" || a.uri.ServerName != "" {
			return badURL(fmt.Sprintf("%v names files for TLS, and so does tls", a), "give one of them")
		}
	}
	return nil
}

func endpoints(all []address) string {
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.String()
	}
	return strings.Join(names, ", ")
}
