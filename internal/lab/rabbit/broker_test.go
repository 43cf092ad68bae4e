package rabbit_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ory/dockertest/v3"
	"github.com/ory/dockertest/v3/docker"
	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestMain(m *testing.M) {
	if childMain() {
		return
	}
	rabbittest.Main(m, rabbit.Options{})
}

// kinds are the brokers of our own; each test of their behaviour runs on those that this machine
// offers.
var kinds = []string{rabbit.Node, rabbit.Docker}

func eachKind(t *testing.T, o rabbit.Options, test func(t *testing.T, b *rabbit.Broker)) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			o.Choice = kind
			test(t, startKind(t, o))
		})
	}
}

func startKind(t *testing.T, o rabbit.Options) *rabbit.Broker {
	t.Helper()
	began := time.Now()
	o.Logf = t.Logf
	b, err := rabbit.Start(t.Context(), o)
	if errors.Is(err, rabbit.ErrNone) {
		rabbittest.Skipf(t, "%v", err)
	}
	require.NoError(t, err, "what is here has to work")
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	t.Logf("%v after %v", b, time.Since(began))
	return b
}

func TestBrokerOfOurOwn(t *testing.T) {
	t.Setenv("DELAYER_TEST_RABBITMQ_CONFIG", "channel_max = 77")
	eachKind(t, rabbit.Options{
		Plugins: []string{"rabbitmq_management", "no_such_plugin"}, Config: "heartbeat = 17\n", Args: "-rabbit delayer_test 18",
	}, func(t *testing.T, b *rabbit.Broker) {
		assert.True(t, b.Owned())
		assert.Equal(t, "RabbitMQ", b.Product())
		assert.Regexp(t, `^\d+\.\d+\.\d+`, b.Version())
		assert.True(t, b.HasPlugin("rabbitmq_management"), "a plugin that comes with the broker is enabled")
		assert.False(t, b.HasPlugin("no_such_plugin"), "one that it has not is left out")

		out, err := b.Ctl(t.Context(), "list_vhosts", "--silent")
		require.NoError(t, err)
		assert.Contains(t, out, "/")
		_, err = b.Ctl(t.Context(), "no_such_command")
		assert.Error(t, err)

		shell := exec.CommandContext(t.Context(), "sh", "-c", b.CtlCommand()+` --silent eval '"it is " ++ "here".'`)
		said, err := shell.CombinedOutput()
		require.NoError(t, err, "%s", said)
		assert.Contains(t, string(said), "it is here", "also in a shell that knows nothing of the broker")

		response, err := http.Get(b.Management() + "/api/overview")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusOK, response.StatusCode)

		out, err = b.Ctl(t.Context(), "eval", "[application:get_env(rabbit, Key) || Key <- [heartbeat, delayer_test, channel_max]].")
		require.NoError(t, err)
		assert.Contains(t, out, "[{ok,17},{ok,18},{ok,77}]")
		pauses(t, b)
		stopsAgain(t, b)
	})
}

func TestMessagesAddressAndUsageSurvive(t *testing.T) {
	eachKind(t, rabbit.Options{}, func(t *testing.T, b *rabbit.Broker) {
		url, queue := b.URL(), rabbittest.Prefix(t)
		publishOne(t, url, queue)

		require.NoError(t, b.Run(t.Context()), "already running")
		began := time.Now()
		require.NoError(t, b.Restart(t.Context()))
		t.Logf("restart took %v", time.Since(began))
		assert.Equal(t, url, b.URL())
		assert.Equal(t, 1, messagesIn(t, url, queue), "after a restart")

		// Killed last: RabbitMQ before 4.0 forgets a queue declared less than two seconds before a
		// crash.
		publishOne(t, url, queue)
		before := usageOf(t, b)
		began = time.Now()
		require.NoError(t, b.Kill())
		t.Logf("kill took %v", time.Since(began))
		stopped, err := b.CPU()
		require.NoError(t, err, "CPU is known of a broker that is down")
		assert.GreaterOrEqual(t, stopped, before)
		_, err = amqp091.Dial(url)
		require.Error(t, err, "a killed broker does not answer")
		require.NoError(t, b.Run(t.Context()))
		t.Logf("kill and run took %v", time.Since(began))
		assert.Equal(t, url, b.URL())
		assert.Equal(t, 2, messagesIn(t, url, queue), "after a kill")
		assert.Greater(t, usageOf(t, b), before+500*time.Millisecond, "the next boot counts as well")
	})
}

// usageOf is the CPU time that a broker says it has used, which is at least what a boot takes.
// TestContainer_InMemory: what the suites write does not wait for the disk, and is still there
// after a restart.
func TestContainer_InMemory(t *testing.T) {
	for inMemory, want := range map[bool]*regexp.Regexp{true: regexp.MustCompile("tmpfs"), false: regexp.MustCompile("overlay|ext|btrfs|xfs|zfs")} {
		t.Run(fmt.Sprint(inMemory), func(t *testing.T) {
			b := startKind(t, rabbit.Options{Choice: rabbit.Docker, InMemory: inMemory})
			out, err := b.Ctl(t.Context(), "eval", `os:cmd("stat -f -c %T /var/lib/rabbitmq/mnesia").`)
			require.NoError(t, err)
			assert.Regexp(t, want, out)
			queue := rabbittest.Prefix(t)
			publishOne(t, b.URL(), queue)
			require.NoError(t, b.Restart(t.Context()))
			assert.Equal(t, 1, messagesIn(t, b.URL(), queue))
		})
	}
}

