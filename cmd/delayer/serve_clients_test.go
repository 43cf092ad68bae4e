package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/lab/docs"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// A client is a program of examples/clients. It publishes a message and prints when it came back.
type client struct {
	file  string
	key   string   // of its message
	needs string   // what to install
	runs  []string // commands that may run it: the first for which probe succeeds does
	probe string   // a line for sh. RUN stands for the command
	entry bool     // it is for an entry as it is
}

const (
	debian = "/usr/share/java/"
	jvm    = "java -cp " + debian + "amqp-client.jar:" + debian + "slf4j-api.jar"
	nest   = "node --require ./typescript.js"
)

var (
	pythons = []string{"python3", "/usr/bin/python3"} // a system's packages may be for the second only
	clients = []client{
		{"delayed_pika.py", "hello.pika", "Python with pika", pythons, "RUN -c 'import pika'", false},
		{"delayed_kombu.py", "hello.kombu", "Python with kombu", pythons, "RUN -c 'import kombu'", false},
		{"delayed.php", "hello.php", "PHP with php-amqplib", []string{"php"}, `RUN -r 'require "PhpAmqpLib/autoload.php";'`, false},
		{"symfony/delayed.php", "hello.symfony", "PHP with Symfony Messenger and amqp", []string{"php"}, `RUN -r 'require "Symfony/Component/Messenger/Bridge/Amqp/autoload.php"; new AMQPConnection();'`, false},
		{"laravel/delayed.php", "hello.laravel", "PHP with php-amqplib", []string{"php"}, `RUN -r 'require "PhpAmqpLib/autoload.php";'`, true},
		{"delayed.rb", "hello.ruby", "Ruby with bunny", []string{"ruby"}, "RUN -e 'require \"bunny\"'", false},
		{"delayed.js", "hello.js", "Node.js with amqp-connection-manager", []string{"node"}, "RUN -e 'require(\"amqp-connection-manager\")'", false},
		{"delayed_rascal.js", "hello.rascal", "Node.js with rascal", []string{"node"}, "RUN -e 'require(\"rascal\")'", false},
		{"nestjs.ts", "hello.nestjs", "Node.js with NestJS", []string{nest}, "RUN -e 'require(\"@golevelup/nestjs-rabbitmq\")'", false},
		{"Delayed.java", "hello.java", "JDK with Debian's RabbitMQ client", []string{jvm}, "test -f " + debian + "amqp-client.jar && RUN --list-modules | grep -q jdk.compiler", false},
		{"delayed_http.sh", "hello.http", "curl or no amqp-tools", []string{"sh"}, "command -v curl && command -v amqp-consume", true},
		{"delayed.sh", "hello.c", "amqp-tools", []string{"sh"}, "command -v amqp-publish amqp-consume", true},
	}
)

// typescript lets Node.js run what is written in TypeScript, as tools around NestJS do.
const typescript = `
const { readFileSync } = require("fs"), { transpileModule } = require("typescript");
require.extensions[".ts"] = (module, file) => module._compile(transpileModule(readFileSync(file, "utf8"), {
  compilerOptions: { module: "commonjs", target: "es2022", experimentalDecorators: true, emitDecoratorMetadata: true },
}).outputText, file);`

// laravel stands for Laravel and its driver for RabbitMQ, which no package has: it has what
// DelayedQueue.php uses, as of May 2026, and a queue that is bound to orders.
const laravel = `<?php
namespace VladimirYuldashev\LaravelQueueRabbitMQ\Queue {
    require 'PhpAmqpLib/autoload.php';
    use PhpAmqpLib\Message\AMQPMessage;
    use PhpAmqpLib\Wire\AMQPTable;
    class RabbitMQQueue {
        public function __construct(public $channel) {}
        protected function secondsUntil($delay) { return $delay; }
        protected function publishProperties($queue, array $options = []): array { return [$queue, 'orders', 'topic', $options['attempts']]; }
        protected function declareDestination(string $key, ?string $exchange = null, string $type = 'direct'): void {}
        protected function createMessage($payload, int $attempts = 0): array {
            $message = new AMQPMessage($payload, ['content_type' => 'application/json', 'delivery_mode' => 2]);
            $message->set('application_headers', new AMQPTable(['laravel' => ['attempts' => $attempts]]));
            return [$message, 'id'];
        }
        protected function publishBasic($message, $exchange = '', $key = '', $mandatory = false): void {
            $this->channel->basic_publish($message, $exchange, $key, $mandatory);
        }
    }
}
namespace {
    require __DIR__.'/DelayedQueue.php';
    $url = parse_url(getenv('AMQP_URL'));
    $connection = new PhpAmqpLib\Connection\AMQPStreamConnection($url['host'], $url['port'], $url['user'], $url['pass'], urldecode(substr($url['path'], 1)));
    $queue = new App\Queue\DelayedQueue($connection->channel());
    [$name] = $queue->channel->queue_declare('', false, false, true);
    $queue->channel->queue_bind($name, 'orders', 'hello.laravel');
    $published = microtime(true);
    $queue->laterRaw(2, 'Hello from Laravel', 'hello.laravel', 3);
    $queue->channel->basic_consume($name, '', false, true, false, false, function ($message) use ($published) {
        $attempts = $message->get('application_headers')->getNativeData()['laravel']['attempts'];
        if ($attempts === 3) printf("%s, after %.3f s\n", $message->body, microtime(true) - $published);
    });
    $queue->channel->wait();
}`

