package htmlreport_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/htmlreport"
)

var keep = flag.String("keep", "", "write the pages of the tests' reports into this folder, to look at")

// page writes the report into a file of its own and returns its path and its text.
func page(t *testing.T, name string, r *bench.Report) (path, text string) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, htmlreport.Write(&out, r))
	path = filepath.Join(t.TempDir(), name+".html")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o644))
	if *keep != "" {
		require.NoError(t, os.MkdirAll(*keep, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(*keep, name+".html"), out.Bytes(), 0o644))
	}
	return path, out.String()
}

func TestPage(t *testing.T) {
	page(t, "full", full())
}
