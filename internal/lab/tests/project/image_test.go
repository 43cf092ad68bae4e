package project_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/backend/controller"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

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
