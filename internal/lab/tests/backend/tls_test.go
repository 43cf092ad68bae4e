package backend_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/binaryladder"
	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/internal/app/flags"
	"github.com/delayer-go/delayer/internal/app/servecmd"
	"github.com/delayer-go/delayer/internal/app/service"
	"github.com/delayer-go/delayer/internal/lab/certs"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func encrypted(t *testing.T, ca *certs.Authority) (b *rabbit.Broker, address string) {
	t.Helper()
	cert, key := ca.Issue("server")
	at, err := rabbit.FreeAddress()
	require.NoError(t, err)
	b = rabbittest.Own(t, rabbit.Options{Choice: rabbit.Node, Plugins: []string{byCertificate}, Config: fmt.Sprintf(
		"auth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\nssl_cert_login_from = common_name\nlisteners.ssl.default = %s\nssl_options.cacertfile = %s\nssl_options.certfile = %s\nssl_options.keyfile = %s\n"+
			"ssl_options.verify = verify_peer\nssl_options.fail_if_no_peer_cert = true\n", at, ca.File, cert, key)})
	u, err := url.Parse(b.URL())
	require.NoError(t, err)
	u.Scheme, u.Host = "amqps", at
	return b, u.String()
}

// byCertificate is the plugin with which users log in by a certificate.
const byCertificate = "rabbitmq_auth_mechanism_ssl"

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := certs.New(t, t.TempDir(), "ca"), certs.New(t, t.TempDir(), "stranger")
	cert, key := ca.Issue("client")
	good := delayer.TLSFiles{CAFile: ca.File, CertFile: cert, KeyFile: key}
	node, address := encrypted(t, ca)
	cfg := backend.Config{Options: delayer.Options{URL: address, Prefix: "tls", Logger: silent}, BinaryLadder: binaryladder.Config{Tick: 100 * time.Millisecond, Steps: "100ms,200ms"}}

	_, port, err := net.SplitHostPort(mustParse(t, cfg.URL).Host)
	require.NoError(t, err)
	elsewhere := mustParse(t, cfg.URL)
	elsewhere.Host = "localhost:" + port
	theirs, theirKey := stranger.Issue("client")
	for name, c := range map[string]struct {
		url   string
		files delayer.TLSFiles
		kind  error
		want  string
	}{
		"another authority":        {cfg.URL, delayer.TLSFiles{CAFile: stranger.File, CertFile: cert, KeyFile: key}, delayer.ErrUnavailable, "tls.ca_file"},
		"no authority":             {cfg.URL, delayer.TLSFiles{CertFile: cert, KeyFile: key}, delayer.ErrUnavailable, "tls.ca_file"},
		"another host name":        {elsewhere.String(), good, delayer.ErrUnavailable, "tls.server_name"},
		"another name":             {cfg.URL, delayer.TLSFiles{CAFile: ca.File, CertFile: cert, KeyFile: key, ServerName: "other.test"}, delayer.ErrUnavailable, "tls.server_name"},
		"no certificate":           {cfg.URL, delayer.TLSFiles{CAFile: ca.File}, delayer.ErrAccess, "tls.cert_file"},
		"a stranger's certificate": {cfg.URL, delayer.TLSFiles{CAFile: ca.File, CertFile: theirs, KeyFile: theirKey}, delayer.ErrAccess, "tls.cert_file"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			cfg.URL, cfg.TLSFiles = c.url, c.files
			// A broker that does not like our certificate closes the connection, which may overtake
			// its reason.
			err := until(t, func() error { _, err := backend.Open(within(t), cfg); return err }, func(err error) bool { return errors.Is(err, c.kind) })
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "guest")
		})
	}

	t.Run("publishes", func(t *testing.T) {
		cfg := cfg
		cfg.TLSFiles = good
		address := cfg.URL
		cfg.URL = elsewhere.String() + "," + address // each is held to its own host name
		d := rabbittest.Open(t, cfg)
		pair, err := tls.LoadX509KeyPair(cert, key)
		require.NoError(t, err)
		conn, err := amqp091.DialTLS(address, &tls.Config{RootCAs: ca.Pool, Certificates: []tls.Certificate{pair}})
		require.NoError(t, err)
		defer conn.Close() //nolint:errcheck // the test's end
		ch, err := conn.Channel()
		require.NoError(t, err)
		in := consume(t, ch, "arrivals")
		require.NoError(t, d.Publish(within(t), "", "arrivals", 100*time.Millisecond, amqp091.Publishing{}))
		<-in
	})
	t.Run("by certificate", func(t *testing.T) {
		if !node.HasPlugin(byCertificate) {
			rabbittest.Skipf(t, "this RabbitMQ has no plugin %s", byCertificate)
		}
		for _, ask := range [][]string{{"add_user", "client", "not used"}, {"clear_password", "client"}, {"set_permissions", "client", ".*", ".*", ".*"}} {
			_, err := node.Ctl(within(t), ask...)
			require.NoError(t, err)
		}
		cfg := cfg
		cfg.TLSFiles, cfg.Prefix = good, "certificate"
		at := mustParse(t, cfg.URL)
		at.RawQuery = "auth_mechanism=external"
		at.User = nil
		cfg.URL = at.String()
		d := rabbittest.Open(t, cfg)
		users, err := node.Ctl(within(t), "--silent", "list_connections", "user", "auth_mechanism")
		require.NoError(t, err)
		require.Contains(t, users, "client\tEXTERNAL")
		require.ErrorIs(t, d.Publish(within(t), "", "named", 0, amqp091.Publishing{UserId: "client"}), delayer.ErrInvalid, "it does not know its name")

		at.User = url.User("client") // so it does
		cfg.URL = at.String()
		named := rabbittest.Open(t, cfg)
		in := rabbittest.NewRig(t, node).Queue("named", nil)
		require.NoError(t, named.Publish(within(t), "", in, 0, amqp091.Publishing{UserId: "client"}))
	})
	t.Run("through a proxy", func(t *testing.T) {
		at, err := rabbit.FreeAddress()
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "delayer.yaml")
		own, ownKey := ca.Issue("proxy")
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `url: %s
prefix: proxy
binaryladder: {tick: 100ms, steps: [100ms, 200ms]}
tls: {ca_file: %s, cert_file: %s, key_file: %s}
serve: {amqp: {listen: %q, tls: {cert_file: %s, key_file: %s}}}
`, address, ca.File, cert, key, at, own, ownKey), 0o600))
		ctx, cancel := context.WithCancel(within(t))
		ended := make(chan error, 1)
		go func() {
			serve := servecmd.Serve{Flags: service.Flags{Log: "text"}, Broker: flags.Broker{File: flags.File{Config: file}}}
			ended <- serve.Run(ctx, cli.Streams{Out: io.Discard, Err: io.Discard})
		}()
		defer func() { cancel(); require.NoError(t, <-ended) }()

		trusted := &tls.Config{RootCAs: ca.Pool, MinVersion: tls.VersionTLS12}
		proxied := mustParse(t, address)
		proxied.Host = at
		var conn *amqp091.Connection
		require.NoError(t, until(t, func() (err error) {
			conn, err = amqp091.DialTLS(proxied.String(), trusted)
			return err
		}, func(err error) bool { return err == nil }))
		defer conn.Close() //nolint:errcheck // the test's end
		ch, err := conn.Channel()
		require.NoError(t, err)
		in := consume(t, ch, "proxied")
		require.NoError(t, ch.ExchangeDeclare("proxied", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "fanout"}))
		require.NoError(t, ch.QueueBind("proxied", "", "proxied", false, nil))
		require.NoError(t, ch.Confirm(false))
		began := time.Now()
		confirm, err := ch.PublishWithDeferredConfirm("proxied", "", false, false, amqp091.Publishing{Headers: amqp091.Table{"x-delay": int32(200)}})
		require.NoError(t, err)
		require.True(t, confirm.Wait())
		<-in
		require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)

		// With AMQP 1.0 a client could log in by the certificate of delayer serve, so it is not shown.
		modern, err := tls.Dial("tcp", at, trusted)
		require.NoError(t, err)
		defer modern.Close() //nolint:errcheck // the test's end
		_, err = modern.Write([]byte("AMQP\x03\x01\x00\x00"))
		require.NoError(t, err)
		answer, _ := io.ReadAll(modern)
		require.Empty(t, answer, "the broker takes no connection without a certificate")
	})
	t.Run("by another name", func(t *testing.T) {
		cfg := cfg
		cfg.URL, cfg.TLSFiles = elsewhere.String(), good
		cfg.TLSFiles.ServerName = "rabbit.test"
		rabbittest.Open(t, cfg)
	})
}

