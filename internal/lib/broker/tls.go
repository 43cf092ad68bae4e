package broker

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// secure begins TLS on a socket, as amqp091-go does for amqps. Done here, what reads and writes
// frames can be between the two. The broker's certificate must be for the host of the address
// unless cfg, or the address, has another name. cfg is not changed; nil takes what the parameters
// of the address say.
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

// tlsOf reads what the parameters of an address say: cacertfile, certfile and keyfile, and
// server_name_indication.
func tlsOf(to amqp091.URI) (*tls.Config, error) {
	cfg := &tls.Config{ServerName: to.ServerName, MinVersion: tls.VersionTLS12}
	if to.CACertFile != "" {
		text, err := os.ReadFile(to.CACertFile)
		if err != nil {
			return nil, fmt.Errorf("cacertfile: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("cacertfile: %s holds no certificate in PEM", to.CACertFile)
		}
	}
	if to.CertFile != "" && to.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(to.CertFile, to.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("certfile and keyfile: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}
