package rabbit_test

import (
	"errors"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

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
		InMemory: true,
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

		for _, command := range []string{b.CtlCommand(), b.EvalCommand()} {
			shell := exec.CommandContext(t.Context(), "sh", "-c", command+` -q eval 'io:format("it is ~s", ["here"]).'`)
			said, err := shell.CombinedOutput()
			require.NoError(t, err, "%s", said)
			assert.Contains(t, string(said), "it is here", "also in a shell that knows nothing of the broker")
		}

		response, err := http.Get(b.Management() + "/api/overview")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, http.StatusOK, response.StatusCode)

		out, err = b.Ctl(t.Context(), "eval", "[application:get_env(rabbit, Key) || Key <- [heartbeat, delayer_test, channel_max]].")
		require.NoError(t, err)
		assert.Contains(t, out, "[{ok,17},{ok,18},{ok,77}]")
		out, err = b.Ctl(t.Context(), "eval", `os:cmd("ulimit -Sn; ulimit -Hn").`)
		require.NoError(t, err)
		files := regexp.MustCompile(`\d+`).FindAllString(out, -1)
		require.NotEmpty(t, files)
		if soft, _ := strconv.Atoi(files[0]); soft < 65536 {
			assert.Equal(t, files[len(files)-1], files[0], "more open files than a shell's usual 1,024, where the machine lets it")
		}
		if strings.HasPrefix(b.How(), "Docker") {
			out, err = b.Ctl(t.Context(), "eval", `os:cmd("stat -f -c %T /var/lib/rabbitmq/mnesia").`)
			require.NoError(t, err)
			assert.Contains(t, out, "tmpfs", "what the suites write does not wait for the disk")
		}
		survives(t, b)
		pauses(t, b)
		stopsAgain(t, b)
	})
}

// survives restarts a broker and kills it: its messages and its address stay, and what it used counts.
func survives(t *testing.T, b *rabbit.Broker) {
	t.Helper()
	url, queue := b.URL(), rabbittest.Prefix(t)
	publishOne(t, b, queue)
	require.NoError(t, b.Run(t.Context()), "already running")
	require.NoError(t, b.Restart(t.Context()))
	assert.Equal(t, url, b.URL())
	assert.Equal(t, 1, rabbittest.NewRig(t, b).Count(queue), "after a restart")

	// Killed last: RabbitMQ before 4.0 forgets a queue declared less than two seconds before a
	// crash.
	publishOne(t, b, queue)
	before := usageOf(t, b)
	require.NoError(t, b.Kill())
	stopped, err := b.CPU()
	require.NoError(t, err, "CPU is known of a broker that is down")
	assert.GreaterOrEqual(t, stopped, before)
	_, err = amqp091.Dial(url)
	require.Error(t, err, "a killed broker does not answer")
	require.NoError(t, b.Run(t.Context()))
	assert.Equal(t, url, b.URL())
	assert.Equal(t, 2, rabbittest.NewRig(t, b).Count(queue), "after a kill")
	assert.Greater(t, usageOf(t, b), before+500*time.Millisecond, "the next boot counts as well")
}

// usageOf is the CPU time that a broker says it has used, which is at least what a boot takes.
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
	publishOne(t, b, rabbittest.Prefix(t))
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

func publishOne(t *testing.T, b *rabbit.Broker, queue string) {
	t.Helper()
	r := rabbittest.NewRig(t, b)
	r.Declare(queue, nil)
	r.Publish("", queue, amqp091.Publishing{DeliveryMode: amqp091.Persistent, Body: []byte("kept")})
}
