// Package proxy stands between AMQP 0-9-1 clients and the broker. Clients declare exchanges of type
// x-delayed-message and publish with x-delay, as they did with the plugin; the broker needs none.
//
// Each client has a connection of its own to the broker, and logs in there itself. All frames pass as
// they are, but for these:
//
//   - exchange.declare of the plugin's type declares an exchange of the type that is in its
//     arguments, and an exchange in front of it: see [entry.InFront].
//   - basic.publish of a message with a delay to such an exchange goes to the one in front of it.
//   - exchange.delete of such an exchange also deletes the one in front of it, and exchange.bind to
//     one is refused: what comes through a binding cannot be delayed.
//
// A process knows by asking the broker which exchanges are delayed, so any number may run.
package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer/internal/app/certificate"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/internal/lib/frame"
	"github.com/delayer-go/delayer/internal/lib/pace"
)

// Config is the section serve.amqp of a configuration.
type Config struct {
	// Listen is a host and a port. Empty: there is no proxy.
	Listen string `yaml:"listen"`
	// TLS has the files of the certificate. Without them there is no encryption.
	TLS certificate.Files `yaml:"tls"`
	// MaxConnections is how many clients are connected at a time. Others are told so, and
	// disconnected. Default: 1000.
	MaxConnections int `yaml:"max_connections"`
	// TakeOver delays what is published to exchanges that are still the plugin's, once a client has
	// declared them again. Otherwise the plugin does.
	TakeOver bool `yaml:"take_over"`
}

// DefaultConfig is a configuration without an address.
func DefaultConfig() Config { return Config{MaxConnections: 1000} }

const mostConnections = 1 << 16

// Check returns what is wrong, as ErrConfig.
func (c Config) Check() error {
	fail := func(key, cause, hint string) error {
		return engine.ConfigError("serve.amqp."+key, errors.New(cause), hint)
	}
	if c.Listen == "" {
		if c != DefaultConfig() {
			return fail("listen", "there is no address to listen at", "write listen: 127.0.0.1:5673")
		}
		return nil
	}
	_, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		return engine.ConfigError("serve.amqp.listen", err, "write a host and a port, such as 127.0.0.1:5673")
	case c.TLS.Half():
		return fail("tls", "one of cert_file and key_file is missing", "give both or none")
	case c.MaxConnections <= 0 || c.MaxConnections > mostConnections:
		return fail("max_connections", fmt.Sprintf("%d is not between 1 and %d", c.MaxConnections, mostConnections), "leave it out for 1000")
	}
	return nil
}

// Parts are what a proxy is made of, beside its configuration.
type Parts struct {
	// Dial connects to the broker, up to TLS. certificate says whether to show the one of delayer
	// serve, by which the broker may know its user.
	Dial func(ctx context.Context, certificate bool) (net.Conn, error)
	// Fronts are the exchanges in front of those that are delayed.
	Fronts Fronts
	// Vhost is the virtual host of Fronts: only there exchanges are delayed.
	Vhost string
	// Counted is called for what happens: Declared, Diverted or Passed.
	Counted func(what string)
	// Connected is called when a client has come (1) or gone (-1).
	Connected func(change int)
	Log       *slog.Logger
}

// What is counted.
const (
	Declared = "declared" // a delayed exchange
	Diverted = "diverted" // a message with a delay, to the exchange in front
	Passed   = "passed"   // any other message
)

// A Proxy takes connections.
type Proxy struct {
	Parts
	takeOver    bool
	listener    net.Listener
	certificate *certificate.Certificate // nil: no TLS
	delayed     *registry
	warnings    pace.Warnings
	places      chan struct{} // one for each client
	turning     chan struct{} // one for each that is being refused
}

// Open listens. Errors say what to do.
func Open(ctx context.Context, cfg Config, parts Parts) (*Proxy, error) {
	cert, err := certificate.Open("serve.amqp.tls", cfg.TLS)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Parts: parts, takeOver: cfg.TakeOver, certificate: cert, delayed: &registry{fronts: parts.Fronts, known: map[string]answer{}},
		places: make(chan struct{}, cfg.MaxConnections), turning: make(chan struct{}, mostRefused),
	}
	if p.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("serve.amqp.listen: %w (give an address of this machine with a free port)", err)
	}
	p.Log.Info("AMQP is served", "amqp", p.listener.Addr().String(), "tls", cert != nil)
	if ip, is := p.listener.Addr().(*net.TCPAddr); is && cert == nil && !ip.IP.IsLoopback() {
		p.Log.Warn("passwords come unencrypted: give serve.amqp.tls, unless something in front of this process encrypts")
	}
	return p, nil
}

const (
	handshakeWithin = 30 * time.Second // for TLS and AMQP, until the virtual host is open
	closeWithin     = 5 * time.Second  // for who is told that its connection ends
	takenWithin     = 30 * time.Second // for the broker to take what a client has left
	writeWithin     = 30 * time.Second // for a client to take what it has asked for
	rereads         = 5 * time.Second  // of the certificate
	mostRefused     = 100              // are told so at a time; others are only disconnected
)

// Serve serves clients until ctx ends. Then it takes no more, tells those that are there that their
// connections end (320), and passes on what they have sent until they have heard it, for some
// seconds.
func (p *Proxy) Serve(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	if p.certificate != nil {
		running.Go(func() {
			for pace.Sleep(ctx, rereads) == nil {
				if err := p.certificate.Read(); err != nil {
					p.warnings.Warn(p.Log, "a certificate cannot be read again; the one from before is valid", "error", err)
				}
			}
		})
	}
	defer context.AfterFunc(ctx, func() { _ = p.listener.Close() })()
	for {
		client, err := p.listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = client.Close()
			}
			return
		}
		if err != nil { // such as too many open files
			p.warnings.Warn(p.Log, "a connection cannot be accepted", "error", err)
			_ = pace.Sleep(ctx, time.Second)
			continue
		}
		running.Go(func() { p.serve(ctx, client) })
	}
}