func usageOf(t *testing.T, b *rabbit.Broker) time.Duration {
	t.Helper()
	cpu, err := b.CPU()
	require.NoError(t, err)
	assert.Greater(t, cpu, 500*time.Millisecond, "a boot alone takes more")
	rss, err := b.RSS()
	require.NoError(t, err)
	assert.Greater(t, rss, int64(30<<20))
	return cpu
}

// pauses pauses a broker, lets it go on, and kills it while it is paused.
func pauses(t *testing.T, b *rabbit.Broker) {
	t.Helper()
	require.NoError(t, b.Pause())
	_, err := amqp091.DialConfig(b.URL(), amqp091.Config{Dial: amqp091.DefaultDial(time.Second)})
	require.Error(t, err, "a paused broker answers nothing")
	require.NoError(t, b.Resume())
	publishOne(t, b.URL(), rabbittest.Prefix(t))
	require.NoError(t, b.Pause())
	require.NoError(t, b.Kill(), "a paused broker can be killed")
	require.Error(t, b.Pause(), "one that is down cannot be paused")
}

// stopsAgain does what was done already to a broker that is down.
func stopsAgain(t *testing.T, b *rabbit.Broker) {
	t.Helper()
	require.NoError(t, b.Stop(t.Context()))
	require.NoError(t, b.Kill())
	_, err := b.Ctl(t.Context(), "status")
	require.Error(t, err)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	assert.Error(t, b.Run(t.Context()), "closed is closed")
}

func publishOne(t *testing.T, url, queue string) {
	t.Helper()
	conn, err := amqp091.Dial(url)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close()) }()
	ch, err := conn.Channel()
	require.NoError(t, err)
	const durable, autoDelete, exclusive, noWait, mandatory, immediate = true, false, false, false, true, false
	_, err = ch.QueueDeclare(queue, durable, autoDelete, exclusive, noWait, nil)
	require.NoError(t, err)
	require.NoError(t, ch.Confirm(noWait))
	confirm, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, mandatory, immediate,
		amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: []byte("kept")})
	require.NoError(t, err)
	acked, err := confirm.WaitContext(t.Context())
	require.NoError(t, err)
	require.True(t, acked)
}

func messagesIn(t *testing.T, url, queue string) int {
	t.Helper()
	conn, err := amqp091.Dial(url)
	require.NoError(t, err)
	defer func() { assert.NoError(t, conn.Close()) }()
	ch, err := conn.Channel()
	require.NoError(t, err)
	const durable, autoDelete, exclusive, noWait = true, false, false, false
	q, err := ch.QueueDeclarePassive(queue, durable, autoDelete, exclusive, noWait, nil)
	require.NoError(t, err)
	return q.Messages
}

// TestBroker_Upgrade: what was in the old container is in the new one.
func TestBroker_Upgrade(t *testing.T) {
	b := startKind(t, rabbit.Options{Choice: rabbit.Docker, InMemory: true})
	r, old := rabbittest.NewRig(t, b), b.URL()
	queue := r.Queue("kept", amqp091.Table{"x-queue-type": "quorum"})
	r.Publish("", queue, amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: []byte("kept")})
	require.NoError(t, r.Conn.Close())
	image := strings.TrimSuffix(strings.TrimPrefix(b.How(), "Docker container ("), ")")
	require.NoError(t, b.Upgrade(t.Context(), image))
	require.NotEqual(t, old, b.URL())
	r.Connect(b.URL())
	require.Equal(t, "kept", string(r.Take(queue).Body))
}

func TestAContainerRemovedUnderUsIsAnErrorAndNoDeadlock(t *testing.T) {
	b := startKind(t, rabbit.Options{Choice: rabbit.Docker})
	pool, err := dockertest.NewPool("")
	require.NoError(t, err)
	list, err := pool.Client.ListContainers(docker.ListContainersOptions{
		Filters: map[string][]string{"label": {fmt.Sprintf("delayer.pid=%d", os.Getpid())}},
	})
	require.NoError(t, err)
	for _, c := range list {
		for _, port := range c.Ports {
			if port.PublicPort != 0 && strings.Contains(b.URL(), fmt.Sprintf(":%d/", port.PublicPort)) {
				require.NoError(t, pool.Client.RemoveContainer(docker.RemoveContainerOptions{ID: c.ID, Force: true}))
			}
		}
	}
	require.Eventually(t, func() bool { return b.Run(t.Context()) != nil }, time.Minute, 50*time.Millisecond)
	_, err = b.RSS()
	assert.Error(t, err)
}

