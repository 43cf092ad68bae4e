// Package certificate reads the certificate of a server again when its files change.
package certificate

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/delayer-go/delayer/internal/lib/engine"
)

// Files names files in PEM: both or none.
type Files struct {
	CertFile string `yaml:"cert_file"`
	KeyFile  string `yaml:"key_file"`
}

// Half reports whether one of the files is missing.
func (f Files) Half() bool { return (f.CertFile == "") != (f.KeyFile == "") }

// A Certificate is the one that was last read.
type Certificate struct {
	key     string // of the configuration, for errors
	files   Files
	current atomic.Pointer[tls.Certificate]
}

// Open reads the files that a key of the configuration names; nil if it names none. The error is
// ErrConfig.
func Open(key string, files Files) (*Certificate, error) {
	if files.CertFile == "" {
		return nil, nil
	}
	c := &Certificate{key: key, files: files}
	return c, c.Read()
}

// Read reads the files again. After an error the certificate from before stays.
func (c *Certificate) Read() error {
	pair, err := tls.LoadX509KeyPair(c.files.CertFile, c.files.KeyFile)
	if err != nil {
		return engine.ConfigError(c.key, err, "give a certificate and its key in PEM")
	}
	c.current.Store(&pair)
	return nil
}

// Config is for a server: each connection gets the certificate of the moment.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return c.current.Load(), nil
	}}
}
