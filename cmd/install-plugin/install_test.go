package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const content = "the plugin"

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// mirror answers as the releases' API does.
func mirror(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	ez := func(version, digest string) release {
		name := pluginName + "-" + strings.TrimPrefix(version, "v") + ".ez"
		return release{version, []asset{{"notes.txt", "", ""}, {name, server.URL + "/files/" + name, digest}}}
	}
	mux.HandleFunc("/repos/"+repository+"/releases", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode([]release{
			ez("v4.2.0", "sha256:"+digestOf("another")), ez("v4.0.2", "sha256:"+digestOf(content)), ez("v4.0.10", "sha256:"+digestOf(content)),
			ez("v4.0.7", "sha256:"+digestOf(content)), ez("3.10.2", ""), ez("v4.2.0-rc.1", ""), {Tag: "v3.13.0"},
		})
	})
	mux.HandleFunc("/files/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(content)) })
	return server.URL
}

func TestRun(t *testing.T) {
	api := mirror(t)
	local := filepath.Join(t.TempDir(), "local.ez")
	require.NoError(t, os.WriteFile(local, []byte(content), 0o600))
	for name, c := range map[string]struct {
		options
		file string // that is installed; "" for none
		says string
	}{
		"release":              {options{series: "4.0", api: api + "/"}, pluginName + "-4.0.10.ez", "SHA-256 as expected"},
		"own digest":           {options{series: "3.10", api: api, digest: digestOf(content)}, pluginName + "-3.10.2.ez", "rabbitmq-plugins enable " + pluginName},
		"API without a digest": {options{series: "3.10", api: api}, "", "the API gives no digest"},
		"wrong digest":         {options{series: "4.2", api: api}, "", "nothing is installed"},
		"release without file": {options{series: "3.13", api: api}, "", "no release of the plugin is for RabbitMQ 3.13 (there are v4.2.0, v4.0.2"},
		"no such series":       {options{series: "4.1", api: api}, "", "no release of the plugin is for RabbitMQ 4.1"},
		"4.3":                  {options{series: "4.3", api: api}, "", "RabbitMQ 4.3 cannot run the plugin"},
		"unreachable":          {options{series: "4.0", api: "http://127.0.0.1:1"}, "", "the releases cannot be reached"},
		"no API":               {options{series: "4.0", api: api + "/nowhere"}, "", "404"},
		"not the API":          {options{series: "4.0", api: api + "/files"}, "", "no list of releases"},
		"local":                {options{series: "4.0", file: local, digest: "sha256:" + strings.ToUpper(digestOf(content))}, "local.ez", "installed"},
		"local, no digest":     {options{series: "4.0", file: local}, "", "a local file needs the digest"},
		"local, wrong digest":  {options{series: "4.0", file: local, digest: digestOf("another")}, "", "its SHA-256 is " + digestOf(content)},
		"local, not there":     {options{series: "4.0", file: local + "x", digest: "x"}, "", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			c.folder = t.TempDir()
			var out strings.Builder
			err := run(t.Context(), c.options, &out)
			if c.file == "" {
				require.ErrorContains(t, err, c.says)
			} else {
				require.NoError(t, err)
				require.Contains(t, out.String(), c.says)
				text, err := os.ReadFile(filepath.Join(c.folder, c.file))
				require.NoError(t, err)
				require.Equal(t, content, string(text))
				require.NoError(t, os.Remove(filepath.Join(c.folder, c.file)))
			}
			left, err := os.ReadDir(c.folder)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}

func TestInstalled(t *testing.T) {
	root := t.TempDir()
	plugins := filepath.Join(root, "rabbitmq_server-3.10.8", "plugins")
	require.NoError(t, os.MkdirAll(plugins, 0o755))
	patterns := []string{filepath.Join(root, "nowhere"), filepath.Join(root, "rabbitmq_server-*", "plugins")}
	_, _, err := installed(patterns)
	require.ErrorContains(t, err, "SERIES=4.0")
	require.NoError(t, os.WriteFile(filepath.Join(plugins, "rabbit-3.10.8.ez"), nil, 0o600))
	folder, series, err := installed(patterns)
	require.NoError(t, err)
	require.Equal(t, plugins, folder)
	require.Equal(t, "3.10", series)
}

func TestDockerfile(t *testing.T) {
	text := string(dockerfile("4.0", "p.ez"))
	require.Contains(t, text, "FROM rabbitmq:4.0\n")
	require.Contains(t, text, `mv /tmp/p.ez "${rabbit%/*}/"`)
}
