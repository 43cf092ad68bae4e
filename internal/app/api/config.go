package api

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"time"

	"github.com/delayer-go/delayer/internal/app/certificate"
	"github.com/delayer-go/delayer/internal/app/tokens"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

// Config is the section serve.http of a configuration.
type Config struct {
	// Listen is a host and a port. Empty: there is no HTTP API.
	Listen string `yaml:"listen"`
	// Tokens is a file that says who may do what: see package tokens. Without one Listen must be of
	// this machine alone, and whoever reaches it may do all.
	Tokens string `yaml:"tokens"`
	// Page says that there is a page for browsers at /. Without Tokens it only shows.
	Page bool `yaml:"page"`
	// TLS has the files of the certificate. Without them there is no encryption.
	TLS certificate.Files `yaml:"tls"`
	// MaxBody is how many bytes the body of a request has at most. Default: 1 MiB.
	MaxBody int `yaml:"max_body"`
	// MaxConnections is how many connections are open at a time, each with one request. Others wait
	// until one closes. Default: 500.
	MaxConnections int `yaml:"max_connections"`
	// Timeout is how long a request waits for the broker. Default: 10s.
	Timeout time.Duration `yaml:"timeout"`

	bodyWithin time.Duration // how long the body of a request may take to come
	rereads    time.Duration // how often files are read again
}

// DefaultConfig is a configuration without an address.
func DefaultConfig() Config {
	return Config{
		MaxBody: 1 << 20, MaxConnections: 500, Timeout: 10 * time.Second, bodyWithin: 10 * time.Second, rereads: 5 * time.Second,
	}
}

const (
	mostBody        = 128 << 20 // RabbitMQ takes no more
	mostConnections = 1 << 16
	mostTimeout     = 10 * time.Minute
)

// Check returns what is wrong, as ErrConfig.
func (c Config) Check() error {
	fail := func(key, hint, format string, args ...any) error {
		return engine.ConfigError("serve.http."+key, fmt.Errorf(format, args...), hint)
	}
	if c.Listen == "" {
		if !reflect.DeepEqual(c, DefaultConfig()) {
			return fail("listen", "write listen: 127.0.0.1:8081", "there is no address to listen at")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		return engine.ConfigError("serve.http.listen", err, "write a host and a port, such as 127.0.0.1:8081")
	case c.Tokens == "" && !loopback(host):
		return fail("tokens", "give a file of tokens, or listen at 127.0.0.1", "there is none, and everybody who reaches %s could publish", c.Listen)
	case c.TLS.Half():
		return fail("tls", "give both or none", "one of cert_file and key_file is missing")
	case c.MaxBody <= 0 || c.MaxBody > mostBody:
		return fail("max_body", "leave it out for 1048576", "%d is not between 1 and %d", c.MaxBody, mostBody)
	case c.MaxConnections <= 0 || c.MaxConnections > mostConnections:
		return fail("max_connections", "leave it out for 500", "%d is not between 1 and %d", c.MaxConnections, mostConnections)
	case c.Timeout <= 0 || c.Timeout > mostTimeout:
		return fail("timeout", "leave it out for 10s", "%s is not between 0 and %s", c.Timeout, mostTimeout)
	}
	return nil
}

// loopback reports whether only this machine reaches a host.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// Files are what a Config names. They are read before anything is served, and then again and again.
type Files struct {
	Tokens      *tokens.File             // nil: everybody may do all
	certificate *certificate.Certificate // nil: no TLS
}

// Open reads the files. Errors are ErrConfig.
func (c Config) Open() (f Files, err error) {
	if c.Tokens != "" {
		if f.Tokens, err = tokens.Open(c.Tokens); err != nil {
			return f, err
		}
	}
	f.certificate, err = certificate.Open("serve.http.tls", c.TLS)
	return f, err
}
