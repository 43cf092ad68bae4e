package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/bench/report"
)

func TestPictureIsSVGThatStandsAlone(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, full().WritePicture(&out))
	if *keep != "" {
		require.NoError(t, os.WriteFile(filepath.Join(*keep, "picture.svg"), out.Bytes(), 0o644))
	}
	for decoder := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
		if _, err := decoder.Token(); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	for _, want := range []string{"✕ late", "✓ in time", "What a message costs the broker", "RabbitMQ 3.10.8, 2 cores, quorum queues",
		"per-message-ttl", "binaryladder", "172 µs"} {
		assert.Contains(t, out.String(), want)
	}
	assert.NotContains(t, out.String(), "var(", "an image has no page to take colours from")
}

func TestNoPictureOfNothing(t *testing.T) {
	nothing := &report.Report{Runs: []report.Run{{Scenario: "recovery", Backend: "b"}}}
	assert.ErrorIs(t, nothing.WritePicture(io.Discard), report.ErrNoPicture)
	assert.ErrorIs(t, (&report.Report{}).WritePicture(io.Discard), report.ErrNoPicture)
	broken := errors.New("broken pipe")
	assert.ErrorIs(t, full().WritePicture(failing{broken}), broken)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
