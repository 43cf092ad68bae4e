package rabbit

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOutput: a script's lines are told from its server's, however the output is cut.
func TestOutput(t *testing.T) {
	s := &server{output: output{down: make(chan struct{}), answers: make(chan []string, 16)}}
	for _, piece := range []string{"\x1b[38;5;160mStarting br", "oker…\x1b[0m\n@dela", "yer up 12\r\n@delayer usage 3 4\nhalf"} {
		n, err := s.Write([]byte(piece))
		require.NoError(t, err)
		assert.Equal(t, len(piece), n)
	}
	assert.Equal(t, "Starting broker…", s.logTail())
	fields, err := s.answer("usage")
	require.NoError(t, err)
	assert.Equal(t, []string{"3", "4"}, fields, "an answer to another question is passed over")
	require.True(t, s.running())
	_, _ = s.Write([]byte(" a line\n@delayer down 137\n@delayer down 137\n"))
	require.False(t, s.running())

	_, _ = s.Write([]byte("[info] <0.1.0> closing AMQP connection\n" +
		"\x1b[38;5;160m[error] <0.1.0> missed heartbeats from client, timeout: 10s\x1b[0m\n" +
		"[error] <0.2.0> operation queue.declare caused a channel exception not_found: no queue\n" +
		"[error] <0.3.0> operation basic.ack caused a channel exception precondition_failed: unknown delivery tag 1\n"))
	assert.Equal(t, []string{
		"[error] <0.1.0> missed heartbeats from client, timeout: 10s",
		"[error] <0.3.0> operation basic.ack caused a channel exception precondition_failed: unknown delivery tag 1",
	}, s.complaints())
	for i := range 2 * mostTrouble {
		_, _ = fmt.Fprintf(&s.output, "[warning] <0.5.%d> again\n", i)
	}
	assert.Len(t, s.complaints(), mostTrouble)
}
