package controller_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/brokertime"
)

// These make the test binary a publisher, or a controller, with these settings in JSON.
const (
	publisherVariable  = "DELAYER_TEST_PUBLISHER"
	controllerVariable = "DELAYER_TEST_CONTROLLER"
)

// stoppedVariable says for how long a publisher is stopped. The default is longer than the turn of
// a slot, and shorter than a broker waits for heartbeats.
const stoppedVariable = "DELAYER_TEST_STOPPED"

type childSettings struct {
	URL, Prefix, Queue string
	Shards             int
}

func settings(tb testing.TB, opts delayer.Options, queue string, shards int) string {
	tb.Helper()
	text, err := json.Marshal(childSettings{opts.URL, opts.Prefix, queue, shards})
	require.NoError(tb, err)
	return string(text)
}

// child runs what the environment asks for. ok is false if that is nothing.
func child() (ok bool, err error) {
	for variable, run := range map[string]func(delayer.Options, childSettings) error{
		publisherVariable: publisherChild, controllerVariable: controllerChild,
	} {
		text := os.Getenv(variable)
		if text == "" {
			continue
		}
		var s childSettings
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return true, err
		}
		return true, run(delayer.Options{URL: s.URL, Prefix: s.Prefix, Logger: slog.New(slog.DiscardHandler)}, s)
	}
	return false, nil
}

// controllerChild delivers until it is killed. For each line of its input it prints how many bytes
// are on its heap, and sets its wall clock if the line says by how much that is ahead.
func controllerChild(opts delayer.Options, s childSettings) error {
	var clock wall
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if ahead, err := time.ParseDuration(in.Text()); err == nil {
				clock.set(ahead)
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			fmt.Println(m.HeapAlloc)
		}
	}()
	return controller.Serve(brokertime.WithWall(context.Background(), clock.shows), controller.Config{Options: opts, Shards: s.Shards})
}

// publisherChild publishes until its input ends, and prints the ids of what was confirmed.
func publisherChild(opts delayer.Options, s childSettings) error {
	d, err := controller.Open(context.Background(), controller.Config{Options: opts, Run: delayer.Off})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("%d-%d", g, i)
				if d.Publish(context.Background(), "", s.Queue, 100*time.Millisecond, amqp091.Publishing{MessageId: id}) == nil {
					fmt.Println(id)
				}
			}
		})
	}
	_, _ = os.Stdin.Read(make([]byte, 1))
	stop()
	all.Wait()
	return d.Close()
}

// slotsPublisherStopped: a publisher is stopped while it has chosen slots and has not written yet,
// until their turns are over. What it then writes is delivered at once, not when the slots have
// their next turn two minutes later.
func slotsPublisherStopped(t *testing.T, w *workbench) {
	if _, err := exec.LookPath("kill"); err != nil {
		rabbittest.Skipf(t, "needs kill: %v", err)
	}
	stopped, err := time.ParseDuration(cmp.Or(os.Getenv(stoppedVariable), "5s"))
	require.NoError(t, err)
	d := w.slots(delayer.On)
	queue, marker := w.queue(), w.queue()
	got, passed := w.Consume(queue), w.Consume(marker)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), publisherVariable+"="+settings(t, w.opts, queue, 1))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	t.Cleanup(func() { _ = child.Process.Kill() }) // fails where it has ended

	signal := func(name string) {
		require.NoError(t, exec.Command("kill", name, strconv.Itoa(child.Process.Pid)).Run())
	}
	confirmed, lines := map[string]bool{}, bufio.NewScanner(out)
	read := func(many int) {
		t.Helper()
		for range many {
			require.True(t, lines.Scan(), "the publisher has ended")
			confirmed[lines.Text()] = true
		}
	}
	read(200)
	signal("-STOP")
	require.NoError(t, d.Publish(t.Context(), "", marker, stopped, amqp091.Publishing{}))
	select {
	case <-passed:
	case <-time.After(stopped + patience):
		t.Fatal("nothing arrives")
	}
	signal("-CONT")
	read(200)
	require.NoError(t, in.Close())
	for lines.Scan() {
		confirmed[lines.Text()] = true
	}
	require.NoError(t, child.Wait())
	timeout := time.After(patience)
	for len(confirmed) > 0 {
		select {
		case m := <-got:
			delete(confirmed, m.MessageId)
		case <-timeout:
			t.Fatalf("%d are missing, such as %v", len(confirmed), confirmed)
		}
	}
	require.NoError(t, d.Close())
}
