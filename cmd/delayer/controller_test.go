package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestController: without one messages wait, and it ends in good order when it is told to.
func TestController(t *testing.T) {
	t.Parallel()
	url, prefix := rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	config := configFile(t, "url: "+url+"\nprefix: "+prefix+"\nbackend: controller\ncontroller: {wheel: rounds, tick: 100ms, run: false}\n")
	in := consume(t, channel(t, url), prefix+"-queue")
	status, _, stderr := command(t.Context(), t, "send", "--config", config, "--key", prefix+"-queue", "--delay", "50ms", "--body", "later")
	require.Equal(t, exitOK, status, stderr)
	select {
	case <-in:
		t.Fatal("delivered by no controller")
	case <-time.After(300 * time.Millisecond): // what cannot be signalled: that nothing happens
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out, errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"controller", "--config", config}, strings.NewReader(""), &out, &errs)
	}()
	require.Equal(t, "later", string((<-in).Body))
	stop()
	require.Equal(t, exitOK, <-ended, errs.String())
	require.Empty(t, out.String())
	require.Contains(t, errs.String(), "controller has stopped")
}

func TestController_OtherBackend(t *testing.T) {
	config := configFile(t, "url: amqp://guest:hunter2@127.0.0.1:1/\nbackend: fixedtiers\n")
	status, _, stderr := command(t.Context(), t, "controller", "--config", config)
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "delayer controller: open backend: invalid configuration: fixedtiers needs no controller (set backend: controller)")
	status, _, stderr = command(t.Context(), t, "controller")
	require.Equal(t, exitFailed, status)
	require.Contains(t, stderr, "set DELAYER_URL")
}
