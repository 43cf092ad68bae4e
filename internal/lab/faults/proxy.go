package faults

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// A Proxy is a TCP proxy between a Delayer and its brokers that breaks connections as networks do.
// Its methods are safe for concurrent use.
type Proxy struct {
	listener net.Listener
	targets  []string // host:port, tried in turn

	ctx    context.Context // ended by Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	asked  atomic.Int64 // bytes that clients have sent

	mu      sync.Mutex
	mode    Mode
	changed chan struct{} // closed and replaced when the mode changes
	pipes   map[*pipe]struct{}
}

// A Mode is what a Proxy does with the connections it has, and with new ones.
type Mode int

const (
	// Pass lets all bytes through.
	Pass Mode = iota
	// HalfOpen swallows all bytes in both directions and closes nothing, as a host that lost its
	// power. Connections that were half-open stay so after the mode has changed: bytes of theirs
	// are missing.
	HalfOpen
	// Slow lets through about 1 KB a second in each direction of each connection.
	Slow
	// Down refuses connections; existing connections continue.
	Down
)

// NewProxy listens on a port of the loopback interface for connections to the first of the brokers
// that takes one.
func NewProxy(urls ...string) (*Proxy, error) {
	p := &Proxy{changed: make(chan struct{}), pipes: map[*pipe]struct{}{}}
	for _, raw := range urls {
		at, err := url.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("faults: proxy: one of the URLs is malformed")
		}
		p.targets = append(p.targets, at.Host)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("faults: proxy: %w", err)
	}
	p.listener = l
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// URL is the broker's URL with the proxy's address in place of the broker's.
func (p *Proxy) URL(broker string) string {
	at, err := url.Parse(broker)
	if err != nil {
		return ""
	}
	at.Host = p.listener.Addr().String()
	return at.String()
}

// Set changes the mode, for connections that there are and for new ones.
func (p *Proxy) Set(m Mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = m
	for pipe := range p.pipes {
		pipe.note(m)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) now() (Mode, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.changed
}

// Cut closes all connections in good order (FIN). New ones are taken as before.
func (p *Proxy) Cut() {
	for _, pipe := range p.open() {
		pipe.close()
	}
}

// ResetMidFrame sends the broker a part of what each of the connections sends next, which is not
// the end of a frame, and then resets both sides (RST). New ones are taken as before.
func (p *Proxy) ResetMidFrame() {
	for _, pipe := range p.open() {
		pipe.doomed.Store(true)
	}
}

// Asked is how many bytes clients have sent so far.
func (p *Proxy) Asked() int64 { return p.asked.Load() }

// Connections is how many connections there are.
func (p *Proxy) Connections() int { return len(p.open()) }

func (p *Proxy) open() []*pipe {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*pipe
	for pipe := range p.pipes {
		all = append(all, pipe)
	}
	return all
}

// Close closes all connections and the listener, and returns when no goroutine is left.
func (p *Proxy) Close() {
	p.cancel()
	_ = p.listener.Close()
	p.Cut()
	p.wg.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		if mode, _ := p.now(); mode == Down {
			reset(client)
			continue
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// serve connects to a broker and copies in both directions until either side closes.
func (p *Proxy) serve(client net.Conn) {
	broker, err := p.dial()
	if err != nil {
		reset(client)
		return
	}
	c := &pipe{proxy: p, client: client, broker: broker, closed: make(chan struct{})}
	p.mu.Lock()
	p.pipes[c] = struct{}{}
	c.note(p.mode)
	p.mu.Unlock()
	if p.ctx.Err() != nil {
		c.close()
	}
	p.wg.Go(func() { c.copy(client, broker, true) })
	c.copy(broker, client, false)
	<-c.closed
	p.mu.Lock()
	delete(p.pipes, c)
	p.mu.Unlock()
}

// dial tries the brokers in turn.
func (p *Proxy) dial() (conn net.Conn, err error) {
	const patience = 2 * time.Second
	for _, target := range p.targets {
		d := net.Dialer{Timeout: patience}
		if conn, err = d.DialContext(p.ctx, "tcp", target); err == nil {
			return conn, nil
		}
	}
	return nil, err
}
