package engine

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/topology"
)

// TestProblems_TLSFiles: the management API is trusted by the same files as the broker.
func TestProblems_TLSFiles(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"items":[],"page_count":1}`))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, authority, 0o600))
	s, err := Resolve(delayer.Options{
		URL: "amqps://u:p@h/", TLSFiles: delayer.TLSFiles{CAFile: file}, Management: strings.Replace(server.URL, "://", "://u:p@", 1),
	}, "")
	require.NoError(t, err)
	_, err = s.Problems(t.Context(), topology.Plan{Queues: []topology.Queue{{Name: "delayer.q"}}})
	require.NoError(t, err)
}
