package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	headersWithin = 5 * time.Second
	idleFor       = 2 * time.Minute
	mostHeader    = 32 << 10
	lookEvery     = 5 * time.Second // at the files, whether they have changed
	drainWithin   = 15 * time.Second
)

// Serve answers requests until ctx ends. Then it takes no more, and waits some seconds for those
// that are under way.
func (a *API) Serve(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.cfg.Listen)
	if err != nil {
		return fmt.Errorf("serve.http.listen: %w (give an address of this machine with a free port)", err)
	}
	server := &http.Server{
		Handler: a, ReadHeaderTimeout: headersWithin, IdleTimeout: idleFor, MaxHeaderBytes: mostHeader,
		WriteTimeout: headersWithin + a.bodyWithin + 2*a.cfg.Timeout,
		ErrorLog:     slog.NewLogLogger(a.Log.Handler(), slog.LevelWarn),
	}
	if a.files.certificate != nil {
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: a.files.certificate.get}
	}
	a.greet(listener.Addr())
	listener = limit(listener, a.cfg.MaxConnections)
	ended := make(chan error, 1)
	go func() { ended <- a.accept(server, listener) }()
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); a.watch(watching) }()
	defer func() { stop(); <-watched }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
	defer cancel()
	if server.Shutdown(drain) != nil {
		_ = server.Close()
	}
	return <-ended
}

func (a *API) accept(server *http.Server, listener net.Listener) error {
	serve := server.Serve
	if a.files.certificate != nil {
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the HTTP API: %w", err)
	}
	return nil
}

// greet says who may come.
func (a *API) greet(at net.Addr) {
	a.Log.Info("the HTTP API is served", "http", at.String(), "tls", a.files.certificate != nil)
	host, _, _ := net.SplitHostPort(a.cfg.Listen)
	switch {
	case a.files.tokens == nil:
		a.Log.Warn("there is no file of tokens: every user of this machine may publish to every exchange and queue")
	case a.files.certificate == nil && !loopback(host):
		a.Log.Warn("tokens come unencrypted: give serve.http.tls, unless something in front of this process encrypts")
	}
}

// watch reads the files again when they have changed: every few seconds, and at once after SIGHUP.
func (a *API) watch(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	every := time.NewTicker(lookEvery)
	defer every.Stop()
	reports := map[string]string{}
	for {
		a.reread(reports)
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		case <-hangup:
		}
	}
}

// reread says once what has changed or gone wrong. What was read before stays valid.
func (a *API) reread(failed map[string]string) {
	look := func(what string, read func() (bool, error)) {
		changed, err := read()
		switch {
		case err != nil && failed[what] != err.Error():
			failed[what] = err.Error()
			a.Log.Error("a file cannot be read again; what it said before is valid", "what", what, "error", err)
		case changed:
			a.Log.Info("a file has changed, and was read", "what", what)
		}
		if err == nil {
			delete(failed, what)
		}
	}
	if a.files.tokens != nil {
		look("tokens", a.files.tokens.Read)
	}
	if a.files.certificate != nil {
		look("certificate", a.files.certificate.read)
	}
}
