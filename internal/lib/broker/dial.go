package broker

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/frame"
)

// The schemes of addresses.
const unencrypted, encrypted = "amqp", "amqps"

// dialTimeout is for TCP, TLS and the AMQP handshake together.
const dialTimeout = 30 * time.Second

func (c *Conn) dial(ctx context.Context, first int) (connState, error) {
	var failed []string
	var why error // the one that may end soon, if there is one
	for i := range c.all {
		at := (first + i) % len(c.all)
		up, err := dial(ctx, c.all[at], c.opts, attemptDeadline(ctx, len(c.all)-i))
		if err == nil {
			if failed != nil {
				c.log.Warn("an address of the broker does not answer", "errors", failed, "instead", c.all[at].String())
			}
			up.at = at
			return up, nil
		}
		if ctx.Err() != nil && !errors.Is(err, errLogin) {
			err = context.Cause(ctx)
		}
		if len(c.all) == 1 || ctx.Err() != nil {
			return up, err
		}
		if why == nil || permanent(why) {
			why = err
		}
		failed = append(failed, fmt.Sprintf("%s: %v", c.all[at], plain(err)))
	}
	return connState{}, &reason{"no address answers: " + strings.Join(failed, "; "), why}
}

// attemptDeadline returns when one dial attempt must end, so that a host that does not answer
// leaves time for the others. left counts the attempts still to make, this one included.
func attemptDeadline(ctx context.Context, left int) time.Time {
	timeout := dialTimeout
	if left > 1 {
		timeout = dialTimeout / 3
	}
	if d, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(d)/time.Duration(left))
	}
	return time.Now().Add(timeout)
}

func dial(ctx context.Context, to address, opts Options, deadline time.Time) (connState, error) {
	// amqp091-go takes no context: closing the socket ends the handshake.
	var socket *wire
	unhook := func() bool { return true }
	cfg := amqp091.Config{
		Properties: amqp091.NewConnectionProperties(),
		Dial: func(network, _ string) (net.Conn, error) {
			dialed, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, network, net.JoinHostPort(to.uri.Host, strconv.Itoa(to.uri.Port)))
			if err != nil {
				return nil, err
			}
			socket = &wire{Conn: dialed}
			unhook = context.AfterFunc(ctx, func() { _ = socket.Close() })
			s, err := layers(socket, to, opts, deadline)
			if err != nil {
				_ = socket.Close()
			}
			return s, err
		},
	}
	// The management page and list_connections show: delayer shop publish, web1 orders[4711].
	machine, _ := os.Hostname()
	cfg.Properties.SetClientConnectionName(fmt.Sprintf("%s, %s %s[%d]", opts.Name, machine, filepath.Base(os.Args[0]), os.Getpid()))
	if opts.AnyHeaders {
		cfg.FrameSize = largestFrame
	}
	conn, err := amqp091.DialConfig(unencrypted+strings.TrimPrefix(to.raw, to.uri.Scheme), cfg) // it would begin TLS once more
	unhook()
	ended := context.Cause(ctx)
	if ended == nil && err != nil && !time.Now().Before(deadline) {
		ended = context.DeadlineExceeded
	}
	if ended != nil && (errors.Is(err, amqp091.ErrCredentials) || errors.Is(err, amqp091.ErrVhost)) {
		return connState{}, fmt.Errorf("%w: %w", ended, errLogin) // amqp091-go guessed: we have closed the socket
	}
	if ctx.Err() != nil {
		if conn != nil {
			_ = conn.CloseDeadline(time.Now())
		}
		return connState{}, ended
	}
	if err != nil {
		return connState{}, err
	}
	got := conn.Config // what was negotiated may be less than the connection needs
	if needs := max(opts.Channels, leastChannels); int(got.ChannelMax) < needs {
		err = fmt.Errorf("it needs %d channels, and may have %d: %w", needs, got.ChannelMax, errChannels)
	} else if 0 < got.Heartbeat && got.Heartbeat < opts.Heartbeat {
		err = fmt.Errorf("its heartbeat is %v, and must be %v or longer: %w", got.Heartbeat, opts.Heartbeat, errHeartbeat)
	}
	if err != nil {
		_ = conn.CloseDeadline(deadline)
		return connState{}, err
	}
	return connState{conn: conn, wire: socket}, nil
}

// leastChannels are those of a Control, and of who consumes on its connection.
const leastChannels = 2 * ControlChannels

// errLogin: the time was over before the broker said whether the user may log in.
var errLogin = errors.New("the broker has not answered the login")

