package project_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// started builds an example of README.md or docs/start.md, with some of its source replaced, and
// returns the command, with the broker in its environment, and a Delayer of the same prefix.
func started(t *testing.T, name string, replace ...string) (*exec.Cmd, delayer.Delayer) {
	t.Helper()
	source := read(t, "examples/"+name+"/main.go")
	for i := 0; i < len(replace); i += 2 {
		require.Contains(t, source, replace[i])
	}
	folder := t.TempDir()
	file := filepath.Join(folder, "main.go")
	require.NoError(t, os.WriteFile(file, []byte(strings.NewReplacer(replace...).Replace(source)), 0o600))
	program := filepath.Join(folder, name)
	out, err := exec.Command("go", "build", "-o", program, file).CombinedOutput()
	require.NoError(t, err, "%s", out)

	url, prefix := rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	d := rabbittest.Open(t, backend.Config{Options: delayer.Options{URL: url, Prefix: prefix}})
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "DELAYER_URL="+url, "DELAYER_PREFIX="+prefix)
	cmd.Stderr = t.Output()
	return cmd, d
}

func TestStart_First(t *testing.T) {
	cmd, _ := started(t, "first", `"amqp://guest:guest@localhost:5672/"`, strconv.Quote(rabbittest.Broker(t).URL()))
	out, err := cmd.Output()
	require.NoError(t, err)
	var after float64
	_, err = fmt.Sscanf(string(out), "stored\nhello arrived after %f s\n", &after)
	require.NoError(t, err, "%s", out)
	require.GreaterOrEqual(t, after, 2.9)
	_, err = rabbittest.NewRig(t, rabbittest.Broker(t)).Ch.QueueDelete("hello", false, false, false)
	require.NoError(t, err)
	rabbittest.Remove(t, backend.Config{Options: delayer.Options{URL: rabbittest.Broker(t).URL()}})
}

func TestStart_Worker(t *testing.T) {
	cmd, d := started(t, "worker", "localhost:2112\"", "localhost:0\"", "3 * time.Second, 10 * time.Second", "time.Second, time.Second")
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	r.Declare("jobs", amqp091.Table{"x-queue-type": "quorum"})
	for _, body := range []string{"hello", "bad"} {
		require.NoError(t, d.Publish(t.Context(), "", "jobs", 0, amqp091.Publishing{Body: []byte(body)}))
	}
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // where the test ends before
	seen := map[string]bool{}
	for lines := bufio.NewScanner(stdout); !seen["bad: attempt 3 of 3"] && lines.Scan(); {
		seen[lines.Text()] = true
	}
	require.Equal(t, "bad", string(r.Take("jobs.parked").Body))
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
	require.Equal(t, map[string]bool{
		"hello: attempt 1 of 3": true, "bad: attempt 1 of 3": true, "hello: attempt 2 of 3": true,
		"bad: attempt 2 of 3": true, "bad: attempt 3 of 3": true,
	}, seen)
	_, err = r.Ch.QueueDelete("jobs.parked", false, false, false)
	require.NoError(t, err)
}

// TestExamples runs the examples of the root's example_test.go, as a program.
func TestExamples(t *testing.T) {
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	orders, queue := r.Exchange("orders", "topic", nil), r.Queue("orders", nil)
	r.Bind(queue, "order.*", orders, nil)
	in := r.Consume(queue)
	text := read(t, "example_test.go")
	for old, with := range map[string]string{
		"package delayer_test":                 "package main",
		`"amqp://guest:guest@localhost:5672/"`: strconv.Quote(r.Broker.URL()),
		`ctx, "orders", `:                      "ctx, " + strconv.Quote(orders) + ", ",
		"30*time.Minute":                       "2*time.Second",
	} {
		require.Contains(t, text, old)
		text = strings.ReplaceAll(text, old, with)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(text+"\nfunc main() { Example(); ExampleSafeToRetry() }\n"), 0o600))
	cmd := exec.Command("go", "run", file)
	cmd.Env = append(os.Environ(), "DELAYER_URL="+r.Broker.URL())
	start := time.Now()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for range 2 {
		m := rabbittest.Next(t, in)
		require.GreaterOrEqual(t, time.Since(start), 2*time.Second, "early")
		require.Equal(t, []string{"order 42", "order.expired"}, []string{string(m.Body), m.RoutingKey})
	}
	rabbittest.Remove(t, backend.Config{Options: delayer.Options{URL: r.Broker.URL()}})
}
