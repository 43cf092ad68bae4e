package settle

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestSession_Warn: what goes on is said once a minute, and hides nothing else.
func TestSession_Warn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Session{Log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 90 {
			s.Warn("a queue does not answer")
			time.Sleep(time.Second)
		}
		s.Warn("no queue accepts a message")
		assert.Equal(t, 2, strings.Count(log.String(), "does not answer"), log.String())
		assert.Equal(t, 1, strings.Count(log.String(), "accepts"))
	})
}
