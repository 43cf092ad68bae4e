package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// A client is a program of examples/clients. It publishes a message and prints when it came back.
type client struct {
	file  string
	key   string   // of its message
	needs string   // what to install
	runs  []string // commands that may run it: the first for which probe succeeds does
	probe string   // a line for sh. RUN stands for the command
}

const (
	debian = "/usr/share/java/"
	jvm    = "java -cp " + debian + "amqp-client.jar:" + debian + "slf4j-api.jar"
)

var (
	pythons = []string{"python3", "/usr/bin/python3"} // a system's packages may be for the second only
	clients = []client{
		{"delayed_pika.py", "hello.pika", "Python with pika", pythons, "RUN -c 'import pika'"},
		{"delayed_kombu.py", "hello.kombu", "Python with kombu", pythons, "RUN -c 'import kombu'"},
		{"delayed.php", "hello.php", "PHP with php-amqplib", []string{"php"}, `RUN -r 'require "PhpAmqpLib/autoload.php";'`},
		{"delayed.rb", "hello.ruby", "Ruby with bunny", []string{"ruby"}, "RUN -e 'require \"bunny\"'"},
		{"delayed.js", "hello.js", "Node.js with amqplib", []string{"node"}, "RUN -e 'require(\"amqplib\")'"},
		{"Delayed.java", "hello.java", "JDK with Debian's RabbitMQ client", []string{jvm}, "test -f " + debian + "amqp-client.jar && RUN --list-modules | grep -q jdk.compiler"},
		{"delayed_http.sh", "hello.http", "curl or no amqp-tools", []string{"sh"}, "command -v curl && command -v amqp-consume"},
		{"delayed.sh", "hello.c", "amqp-tools", []string{"sh"}, "command -v amqp-publish amqp-consume"},
	}
)

// environment is what clients run with: packages of npm are where scripts/install-clients.sh puts
// them.
func environment(t *testing.T, url, api string) []string {
	t.Helper()
	modules, err := filepath.Abs("../../bin/clients/node_modules")
	require.NoError(t, err)
	return append(os.Environ(), "AMQP_URL="+url, "DELAYER_HTTP=http://"+api, "NODE_PATH="+modules+":"+os.Getenv("NODE_PATH"))
}

// command is a client that can run here; otherwise the test is skipped.
func (c client) command(ctx context.Context, t *testing.T, url, api string) *exec.Cmd {
	t.Helper()
	env := environment(t, url, api)
	for _, by := range c.runs {
		probe := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(c.probe, "RUN", by))
		probe.Env = env
		if probe.Run() == nil {
			cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+by+" ../../examples/clients/"+c.file)
			cmd.Env, cmd.WaitDelay = env, time.Second
			return cmd
		}
	}
	rabbittest.Skipf(t, "there is no %s here (make install-clients)", c.needs)
	return nil
}

// printed is what a client says at the end.
var printed = regexp.MustCompile(`(?s)^Hello from (\w+), after ([0-9.]+ m?s)\n$`)

// TestServe_Clients: programs in other languages publish with a header, and get their message when
// it is due.
func TestServe_Clients(t *testing.T) {
	t.Parallel()
	url, prefix := vhost(t, rabbittest.Broker(t)), rabbittest.Prefix(t)
	s := serve(t, "serve", "--config", configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+
		"serve: {http: {listen: 127.0.0.1:0}, exchanges: [{name: orders, to: orders.delivery}]}\n", url, prefix)))
	api := rabbittest.Next(t, s.http)
	declared(t, url, "orders.delivery")

	t.Run("each", func(t *testing.T) {
		for _, c := range clients {
			t.Run(c.file, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				cmd, ch := c.command(ctx, t, url, api), channel(t, url)
				in := consume(t, ch, c.key)
				require.NoError(t, ch.QueueBind(c.key, c.key, "orders.delivery", false, nil))

				var errs strings.Builder
				cmd.Stderr = &errs
				out, err := cmd.Output()
				require.NoError(t, err, "%s%s", out, &errs)
				says := printed.FindSubmatch(out)
				require.NotNil(t, says, "%q", out)
				took, err := time.ParseDuration(strings.ReplaceAll(string(says[2]), " ", ""))
				require.NoError(t, err)
				assert.GreaterOrEqual(t, took, 2*time.Second, "early")

				d := rabbittest.Next(t, in)
				assert.Equal(t, "Hello from "+string(says[1]), string(d.Body))
				assert.Equal(t, c.key, d.RoutingKey)
				assert.Equal(t, "text/plain", d.ContentType)
				assert.EqualValues(t, 2, d.DeliveryMode)
				assert.NotContains(t, d.Headers, "x-delay")
				assert.Contains(t, d.Headers, delayer.Header)
			})
		}
	})
	require.Equal(t, exitOK, s.stop())
}
