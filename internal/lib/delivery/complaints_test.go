package delivery

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// TestComplaints: what goes on is said once a minute, and hides nothing else.
func TestComplaints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var c Complaints
		to := slog.New(slog.NewTextHandler(&log, nil))
		for range 90 {
			c.Warn(to, "a queue does not answer")
			time.Sleep(time.Second)
		}
		c.Warn(to, "no queue accepts a message")
		assert.Equal(t, 2, strings.Count(log.String(), "does not answer"), log.String())
		assert.Equal(t, 1, strings.Count(log.String(), "accepts"))
	})
}