// environment is what clients run with: packages of npm are where scripts/install-clients.sh puts
// them.
func environment(t *testing.T, url, api string) []string {
	t.Helper()
	modules, err := filepath.Abs("../../bin/clients/node_modules")
	require.NoError(t, err)
	return append(os.Environ(), "AMQP_URL="+url, "DELAYER_HTTP=http://"+api, "PYTHONDONTWRITEBYTECODE=1",
		"NODE_PATH="+modules+":"+os.Getenv("NODE_PATH"))
}

// command is a client of this folder that can run here; otherwise the test is skipped.
func (c client) command(ctx context.Context, t *testing.T, folder, url, api string) *exec.Cmd {
	t.Helper()
	env := environment(t, url, api)
	for _, by := range c.runs {
		probe := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(c.probe, "RUN", by))
		probe.Dir, probe.Env = folder, env
		if probe.Run() == nil {
			cmd := exec.CommandContext(ctx, "sh", "-c", "exec "+by+" "+c.file)
			cmd.Dir, cmd.Env, cmd.WaitDelay = folder, env, time.Second
			return cmd
		}
	}
	rabbittest.Skipf(t, "there is no %s here (make install-clients)", c.needs)
	return nil
}

// printed is what a client says at the end.
var printed = regexp.MustCompile(`^Hello from (\w+), after ([0-9.]+ m?s)$`)

// run waits until a client has printed that its message is there, and ends it.
func (c client) run(t *testing.T, folder, url, api string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd, ch := c.command(ctx, t, folder, url, api), channel(t, url)
	in := consume(t, ch, c.key)
	require.NoError(t, ch.QueueBind(c.key, c.key, "orders", false, nil))

	var errs strings.Builder
	cmd.Stderr, cmd.Cancel = &errs, func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var says []string
	for lines := bufio.NewScanner(stdout); says == nil && lines.Scan(); {
		says = printed.FindStringSubmatch(lines.Text())
	}
	if c.key == "hello.nestjs" {
		cancel() // a server, which ends when it is told to
	}
	err = cmd.Wait()
	require.NotNil(t, says, "%v: %s", err, &errs)
	if c.key != "hello.nestjs" {
		require.NoError(t, err, "%s", &errs)
	}
	took, err := time.ParseDuration(strings.ReplaceAll(says[2], " ", ""))
	require.NoError(t, err)
	assert.GreaterOrEqual(t, took, 2*time.Second, "early")

	d := rabbittest.Next(t, in)
	assert.Contains(t, string(d.Body), "Hello from "+says[1])
	assert.Equal(t, c.key, d.RoutingKey)
	assert.EqualValues(t, 2, d.DeliveryMode)
	assert.NotContains(t, d.Headers, "x-delay")
	assert.Contains(t, d.Headers, delayer.Header)
}

// patch changes the lines of the clients in a folder that docs/languages.md and the page beside the
// clients say are to be changed for an entry.
func patch(t *testing.T, folder string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/languages.md")
	require.NoError(t, err)
	beside, err := os.ReadFile("../../examples/clients/README.md")
	require.NoError(t, err)
	changed := map[string]bool{}
	before := strings.Split(string(page)+string(beside), "```diff\n")
	for i, from := range before[1:] {
		diff, _, _ := strings.Cut(from, "```\n")
		programs := linked.FindAllStringSubmatch(before[i], -1)
		require.NotEmpty(t, programs, diff)
		name := programs[len(programs)-1][1] // the last one that the page links to
		file := filepath.Join(folder, name)
		program, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, []byte(patched(t, string(program), diff)), 0o600))
		changed[name] = true
	}
	for _, c := range clients {
		require.NotEqual(t, c.entry, changed[c.file], c.file)
	}
}

// linked matches a link of these pages to a program.
var linked = regexp.MustCompile(`\]\((?:\.\./examples/clients/)?([a-zA-Z_/]+\.[a-z]+)\)`)