// serve serves one client until it goes.
func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	defer client.Close()                                                              //nolint:errcheck // whoever is there has been told
	stopping := context.AfterFunc(ctx, func() { _ = client.SetDeadline(time.Now()) }) // until it is connected to the broker
	defer stopping()
	const why = "CONNECTION_FORCED - delayer: "
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
	default:
		p.warnings.Warn(p.Log, "a client is refused: there are as many as serve.amqp.max_connections says", "most", cap(p.places))
		select {
		case p.turning <- struct{}{}:
			defer func() { <-p.turning }()
			_ = client.SetDeadline(time.Now().Add(closeWithin))
			if in, protocol, err := p.begin(&client); err == nil && protocol == version091 {
				turnAway(client, in, amqp091.NotAllowed, "NOT_ALLOWED - delayer: there are as many connections as serve.amqp.max_connections allows")
			}
		default:
		}
		return
	}
	_ = client.SetDeadline(time.Now().Add(handshakeWithin))
	in, protocol, err := p.begin(&client)
	if err != nil || protocol == unknown || ctx.Err() != nil {
		return
	}
	dialing, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	broker, err := p.Dial(dialing, protocol == version091)
	if err != nil {
		p.warnings.Warn(p.Log, "a client is refused: the broker cannot be reached", "error", err)
		if protocol == version091 {
			turnAway(client, in, amqp091.ConnectionForced, why+"the broker cannot be reached")
		}
		return
	}
	defer broker.Close() //nolint:errcheck // what was written was answered, or the broker is gone
	p.Connected(1)
	defer p.Connected(-1)
	if protocol == version10 {
		stopping()
		copyBoth(ctx, client, in, broker)
		return
	}
	c := newConn(p, client, in, broker)
	stopping()
	defer context.AfterFunc(ctx, func() { c.stop(amqp091.ConnectionForced, why+"it is shutting down") })()
	c.run()
}

// A protocol is what a client speaks.
type protocol int

const (
	unknown protocol = iota
	version091
	version10
)

const header091 = "AMQP\x00\x00\x09\x01"

// begin reads the header of the protocol. That of AMQP 1.0 stays to be read. client becomes what is
// encrypted, if there is a certificate. A client of another protocol gets the header of ours, as from
// a broker.
func (p *Proxy) begin(client *net.Conn) (*bufio.Reader, protocol, error) {
	if p.certificate != nil {
		*client = tls.Server(*client, p.certificate.Config())
	}
	in := bufio.NewReaderSize(*client, bufferSize)
	head, err := in.Peek(len(header091))
	if err != nil {
		return in, unknown, err
	}
	switch id, version := head[4], string(head[5:]); {
	case string(head) == header091:
		_, err = in.Discard(len(header091))
		return in, version091, err
	case string(head[:4]) == "AMQP" && (id == 0 || id == 3) && version == "\x01\x00\x00": // 3: with SASL
		return in, version10, nil
	}
	_, err = (*client).Write([]byte(header091))
	return in, unknown, err
}

// copyBoth passes bytes until both sides have ended, or one has failed.
func copyBoth(ctx context.Context, client net.Conn, in io.Reader, broker net.Conn) {
	_ = client.SetDeadline(time.Time{})
	end := func() { _ = client.Close(); _ = broker.Close() }
	defer context.AfterFunc(ctx, end)()
	var running sync.WaitGroup
	running.Go(func() {
		if _, err := io.Copy(broker, in); err != nil {
			end()
		}
		closeWrite(broker)
		_ = broker.SetReadDeadline(time.Now().Add(closeWithin))
	})
	if _, err := io.Copy(client, broker); err != nil {
		end()
	}
	closeWrite(client)
	_ = client.SetReadDeadline(time.Now().Add(closeWithin))
	running.Wait()
}

// closeWrite says that nothing more comes.
func closeWrite(c net.Conn) {
	if half, is := c.(interface{ CloseWrite() error }); is {
		_ = half.CloseWrite()
	}
}

// turnAway speaks with a client of AMQP 0-9-1 until it opens its virtual host: before that, clients
// do not understand that a connection is closed for a reason.
func turnAway(client net.Conn, in *bufio.Reader, code uint16, text string) {
	_ = client.SetDeadline(time.Now().Add(closeWithin))
	const channels, heartbeat, most = uint16(1), uint16(0), uint32(largestFrame)
	const plain, locale = "\x00\x00\x00\x0ePLAIN AMQPLAIN", "\x00\x00\x00\x05en_US"
	answer, frames := frame.NewMethod(0, frame.Start, byte(0), byte(9), uint32(0), []byte(plain+locale)), frame.Reader{In: in}
	for {
		if answer != nil {
			if _, err := client.Write(answer); err != nil {
				return
			}
		}
		f, err := frames.Read(firstFrame)
		if err != nil {
			return
		}
		switch f.Method() {
		case frame.StartOK:
			answer = frame.NewMethod(0, frame.Tune, channels, most, heartbeat)
		case frame.Open:
			answer = frame.NewMethod(0, frame.Close, code, text, uint32(0))
		case frame.CloseOK:
			return
		default:
			answer = nil
		}
	}
}
