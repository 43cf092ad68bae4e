package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
)

// secure begins TLS on a socket, as amqp091-go does for amqps. Done here, what reads and writes
// frames can be between the two. The broker's certificate must be for the host of the address
// unless cfg, or the address, has another name. cfg is not changed; nil takes what the parameters
// of the address say.
func secure(socket net.Conn, to amqp091.URI, cfg *tls.Config) (net.Conn, error) {
	if cfg = cfg.Clone(); cfg == nil {
		files := delayer.TLSFiles{CAFile: to.CACertFile, CertFile: to.CertFile, KeyFile: to.KeyFile, ServerName: to.ServerName}
		var err error
		if cfg, err = ReadTLS(files); err != nil {
			return nil, err
		}
	}
	if cfg.ServerName == "" {
		cfg.ServerName = to.Host
	}
	client := tls.Client(socket, cfg)
	return client, client.Handshake()
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
