package project_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

const (
	plugin        = "rabbitmq_delayed_message_exchange"
	pluginContent = "the plugin"
)

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// pluginMirror answers as the releases' API does.
func pluginMirror(t *testing.T) string {
	type asset struct {
		Name    string `json:"name"`
		Digest  string `json:"digest,omitempty"`
		Address string `json:"browser_download_url"`
	}
	type release struct {
		Tag    string  `json:"tag_name"`
		Assets []asset `json:"assets"`
	}
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	ez := func(version, digest string) release {
		name := plugin + "-" + strings.TrimPrefix(version, "v") + ".ez"
		return release{version, []asset{{"notes.txt", "sha256:" + digestOf("notes"), "x"}, {name, digest, server.URL + "/files/" + name}}}
	}
	mux.HandleFunc("/repos/rabbitmq/rabbitmq-delayed-message-exchange/releases", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode([]release{
			ez("v4.2.0", "sha256:"+digestOf("another")), ez("v4.0.2", "sha256:"+digestOf(pluginContent)), ez("v4.0.10", "sha256:"+digestOf(pluginContent)),
			ez("v4.0.7", "sha256:"+digestOf(pluginContent)), ez("3.10.2", ""), ez("v4.2.0-rc.1", ""), {Tag: "v3.13.0"},
		})
	})
	mux.HandleFunc("/files/", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(pluginContent)) })
	return server.URL
}

// TestInstallPlugin: nothing is installed whose digest is not the expected one.
func TestInstallPlugin(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		rabbittest.Skipf(t, "curl: %v", err)
	}
	api := pluginMirror(t)
	local := filepath.Join(t.TempDir(), "local.ez")
	require.NoError(t, os.WriteFile(local, []byte(pluginContent), 0o600))
	for name, c := range map[string]struct {
		env  string // by spaces
		file string // that is installed; "" for none
		says string
	}{
		"release":              {"SERIES=4.0", plugin + "-4.0.10.ez", "SHA-256 as expected"},
		"own digest":           {"SERIES=3.10 DIGEST=" + digestOf(pluginContent), plugin + "-3.10.2.ez", "rabbitmq-plugins enable " + plugin},
		"API without a digest": {"SERIES=3.10", "", "the API gives no digest"},
		"wrong digest":         {"SERIES=4.2", "", "nothing is installed"},
		"no such series":       {"SERIES=4.1", "", "no release of the plugin is for RabbitMQ 4.1"},
		"4.3":                  {"SERIES=4.3", "", "RabbitMQ 4.3 cannot run the plugin"},
		"not the API":          {"SERIES=4.0 MIRROR=" + api + "/files", "", "no release of the plugin"},
		"local":                {"SERIES=4.0 FILE=" + local + " DIGEST=sha256:" + strings.ToUpper(digestOf(pluginContent)), "local.ez", "installed"},
		"local, no digest":     {"SERIES=4.0 FILE=" + local, "", "a local file needs the digest"},
		"local, wrong digest":  {"SERIES=4.0 FILE=" + local + " DIGEST=" + digestOf("another"), "", "its SHA-256 is " + digestOf(pluginContent)},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			cmd := exec.Command("sh", root+"scripts/install-plugin.sh")
			cmd.Env = append(os.Environ(), "LC_ALL=C", "FOLDER="+folder, "MIRROR="+api)
			cmd.Env = append(cmd.Env, strings.Fields(c.env)...)
			out, err := cmd.CombinedOutput()
			require.Contains(t, string(out), c.says)
			if c.file != "" {
				require.NoError(t, err)
				text, err := os.ReadFile(filepath.Join(folder, c.file))
				require.NoError(t, err)
				require.Equal(t, pluginContent, string(text))
				require.NoError(t, os.Remove(filepath.Join(folder, c.file)))
			} else {
				require.Error(t, err)
			}
			left, err := os.ReadDir(folder)
			require.NoError(t, err)
			require.Empty(t, left)
		})
	}
}
