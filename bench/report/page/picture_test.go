package page_test

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

	"github.com/delayer-go/delayer/bench"
	"github.com/delayer-go/delayer/bench/report/page"
)

func TestPictureIsSVGThatStandsAlone(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, page.WritePicture(&out, full()))
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
		"per-message-ttl", "binaryladder source", "172 µs"} {
		assert.Contains(t, out.String(), want)
	}
	assert.NotContains(t, out.String(), "var(", "an image has no page to take colours from")
}

func TestNoPictureOfNothing(t *testing.T) {
	report := &bench.Report{Runs: []bench.Run{{Scenario: "recovery", Backend: "b"}}}
	assert.ErrorIs(t, page.WritePicture(io.Discard, report), page.ErrNoPicture)
	assert.ErrorIs(t, page.WritePicture(io.Discard, &bench.Report{}), page.ErrNoPicture)
	broken := errors.New("broken pipe")
	assert.ErrorIs(t, page.WritePicture(failing{broken}, full()), broken)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
