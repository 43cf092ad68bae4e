package faults

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A Proxy is a TCP proxy between clients and a broker that breaks connections as networks do.
type Proxy struct{ proxy *toxiproxy.Proxy }

// A Mode is what a Proxy does with the connections it has, and with new ones.
type Mode string

const (
	// Pass lets all bytes through.
	Pass Mode = ""
	// HalfOpen swallows all bytes and closes nothing, as a host that lost its power. The
	// connections are closed when the mode changes.
	HalfOpen Mode = "timeout"
	// Slow lets through 1 KB a second in each direction of each connection.
	Slow Mode = "bandwidth"
	// Down closes all connections and refuses new ones.
	Down Mode = "down"
)

// NewProxy listens on a port of the loopback interface for connections to a broker.
func NewProxy(broker string) (*Proxy, error) {
	at, err := url.Parse(broker)
	if err != nil {
		return nil, errors.New("faults: proxy: the URL is malformed")
	}
	zerolog.SetGlobalLevel(zerolog.WarnLevel) // some of the library logs elsewhere than it is told
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &Proxy{toxiproxy.NewProxy(server, "broker", "127.0.0.1:0", at.Host)}
	return p, p.proxy.Start()
}

// URL is the broker's URL with the proxy's address in place of the broker's.
func (p *Proxy) URL(broker string) string {
	at, err := url.Parse(broker)
	if err != nil {
		return ""
	}
	at.Host = p.proxy.Listen
	return at.String()
}

// Set changes the mode.
func (p *Proxy) Set(m Mode) {
	if m == Down {
		p.proxy.Stop()
		return
	}
	if err := p.proxy.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		panic(err) // another process has taken the port
	}
	p.proxy.Toxics.ResetToxics(context.Background())
	if m == Pass {
		return
	}
	for _, direction := range []string{"upstream", "downstream"} {
		toxic := `{"type": "` + string(m) + `", "stream": "` + direction + `", "attributes": {"rate": 1, "timeout": 0}}`
		if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			panic(err) // the text above is not what the library expects
		}
	}
}

// Cut closes all connections in good order (FIN), and takes new ones.
func (p *Proxy) Cut() {
	p.Set(Down)
	p.Set(Pass)
}

// Close closes all connections and the listener.
func (p *Proxy) Close() { p.proxy.Stop() }
