package project_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/docs"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
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

// TestOneQueue: the two queues that docs/choosing.md shows, with a second instead of half an hour.
// The same without that TTL, and with an expiration on each message: B, of 1 s, waits for A, of 4 s.
func TestOneQueue(t *testing.T) {
	var file struct {
		Queues []struct {
			Name      string
			Arguments amqp091.Table
		}
	}
	for _, b := range docs.Blocks(read(t, "docs/choosing.md")) {
		if b.Lang == "json" {
			require.NoError(t, json.Unmarshal([]byte(b.Text), &file))
		}
	}
	require.Len(t, file.Queues, 2)
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	work := r.Queue(file.Queues[0].Name, file.Queues[0].Arguments)
	in, args := r.Consume(work), file.Queues[1].Arguments
	require.Equal(t, file.Queues[0].Name, args["x-dead-letter-routing-key"])
	args["x-dead-letter-routing-key"] = work
	delete(args, "x-message-ttl")
	mixed := r.Queue("mixed", args)
	args["x-message-ttl"] = int64(1000)
	equal := r.Queue(file.Queues[1].Name, args)

	began := time.Now()
	r.Publish("", equal, amqp091.Publishing{Body: []byte("statistics")})
	d := rabbittest.Next(t, in)
	require.GreaterOrEqual(t, time.Since(began), time.Second, "early")
	require.Equal(t, []string{"statistics", work}, []string{string(d.Body), d.RoutingKey})

	began = time.Now()
	r.Publish("", mixed, amqp091.Publishing{Body: []byte("A"), Expiration: "4000"}, amqp091.Publishing{Body: []byte("B"), Expiration: "1000"})
	var arrived []string
	for range 2 {
		d := rabbittest.Next(t, in)
		after := time.Since(began)
		require.GreaterOrEqual(t, after, 4*time.Second)
		arrived = append(arrived, fmt.Sprintf("%s %.1f s", d.Body, after.Seconds()))
	}
	t.Log(strings.Join(arrived, ", "))
}

func docker(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "docker %v: %s", args, &stderr)
	return strings.TrimSpace(stdout.String())
}

// brokersContainer is the one of the package's broker, if that is in Docker. Where no engine
// answers, no node is booted to find that out.
func brokersContainer(t *testing.T) string {
	asked := os.Getenv("DELAYER_BROKER") == rabbit.Docker
	err := exec.CommandContext(t.Context(), "docker", "version").Run()
	if err != nil && !asked || !strings.HasPrefix(rabbittest.Broker(t).How(), "Docker") {
		rabbittest.Skipf(t, "needs a broker in Docker (DELAYER_BROKER=docker)")
	}
	return docker(t.Context(), t, "ps", "--quiet", "--filter", fmt.Sprintf("label=delayer.pid=%d", os.Getpid()))
}

// image builds the Dockerfile's last stage with a command that Go has built here: the image that
// the build begins with cannot be had everywhere.
func image(t *testing.T) string {
	dir, name := t.TempDir(), strings.ToLower(rabbittest.Prefix(t))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, root+"cmd/delayer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	var text strings.Builder
	for _, line := range finalStage(t) {
		if source, copies := strings.CutPrefix(line, "COPY --from=build /"); copies {
			line = "COPY " + source
			path := filepath.Join(dir, strings.Fields(source)[0])
			if _, err := os.Stat(path); err != nil { // of the build's image: certificates
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
				require.NoError(t, os.WriteFile(path, nil, 0o644))
			}
		}
		text.WriteString(line + "\n")
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text.String()), 0o600))
	docker(t.Context(), t, "build", "--quiet", "--tag", name, dir)
	t.Cleanup(func() { docker(context.Background(), t, "image", "rm", "--force", name) })
	return name
}

// TestImage: the container becomes healthy, delivers what a service publishes, and ends in good
// order.
func TestImage(t *testing.T) {
	broker, url, prefix := brokersContainer(t), rabbittest.Broker(t).URL(), rabbittest.Prefix(t)
	name := image(t)
	require.Contains(t, docker(t.Context(), t, "run", "--rm", name, "--version"), "delayer ")

	inside, err := amqp091.ParseURI(url)
	require.NoError(t, err)
	inside.Host, inside.Port = "127.0.0.1", 5672 // it has the broker's network
	id := docker(t.Context(), t, "run", "--detach", "--read-only", "--cap-drop", "ALL", "--network", "container:"+broker,
		"--env", "DELAYER_URL="+inside.String(), "--env", "DELAYER_PREFIX="+prefix, "--health-interval", "1s", name)
	t.Cleanup(func() { docker(context.Background(), t, "rm", "--force", id) })
	require.Eventually(t, func() bool {
		return docker(t.Context(), t, "inspect", "--format", "{{.State.Health.Status}}", id) == "healthy"
	}, 2*time.Minute, 100*time.Millisecond)

	d := rabbittest.Open(t, backend.Config{
		Options: delayer.Options{URL: url, Prefix: prefix, Logger: slog.New(slog.DiscardHandler)},
		Backend: "controller", Controller: controller.Config{PublishOnly: true},
	})
	r := rabbittest.NewRig(t, rabbittest.Broker(t))
	queue := r.Queue("in", nil)
	require.NoError(t, d.Publish(t.Context(), "", queue, 50*time.Millisecond, amqp091.Publishing{Body: []byte("later")}))
	require.Equal(t, "later", string(r.Take(queue).Body))

	docker(t.Context(), t, "stop", "-t", "30", id)
	require.Equal(t, "0 65532:65532", docker(t.Context(), t, "inspect", "--format", "{{.State.ExitCode}} {{.Config.User}}", id))
}