// What is negotiated, and may be too little.
var errChannels, errHeartbeat = errors.New("channel_max is too low"), errors.New("heartbeat is too short")

// layers puts on a socket what a connection needs. All of that ends by the deadline.
func layers(socket net.Conn, to address, opts Options, deadline time.Time) (s net.Conn, err error) {
	if err := socket.SetDeadline(deadline); err != nil {
		return nil, err
	}
	s = socket
	if to.uri.Scheme == encrypted {
		if s, err = secure(s, to.uri, opts.TLS); err != nil {
			return nil, err
		}
	}
	if opts.AnyHeaders {
		s = &anyHeaders{Conn: s, in: frame.Reader{In: bufio.NewReaderSize(s, 64<<10)}}
	}
	return s, s.SetDeadline(deadline)
}

// secure begins TLS on a socket, as amqp091-go does for amqps: here what reads and writes frames can
// be between the two. cfg is not changed; nil takes what the parameters of the address say.
func secure(socket net.Conn, to amqp091.URI, cfg *tls.Config) (net.Conn, error) {
	if cfg = cfg.Clone(); cfg == nil {
		var err error
		if cfg, err = tlsOf(to); err != nil {
			return nil, err
		}
	}
	if cfg.ServerName == "" {
		cfg.ServerName = to.Host
	}
	client := tls.Client(socket, cfg)
	return client, client.Handshake()
}

// tlsOf is what the parameters of an address say.
func tlsOf(to amqp091.URI) (*tls.Config, error) {
	return ReadTLS(delayer.TLSFiles{CAFile: to.CACertFile, CertFile: to.CertFile, KeyFile: to.KeyFile, ServerName: to.ServerName})
}

// ReadTLS reads files. In the URL's parameters they are cacertfile, certfile and keyfile.
func ReadTLS(f delayer.TLSFiles) (*tls.Config, error) {
	fail := func(key string, cause error, hint string) (*tls.Config, error) {
		return nil, &delayer.Error{Op: "open", Object: key, Kind: delayer.ErrConfig, Cause: cause, Hint: hint}
	}
	out := &tls.Config{ServerName: f.ServerName, MinVersion: tls.VersionTLS12}
	if f.CAFile != "" {
		text, err := os.ReadFile(f.CAFile)
		if err != nil {
			return fail("tls.ca_file", err, "give a readable file of certificates in PEM")
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return fail("tls.ca_file", fmt.Errorf("%s holds no certificate", f.CAFile), "give a file of certificates in PEM")
		}
	}
	if (f.CertFile == "") != (f.KeyFile == "") {
		return fail("tls", errors.New("cert_file and key_file go together"), "give both, or neither")
	}
	if f.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			cause := fmt.Errorf("%s with key_file %s: %w", f.CertFile, f.KeyFile, err)
			return fail("tls.cert_file", cause, "give a certificate and its own key, both in PEM")
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// DialSocket connects to the first address that answers, up to TLS: what speaks AMQP there logs in
// by itself. Without certificate it does not show that of the options, by which a broker may know
// their user.
func DialSocket(ctx context.Context, opts Options, certificate bool) (net.Conn, error) {
	all, err := parseURLs(opts.URL)
	if err != nil {
		return nil, err
	}
	var failed []error
	for i, to := range all {
		s, err := dialSocket(ctx, to, opts, certificate, attemptDeadline(ctx, len(all)-i))
		if err == nil {
			return s, nil
		}
		failed = append(failed, fmt.Errorf("%v: %w", to, plain(err)))
	}
	return nil, errors.Join(failed...)
}

func dialSocket(ctx context.Context, to address, opts Options, certificate bool, deadline time.Time) (net.Conn, error) {
	socket, err := (&net.Dialer{Deadline: deadline}).DialContext(ctx, "tcp", net.JoinHostPort(to.uri.Host, strconv.Itoa(to.uri.Port)))
	if err != nil || to.uri.Scheme != encrypted {
		return socket, err
	}
	cfg := opts.TLS
	if cfg == nil {
		cfg, err = tlsOf(to.uri)
	}
	if err == nil {
		if cfg = cfg.Clone(); !certificate {
			cfg.Certificates, cfg.GetClientCertificate = nil, nil
		}
		if err = socket.SetDeadline(deadline); err == nil {
			var s net.Conn
			if s, err = secure(socket, to.uri, cfg); err == nil {
				return s, s.SetDeadline(time.Time{})
			}
		}
	}
	_ = socket.Close()
	return nil, err
}
