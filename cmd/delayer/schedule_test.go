package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/app/statuscmd"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestCancel sends, looks, postpones and cancels. A controller runs just until it has counted.
func TestCancel(t *testing.T) {
	t.Parallel()
	url, prefix := rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	config := configFile(t, "url: "+url+"\nprefix: "+prefix+"\nbackend: controller\ncontroller: {wheel: slots, publish_only: true}\n")
	consume(t, channel(t, url), prefix+"-queue")
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		args = append([]string{args[0], "--config", config}, args[1:]...)
		status, stdout, stderr := command(t.Context(), t, args...)
		require.Equal(t, want, status, stderr)
		return stdout, stderr
	}
	t.Cleanup(func() {
		rabbittest.Remove(t, backend.Config{Options: delayer.Options{URL: url, Prefix: prefix}, Backend: controller.Name})
	})
	send := []string{"send", "--key", prefix + "-queue", "--body", "x", "--delay", "1h"}
	text, _ := run(exitOK, send...)
	_, first, ok := strings.Cut(strings.TrimSuffix(text, "\n"), ", ticket ")
	require.True(t, ok, text)
	out, _ := run(exitOK, append(send, "--output", "json")...)
	var sent struct {
		Bytes       int    `json:"bytes"`
		Destination string `json:"destination"`
		Due         time.Time
		Ticket      string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &sent))
	require.Equal(t, 1, sent.Bytes)

	counts, err := controller.Open(t.Context(), delayer.Options{URL: url, Prefix: prefix}, controller.Config{})
	require.NoError(t, err)
	var found statuscmd.Report // slots tell when messages are due
	require.Eventually(t, func() bool {
		out, _ = run(exitOK, "status", "--output", "json")
		require.NoError(t, json.Unmarshal([]byte(out), &found))
		due := found.Backends[0].Due
		return len(due) > 0 && due[0].From.After(time.Now()) // until it is in a slot it is due now
	}, rabbittest.Patience, 100*time.Millisecond)
	require.NoError(t, counts.Close())
	run(exitOK, "status", "--fail-if", "overdue>0")
	require.WithinRange(t, sent.Due, found.Backends[0].Due[0].From.Add(-time.Minute), found.Backends[0].Due[0].To.Add(time.Minute))
	text, _ = run(exitOK, "status")
	require.Contains(t, text, "\nDUE ")

	out, _ = run(exitOK, "postpone", sent.Ticket, "2h", "--output", "json")
	var moved struct{ Due, Ticket string }
	require.NoError(t, json.Unmarshal([]byte(out), &moved))
	require.NotEqual(t, sent.Ticket, moved.Ticket)
	text, _ = run(exitOK, "postpone", moved.Ticket, "2d")
	require.Regexp(t, `^due \d{4}-.*, ticket d2\.\S+\n$`, text)
	_, stderr := run(exitFailed, "postpone", moved.Ticket, "30m")
	require.Contains(t, stderr, "(to make a message earlier: Cancel, and Schedule it anew)")
	_, stderr = run(exitFailed, "postpone", "nonsense", "3h")
	require.Contains(t, stderr, `delayer postpone: postpone controller ticket "nonsense": not a ticket of this Delayer: it is not a ticket, or damaged`)

	text, _ = run(exitOK, "cancel", first, moved.Ticket)
	require.Equal(t, first+"  cancelled\n"+moved.Ticket+"  cancelled\n", text)
	text, stderr = run(exitFailed, "cancel", first, "nonsense")
	require.Contains(t, text, first+"  cancelled\nnonsense  not cancelled: delayer: cancel controller ticket")
	require.Contains(t, stderr, "delayer cancel: not cancelled: 1 of 2 messages")
	named := []string{"--id", "remind/order 17", "--at", time.Now().Add(time.Hour).Format(time.RFC3339)}
	send = append([]string{"send", "--key", prefix + "-queue", "--body", "x"}, named...)
	text, _ = run(exitOK, send...)
	again, _ := run(exitOK, send...)
	require.Equal(t, text, again)
	_, first, ok = strings.Cut(strings.TrimSuffix(text, "\n"), ", message-id remind/order 17, due ")
	require.True(t, ok, text)
	_, first, _ = strings.Cut(first, ", ticket ")
	text, _ = run(exitOK, append([]string{"cancel"}, named...)...)
	require.Equal(t, first+"  cancelled\n", text)
	out, _ = run(exitFailed, "cancel", "nonsense", "--output", "json")
	require.Contains(t, out, `"cancelled": false`)
}