// TestQuickly: what is done without rabbitmqctl is done, and read as rabbitmqctl prints it.
func TestQuickly(t *testing.T) {
	if _, err := exec.LookPath("erl_call"); err != nil {
		rabbittest.Skipf(t, "there is no erl_call")
	}
	b, name := rabbittest.Alone(t), rabbittest.Prefix(t)
	if b.How() != "private node" {
		rabbittest.Skipf(t, "the broker is not a private node, whose files it needs")
	}
	quickly := func(args ...string) string {
		t.Helper()
		out, ok := rabbit.Quickly(t, b, args...)
		require.True(t, ok, "%q", args)
		return out
	}
	publishOne(t, b.URL(), name)
	assert.Contains(t, "\n"+quickly("list_queues", "name"), "\n"+name+"\n")
	assert.Contains(t, quickly("list_exchanges", "name"), "\namq.direct\n")
	assert.Equal(t, `{ok,"it",<<"is">>}`+"\n", quickly("eval", `{ok, "it", <<"is">>}.`))

	quickly("await_online_nodes", "1")
	quickly("add_user", "someone", `s"3'cret`)
	quickly("set_permissions", "someone", "^a", "^b", "^c")
	assert.Contains(t, quickly("eval", `rabbit_auth_backend_internal:list_user_permissions(<<"someone">>)`), `{configure,<<"^a">>},{write,<<"^b">>},{read,<<"^c">>}]`)
	conn, err := amqp091.Dial(strings.Replace(b.URL(), "guest:guest", "someone:s%223'cret", 1))
	require.NoError(t, err)
	ch, err := conn.Channel()
	require.NoError(t, err)
	require.NoError(t, ch.Confirm(false))
	assert.Regexp(t, `^<delayer.*@localhost\.[\d.]+>\ttrue\n$`, quickly("list_channels", "pid", "confirm"))
	closed := conn.NotifyClose(make(chan *amqp091.Error, 1))
	quickly("close_all_connections", "enough")
	assert.ErrorContains(t, <-closed, "enough")
	quickly("delete_user", "someone")
	_, ok := rabbit.Quickly(t, b, "delete_user", "someone")
	assert.False(t, ok, "a failure is left to rabbitmqctl")

	rabbittest.Channel(t, b) // on a connection of this name
	assert.Contains(t, quickly("list_connections", "--silent", "client_properties"), t.Name())
	quickly("add_vhost", "other")
	assert.Contains(t, quickly("eval", `rabbit_vhost:list_names()`), `<<"other">>`)
	file := filepath.Join(t.TempDir(), "definitions.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"exchanges":[{"name":"imported","vhost":"other","type":"topic","durable":true,"auto_delete":false,"internal":false,"arguments":{}}]}`), 0o600))
	quickly("import_definitions", file)
	assert.Contains(t, quickly("list_exchanges", "-p", "other", "name"), "imported\n")
	quickly("set_policy", "p", "^x", `{"expires":1000}`)
	assert.Contains(t, quickly("eval", `rabbit_policy:list()`), `{definition,[{<<"expires">>,1000}]}`)
	quickly("clear_policy", "p")
	assert.Equal(t, "[]\n", quickly("eval", `rabbit_policy:list()`))
	quickly("set_vm_memory_high_watermark", "0.25")
	assert.Equal(t, "0.25\n", quickly("eval", "vm_memory_monitor:get_vm_memory_high_watermark()."))
}

// TestQuickly_Container: in Docker rabbitmqctl takes a minute on a busy machine, and the suites
// call it often.
func TestQuickly_Container(t *testing.T) {
	b, name := startKind(t, rabbit.Options{Choice: rabbit.Docker, InMemory: true}), rabbittest.Prefix(t)
	if _, ok := rabbit.Quickly(t, b, "eval", "ok."); !ok {
		rabbittest.Skipf(t, "the image has no erl_call")
	}
	publishOne(t, b.URL(), name)
	conn, err := amqp091.Dial(b.URL())
	require.NoError(t, err)
	closed := conn.NotifyClose(make(chan *amqp091.Error, 1))
	for _, c := range []struct {
		want string
		args []string
	}{
		{name + "\n", []string{"list_queues", "name"}},
		{`{ok,"it's",<<"%s is">>}` + "\n", []string{"eval", `{ok, "it's", <<"%s is">>}.`}},
		{"", []string{"close_all_connections", "enough"}},
	} {
		out, ok := rabbit.Quickly(t, b, c.args...)
		assert.True(t, ok, "%q", c.args)
		assert.Equal(t, c.want, out)
	}
	assert.ErrorContains(t, <-closed, "enough")
	shell := exec.CommandContext(t.Context(), "sh", "-c", b.EvalCommand()+` -q eval 'io:format("it is ~s", ["here"]).'`)
	said, err := shell.CombinedOutput()
	require.NoError(t, err, "%s", said)
	assert.Contains(t, string(said), "it is here")
	require.NoError(t, b.Stop(t.Context()))
	_, ok := rabbit.Quickly(t, b, "eval", "ok.")
	assert.False(t, ok, "there is no broker that could do it")
}
