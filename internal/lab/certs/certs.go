// Package certs makes certificates for tests.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An Authority issues certificates into files of a folder.
type Authority struct {
	File string // of its own certificate
	Pool *x509.CertPool

	t      testing.TB
	folder string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
}

// New makes an authority.
func New(t testing.TB, folder, name string) *Authority {
	t.Helper()
	a := &Authority{t: t, folder: folder, key: newKey(t), Pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	require.NoError(t, err)
	a.cert, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	a.Pool.AddCert(a.cert)
	a.File = a.write(name, "CERTIFICATE", der)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func (a *Authority) write(name, kind string, der []byte) string {
	path := filepath.Join(a.folder, name+".pem")
	require.NoError(a.t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}

// Issue writes a certificate for 127.0.0.1 and rabbit.test, and its key, in place of those that the
// folder has of that name.
func (a *Authority) Issue(name string) (cert, key string) {
	own := newKey(a.t)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"rabbit.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.cert, own.Public(), a.key)
	require.NoError(a.t, err)
	secret, err := x509.MarshalECPrivateKey(own)
	require.NoError(a.t, err)
	return a.write(name, "CERTIFICATE", der), a.write(name+"-key", "EC PRIVATE KEY", secret)
}
