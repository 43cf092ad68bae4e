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
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/topology"
)

func TestLimits_BelongToTheCaller(t *testing.T) {
	e := &Engine{limits: delayer.Limits{Tiers: []time.Duration{time.Minute}}}
	e.Limits().Tiers[0] = time.Nanosecond
	require.Equal(t, []time.Duration{time.Minute}, e.Limits().Tiers)
}

func TestFit(t *testing.T) {
	tiers := []time.Duration{time.Minute, 5 * time.Minute}
	all, up := delayer.Limits{Max: time.Hour}, delayer.Limits{Max: 5 * time.Minute, Tiers: tiers}
	exact := up
	exact.ExactTiers = true
	for _, c := range []struct {
		delay  time.Duration
		limits delayer.Limits
		want   time.Duration
		err    string
	}{
		{0, all, 0, ""},
		{1, all, 1, ""},
		{time.Hour, all, time.Hour, ""},
		{time.Hour + 1, all, 0, "1h0m0.000000001s is longer than 1h0m0s"},
		{36*time.Hour + 1, delayer.Limits{Max: 36 * time.Hour}, 0, "36h0m0s, the longest"},
		{11 * year, delayer.Limits{Max: 10 * year}, 0, "11 years is longer than 10 years, the longest delay of this configuration: use a shorter delay, or backend controller, which reaches 200 years"},
		{201 * year, delayer.Limits{Max: farthest}, 0, "201 years is longer than 200 years, the longest delay of this configuration: use a shorter delay"},
		{-1, all, 0, "-1ns is negative"},
		{0, up, 0, ""},
		{1, up, time.Minute, ""},
		{time.Minute, up, time.Minute, ""},
		{time.Minute + 1, up, 5 * time.Minute, ""},
		{5*time.Minute + 1, up, 0, "is longer than 5m0s"},
		{time.Minute, exact, time.Minute, ""},
		{time.Second, exact, 0, "1s is none of the tiers 1m0s, 5m0s, and rounding is exact"},
		{0, exact, 0, ""},
	} {
		got, err := fit(c.delay, c.limits)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, "%v", c.delay)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%v", c.delay)
	}
}

func TestMaxPriority(t *testing.T) {
	for _, c := range []struct {
		version string
		kind    delayer.QueueType
		want    uint8
	}{
		{"3.10.8", delayer.Quorum, 255},
		{"3.13.7", delayer.Quorum, 255},
		{"4.0.5", delayer.Quorum, 4},
		{"4.2.0-rc.1", delayer.Quorum, 4},
		{"4.3.6", delayer.Quorum, 255},
		{"4.10.0", delayer.Quorum, 255},
		{"5.0.0", delayer.Quorum, 255},
		{"4.0.5", delayer.Classic, 255},
		{"", delayer.Quorum, 4},
	} {
		require.Equal(t, c.want, maxPriority(c.version, c.kind), "%s %s", c.version, c.kind)
	}
}

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
