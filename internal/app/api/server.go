package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/delayer-go/delayer/internal/lib/pace"
)

const (
	headersWithin = 5 * time.Second
	idleFor       = 2 * time.Minute
	mostHeader    = 32 << 10
	drainWithin   = 15 * time.Second
)

// Serve answers requests until ctx ends. Then it takes no more, and waits some seconds for those
// that are under way.
func (a *API) Serve(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.cfg.Listen)
	if err != nil {
		return fmt.Errorf("serve.http.listen: %w (give an address of this machine with a free port)", err)
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // where nobody reads the body, net/http does, before the answer goes out
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(a.cfg.bodyWithin))
		}
		a.ServeHTTP(w, r)
	}
	server := &http.Server{
		Handler: http.HandlerFunc(handler), ReadHeaderTimeout: headersWithin, IdleTimeout: idleFor, MaxHeaderBytes: mostHeader,
		WriteTimeout: headersWithin + a.cfg.bodyWithin + 2*a.cfg.Timeout,
		ErrorLog:     slog.NewLogLogger(a.Log.Handler(), slog.LevelWarn),
	}
	server.Protocols = new(http.Protocols) // HTTP/2 has many requests on a connection
	server.Protocols.SetHTTP1(true)
	if a.files.certificate != nil {
		server.TLSConfig = a.files.certificate.Config()
	}
	a.Log.Info("the HTTP API is served", "http", listener.Addr().String(), "tls", a.files.certificate != nil)
	host, _, _ := net.SplitHostPort(a.cfg.Listen)
	switch {
	case a.files.Tokens == nil:
		a.Log.Warn("there is no file of tokens: every user of this machine may publish to every exchange and queue")
	case a.files.certificate == nil && !loopback(host):
		a.Log.Warn("tokens come unencrypted: give serve.http.tls, unless something in front of this process encrypts")
	}
	listener = netutil.LimitListener(listener, a.cfg.MaxConnections)
	serve := server.Serve
	if a.files.certificate != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(listener) }()
	watching, stop := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() { a.watch(watching) })
	defer watched.Wait()
	defer stop()
	select {
	case err := <-ended:
		return fmt.Errorf("the HTTP API: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
	defer cancel()
	if server.Shutdown(drain) != nil {
		_ = server.Close()
	}
	<-ended //nolint:errcheck // http.ErrServerClosed
	return nil
}

// watch reads the files again, every few seconds. What was read before stays valid where that fails.
func (a *API) watch(ctx context.Context) {
	var warnings pace.Warnings
	for pace.Sleep(ctx, a.cfg.rereads) == nil {
		var failed []error
		if a.files.Tokens != nil {
			failed = append(failed, a.files.Tokens.Read())
		}
		if a.files.certificate != nil {
			failed = append(failed, a.files.certificate.Read())
		}
		if err := errors.Join(failed...); err != nil {
			warnings.Warn(a.Log, "a file cannot be read again; what it said before is valid", "error", err)
		}
	}
}