// patched is text with lines that begin with - replaced by those with + behind them.
func patched(t *testing.T, text, diff string) string {
	t.Helper()
	for _, change := range regexp.MustCompile(`(?m)((?:^-.*\n)*)((?:^\+.*\n)+)`).FindAllStringSubmatch(diff, -1) {
		unmarked := regexp.MustCompile(`(?m)^[-+]`)
		was, is := unmarked.ReplaceAllString(change[1], ""), unmarked.ReplaceAllString(change[2], "")
		require.Equal(t, 1, strings.Count(text, was), was)
		text = strings.Replace(text, was, is, 1)
	}
	return text
}

// copied is a copy of examples/clients in which the clients can run.
func copied(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "clients")
	require.NoError(t, os.CopyFS(folder, os.DirFS("../../examples/clients")))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "typescript.js"), []byte(typescript), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "laravel", "delayed.php"), []byte(laravel), 0o600))
	return folder
}

// TestServe_Clients: programs in other languages get their message when it is due: as they are through
// the proxy, and at an entry with the lines changed that the page says.
func TestServe_Clients(t *testing.T) {
	t.Parallel()
	b := rabbittest.Broker(t)
	t.Run("each", func(t *testing.T) {
		for way, config := range map[string]string{
			"proxy": "amqp: {listen: 127.0.0.1:0}",
			"entry": "http: {listen: 127.0.0.1:0}, exchanges: [{name: later, to: orders}]",
		} {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				url, folder, api := vhost(t, b), copied(t), ""
				s := serve(t, "serve", "--config", configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+
					"serve: {%s}\n", url, rabbittest.Prefix(t), config)))
				if way == "proxy" {
					url = throughProxy(t, s, url)
					require.NoError(t, channel(t, url).ExchangeDeclare("orders", "x-delayed-message", true, false, false, false, amqp091.Table{"x-delayed-type": "topic"}))
				} else {
					api = rabbittest.Next(t, s.http)
					declared(t, url, "orders")
					patch(t, folder)
				}
				for _, c := range clients {
					if way == "proxy" && c.entry {
						continue
					}
					t.Run(c.file, func(t *testing.T) {
						t.Parallel()
						c.run(t, folder, url, api)
					})
				}
			})
		}
	})
}

