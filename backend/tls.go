package backend

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/delayer-go/delayer/internal/broker"
)

// TLS names the files for amqps:// addresses. The broker's certificate and host name are always verified.
type TLS struct {
	// CAFile holds the certificates (PEM) of the authorities that the broker's certificate may come from. Default: the
	// system's.
	CAFile string `yaml:"ca_file"`
	// CertFile and KeyFile are our own certificate and its key (PEM), for a broker that asks for one. Default: none.
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
	// ServerName is the name that the broker's certificate must have. Default: the host of the address.
	ServerName string `yaml:"server_name"`
}

// TLSConfig is what to connect with at amqps:// addresses: Config.TLS, or what Config.TLSFiles say; nil leaves it to the
// addresses. Errors are ErrConfig and name the file.
func (c Config) TLSConfig() (*tls.Config, error) {
	if c.TLSFiles == (TLS{}) {
		return c.TLS, nil
	}
	if c.TLS != nil {
		return nil, configError("tls", errors.New("there are files, and a Config.TLS"), "give one of them")
	}
	if err := broker.WantTLS(c.URL); err != nil {
		return nil, err
	}
	return c.TLSFiles.load()
}

func (f TLS) load() (*tls.Config, error) {
	out := &tls.Config{ServerName: f.ServerName, MinVersion: tls.VersionTLS12}
	if f.CAFile != "" {
		text, err := os.ReadFile(f.CAFile)
		if err != nil {
			return nil, configError("tls.ca_file", err, "give a readable file of certificates in PEM")
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(text) {
			return nil, configError("tls.ca_file", fmt.Errorf("%s holds no certificate", f.CAFile), "give a file of certificates in PEM")
		}
	}
	if (f.CertFile == "") != (f.KeyFile == "") {
		return nil, configError("tls", errors.New("cert_file and key_file go together"), "give both, or neither")
	}
	if f.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(f.CertFile, f.KeyFile)
		if err != nil {
			return nil, configError("tls.cert_file", fmt.Errorf("%s with key_file %s: %w", f.CertFile, f.KeyFile, err), "give a certificate and its own key, both in PEM")
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
