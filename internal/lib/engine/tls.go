package engine

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lib/broker"
)

// loadTLS returns the TLS configuration for amqps:// addresses; nil if the addresses have their
// own.
func loadTLS(o delayer.Options) (*tls.Config, error) {
	if o.TLSFiles == (delayer.TLSFiles{}) {
		return o.TLS, nil
	}
	if o.TLS != nil {
		return nil, ConfigError("tls", errors.New("both files and a TLS configuration are given"), "give one of them")
	}
	if err := broker.WantTLS(o.URL); err != nil {
		return nil, err
	}
	return readTLS(o.TLSFiles)
}

func readTLS(f delayer.TLSFiles) (*tls.Config, error) {
	out := &tls.Config{ServerName: f.ServerName, MinVersion: tls.VersionTLS12}
	if f.CAFile != "" {
		text, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, ConfigError("tls.ca_file", err, "give a readable file of certificates in PEM")
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, ConfigError("tls.ca_file", fmt.Errorf("%s holds no certificate", f.CAFile), "give a file of certificates in PEM")
		}
	}
	if (f.CertFile == "") != (f.KeyFile == "") {
		return nil, ConfigError("tls", errors.New("cert_file and key_file go together"), "give both, or neither")
	}
	if f.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			return nil, ConfigError("tls.cert_file", fmt.Errorf("%s with key_file %s: %w", f.CertFile, f.KeyFile, err), "give a certificate and its own key, both in PEM")
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
