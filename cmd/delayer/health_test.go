package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealth(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			http.Error(w, "the broker is away", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	}))
	defer http.DefaultClient.CloseIdleConnections()
	status, stdout, stderr := command(t.Context(), t, "health", server.URL+"/healthz")
	require.Equal(t, exitOK, status, stderr)
	require.Equal(t, "ok\n", stdout)
	status, _, stderr = command(t.Context(), t, "health", server.URL+"/readyz")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "503 Service Unavailable: the broker is away")
	server.Close()
	status, _, stderr = command(t.Context(), t, "health", server.URL+"/healthz")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "does the command run with --listen?")
}
