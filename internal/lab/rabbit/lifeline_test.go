package rabbit

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type input struct{ strings.Builder }

func (*input) Close() error { return nil }

type brokenInput struct{ io.WriteCloser }

func (brokenInput) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestLifelineTellsTheServersOutputFromTheScripts(t *testing.T) {
	l := newLifeline()
	in := &input{}
	l.in = in
	require.NoError(t, l.run())
	assert.Equal(t, "run\n", in.String())

	// However the output is cut.
	for _, piece := range []string{"\x1b[38;5;160mStarting br", "oker…\x1b[0m\n@dela", "yer up 12\r\n@delayer usage 3 4\nhalf"} {
		n, err := l.Write([]byte(piece))
		require.NoError(t, err)
		assert.Equal(t, len(piece), n)
	}
	assert.Equal(t, "Starting broker…", l.logTail())
	fields, err := l.answer("usage", nil)
	require.NoError(t, err)
	assert.Equal(t, []string{"3", "4"}, fields, "an answer to another question is passed over")

	ended := l.ended()
	select {
	case <-ended:
		t.Fatal("ended before the script said so")
	default:
	}
	_, _ = l.Write([]byte(" a line\n@delayer down 137\n@delayer down 137\n"))
	<-ended
}

func TestLifelineKeepsComplaints(t *testing.T) {
	l := newLifeline()
	_, _ = l.Write([]byte("[info] <0.1.0> closing AMQP connection\n" +
		"\x1b[38;5;160m[error] <0.1.0> missed heartbeats from client, timeout: 10s\x1b[0m\n" +
		"[error] <0.2.0> Channel error on connection <0.1.0>, channel 1:\n" +
		"[error] <0.2.0> operation queue.declare caused a channel exception not_found: no queue\n" +
		"[error] <0.3.0> operation basic.ack caused a channel exception precondition_failed: unknown delivery tag 1\n" +
		strings.Repeat("[info] more\n", tailLines)))
	assert.Equal(t, []string{
		"[error] <0.1.0> missed heartbeats from client, timeout: 10s",
		"[error] <0.3.0> operation basic.ack caused a channel exception precondition_failed: unknown delivery tag 1",
	}, l.complaints())
	for i := range 2 * mostTrouble {
		_, _ = fmt.Fprintf(l, "[warning] <0.5.%d> again\n", i)
	}
	assert.Len(t, l.complaints(), mostTrouble)
}

func TestLifelineWhoseScriptIsGone(t *testing.T) {
	l := newLifeline()
	l.in = brokenInput{}
	require.ErrorIs(t, l.run(), io.ErrClosedPipe)
	<-l.ended() // a server that was never started is not running

	gone := make(chan struct{})
	close(gone)
	_, _ = l.Write([]byte("its last words\n"))
	_, err := l.answer("up", gone)
	require.ErrorContains(t, err, "its last words")
	assert.False(t, errors.Is(err, ErrNone))
}