func mustParse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	return u
}

func TestTLS_WrongFiles(t *testing.T) {
	ca := certs.New(t, t.TempDir(), "ca")
	cert, key := ca.Issue("client")
	_, otherKey := ca.Issue("other")
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	require.NoError(t, os.WriteFile(garbage, []byte("no certificate"), 0o600))
	const at = "amqps://u:hunter2@127.0.0.1:1/"
	for name, c := range map[string]struct {
		url   string
		files delayer.TLSFiles
		want  string
	}{
		"no such authority":        {at, delayer.TLSFiles{CAFile: "/nowhere/ca.pem"}, "open tls.ca_file: invalid configuration: open /nowhere/ca.pem"},
		"garbage":                  {at, delayer.TLSFiles{CAFile: garbage}, garbage + " holds no certificate"},
		"no key":                   {at, delayer.TLSFiles{CertFile: cert}, "cert_file and key_file go together"},
		"no certificate":           {at, delayer.TLSFiles{KeyFile: key}, "cert_file and key_file go together"},
		"no such certificate":      {at, delayer.TLSFiles{CertFile: "/nowhere/cert.pem", KeyFile: key}, "/nowhere/cert.pem"},
		"another's key":            {at, delayer.TLSFiles{CertFile: cert, KeyFile: otherKey}, "give a certificate and its own key"},
		"not encrypted":            {"amqp://u:hunter2@127.0.0.1:1/", delayer.TLSFiles{CAFile: ca.File}, "write amqps://, or leave out tls"},
		"files in the address too": {at + "?cacertfile=/ca.pem", delayer.TLSFiles{CAFile: ca.File}, "give one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := backend.Open(within(t), backend.Config{Options: delayer.Options{URL: c.url, TLSFiles: c.files}})
			require.ErrorIs(t, err, delayer.ErrConfig)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "hunter2")
		})
	}
	_, err := backend.Open(within(t), backend.Config{Options: delayer.Options{URL: at, TLSFiles: delayer.TLSFiles{CAFile: ca.File}, TLS: &tls.Config{}}})
	require.ErrorIs(t, err, delayer.ErrConfig)
}