// TestServe_Readme: the configuration and the program in Python that README.md shows, on a broker that
// has nothing yet.
func TestServe_Readme(t *testing.T) {
	t.Parallel()
	url, shown := vhost(t, rabbittest.Broker(t)), map[string]string{}
	for _, b := range docs.Blocks(docs.Pages(t, "../..")["README.md"]) {
		shown[b.Lang] = b.Text
	}
	const local = "amqp://guest:guest@localhost:5672"
	for _, lang := range []string{"yaml", "python"} {
		require.Contains(t, shown[lang], local)
		shown[lang] = strings.ReplaceAll(shown[lang], local, url)
	}
	serve(t, "serve", "--config", configFile(t, shown["yaml"]))
	declared(t, url, "later")
	declared(t, url, "orders")
	folder, program := t.TempDir(), shown["python"]
	require.NoError(t, os.WriteFile(filepath.Join(folder, "later.py"), []byte(program), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	python := client{file: "later.py", needs: "Python with pika", runs: pythons, probe: "RUN -c 'import pika'"}
	began := time.Now()
	out, err := python.command(ctx, t, folder, url, "").Output()
	require.NoError(t, err)
	require.Equal(t, "order 17\n", string(out))
	require.GreaterOrEqual(t, time.Since(began), 3*time.Second, "early")
}

// A framework is what one of those that are not run here does with the plugin, as its source says:
// what it declares and binds, in that order, and where it publishes what is to come after a second.
type framework struct {
	name     string
	does     []any // of exchange, queue, and bind
	exchange string
	key      string
	delay    any    // of x-delay; nil: it does not need the plugin
	queue    string // where the message arrives
}

type (
	exchange struct {
		name, kind, delayed string
		passive             bool
	}
	queue struct {
		name string
		args amqp091.Table
	}
	bind struct{ from, key, exchange, queue string } // to one of both
)

const plugins = "x-delayed-message"

var frameworks = []framework{
	{
		// RabbitAdmin.declareExchanges and declareQueues, spring-amqp of August 2026.
		name:     "Spring AMQP",
		does:     []any{exchange{"shop", plugins, "topic", false}, queue{"expired", nil}, bind{"shop", "order.expired", "", "expired"}},
		exchange: "shop", key: "order.expired", delay: int64(1000), queue: "expired",
	}, {
		// The receive endpoint, then RabbitMqEndpointAddress.GetDelaySettings, MassTransit of February
		// 2026.
		name: "MassTransit",
		does: []any{
			exchange{"orders", "fanout", "", false}, queue{"orders", nil}, bind{"orders", "", "", "orders"},
			exchange{"orders_delay", plugins, "fanout", false}, exchange{"orders", "fanout", "", false}, bind{"orders_delay", "", "orders", ""},
		},
		exchange: "orders_delay", delay: int64(1000), queue: "orders",
	}, {
		// SubscribeAsync, then DelayedExchangeScheduler.FuturePublishAsync, EasyNetQ of July 2026.
		name: "EasyNetQ",
		does: []any{
			exchange{"Order", "topic", "", false}, queue{"Order_billing", nil}, bind{"Order", "#", "", "Order_billing"},
			exchange{"Order_delayed", plugins, "direct", false}, exchange{"Order", "topic", "", false}, bind{"Order_delayed", "", "Order", ""},
		},
		exchange: "Order_delayed", delay: int32(1000), queue: "Order_billing",
	}, {
		// RabbitMqTransport and its DelayedMessageExchangeTransportDecorator, Rebus.RabbitMq of October
		// 2025. It looks for the queue and the exchange before it first sends.
		name: "Rebus",
		does: []any{
			exchange{"RebusDirect", "direct", "", false}, exchange{"RebusTopics", "topic", "", false},
			queue{"billing", nil}, bind{"RebusDirect", "billing", "", "billing"},
			exchange{"RebusDelayed", plugins, "direct", false},
			exchange{"RebusDelayed", "direct", "", true}, bind{"RebusDelayed", "billing", "", "billing"},
		},
		exchange: "RebusDelayed", key: "billing", delay: "1000", queue: "billing",
	}, {
		// RabbitMQQueue.laterRaw, laravel-queue-rabbitmq of May 2026.
		name: "Laravel",
		does: []any{queue{"default", nil}, queue{"default.delay.1000", amqp091.Table{
			"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "default", "x-message-ttl": int32(1000), "x-expires": int32(60_000),
		}}},
		key: "default.delay.1000", queue: "default",
	},
}

func (f framework) do(t *testing.T, ch *amqp091.Channel) {
	t.Helper()
	for _, does := range f.does {
		var err error
		switch d := does.(type) {
		case exchange:
			var args amqp091.Table
			if d.delayed != "" {
				args = amqp091.Table{"x-delayed-type": d.delayed}
			}
			declare := ch.ExchangeDeclare
			if d.passive {
				declare = ch.ExchangeDeclarePassive
			}
			err = declare(d.name, d.kind, true, false, false, false, args)
		case queue:
			_, err = ch.QueueDeclare(d.name, true, false, false, false, d.args)
		case bind:
			if d.queue != "" {
				err = ch.QueueBind(d.queue, d.key, d.from, false, nil)
			} else {
				err = ch.ExchangeBind(d.exchange, d.key, d.from, false, nil)
			}
		}
		require.NoError(t, err, "%+v", does)
	}
}

// TestServe_Frameworks: what frameworks declare and publish that are not run here arrives through the
// proxy once, when it is due. What they declare afterwards, at their next start, is there.
func TestServe_Frameworks(t *testing.T) {
	t.Parallel()
	url := vhost(t, rabbittest.Broker(t))
	s := serve(t, "serve", "--config", configFile(t, fmt.Sprintf("url: %s\nprefix: %s\n"+quickLadder+
		"serve: {amqp: {listen: 127.0.0.1:0}}\n", url, rabbittest.Prefix(t))))
	url = throughProxy(t, s, url)
	for _, f := range frameworks {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			ch := channel(t, url)
			f.do(t, ch)
			in, err := ch.Consume(f.queue, "", true, false, false, false, nil)
			require.NoError(t, err)
			require.NoError(t, ch.Confirm(false))

			began := time.Now()
			for _, body := range []string{"later", "later still"} {
				m := amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: []byte(body)}
				if f.delay != nil {
					m.Headers = amqp091.Table{"x-delay": f.delay, "mine": "kept"}
				}
				confirm, err := ch.PublishWithDeferredConfirm(f.exchange, f.key, false, false, m)
				require.NoError(t, err)
				require.True(t, confirm.Wait())
				f.do(t, ch)
			}
			for _, body := range []string{"later", "later still"} {
				d := rabbittest.Next(t, in)
				assert.GreaterOrEqual(t, time.Since(began), time.Second, "early")
				assert.Equal(t, body, string(d.Body))
				if f.delay != nil {
					assert.Equal(t, f.key, d.RoutingKey)
					assert.Equal(t, "kept", d.Headers["mine"])
					assert.NotContains(t, d.Headers, "x-delay")
					assert.Contains(t, d.Headers, delayer.Header)
				}
			}
		})
	}
}
