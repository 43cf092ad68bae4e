package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/cli"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/status"
)

func TestStatus_Usage(t *testing.T) {
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"--fail-if lost>0", exitUsage, `--fail-if: "lost>0": there is no number "lost" (names: controllers,`},
		{"--fail-if unroutable", exitUsage, "is no condition such as unroutable>0"},
		{"--every 0s", exitUsage, "--every must be positive"},
		{"--listen :0", exitUsage, "--listen: give --watch too"},
		{"--output xml", exitUsage, `--output must be one of "table","json"`},
		{"", exitFailed, "delayer status: no broker: give --config with a url, or set DELAYER_URL"},
		{"--config /none", exitFailed, "give an existing file"},
		{"--backend abacus", exitFailed, `unknown backend "abacus"`},
		{"--url amqp://u:hunter2@127.0.0.1:1/", exitFailed, "is RabbitMQ running there"},
		{"--url amqp://u:hunter2@127.0.0.1:1/ --management h:15672", exitFailed, "want http://user:password@host:15672"},
		{"--url http://u:hunter2@127.0.0.1:1/", exitFailed, `scheme "http" is not AMQP`},
	} {
		status, stdout, stderr := command(t.Context(), t, append([]string{"status"}, strings.Fields(c.args)...)...)
		require.Equal(t, c.status, status, c.args)
		require.Contains(t, stderr, c.says)
		require.NotContains(t, stderr, "hunter2")
		require.Empty(t, stdout)
	}
}

// sample is a status with something of everything.
func sample() status.Status {
	number := func(n int) *int { return &n }
	due := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	return status.Status{
		Time: due.Add(2 * time.Hour), Broker: status.Broker{Address: "amqp://rabbit1:5672/", Version: "4.0.5", Series: "4.0"}, Prefix: "delayer",
		Backends: []status.Backend{
			{
				Name: "controller", Configured: true, Waiting: number(12), Controllers: number(2), Held: number(5),
				Queues: []status.Queue{{Name: "delayer.controller.intake", Consumers: 2}, {Name: "delayer.controller.wait.03", Wait: 8000, Messages: 12}},
				Each:   []status.Controller{{Connection: "10.0.0.7:5123 -> 10.0.0.1:5672", User: "control", Held: 5}, {Connection: "10.0.0.8:5123 -> 10.0.0.1:5672", User: "control"}},
			},
			{
				Name: "binaryladder", Waiting: number(1201),
				Queues: []status.Queue{
					{Name: "delayer.ladder.wait.1s", Wait: 1000, Messages: 1}, {Name: "delayer.ladder.wait.12m30s", Wait: 750_000, Messages: 1200},
					{Name: "delayer.ladder.wait.24h", Wait: 86_400_000}, {Name: "delayer.ladder.wait." + strings.Repeat("x", 80), Messages: 0},
				},
				Missing: []string{"delayer.ladder.wait.2s"},
			},
			{Name: "plugin"},
		},
		Misrouted: &status.Queue{Name: "delayer.misrouted", Messages: 1}, Unroutable: &status.Queue{Name: "delayer.unroutable", Messages: 3}, UnroutableDue: &due,
		Parked: []status.Queue{{Name: "mail.parked", Messages: 4}, {Name: "empty.parked"}}, Others: []status.Queue{{Name: "delayer.ladder.wait.7s", Messages: 9}},
		Policies: []string{`queue "delayer.ladder.wait.1s": a policy sets message-ttl to 500, which would make messages early`},
		Unknown:  []status.Unknown{{What: "parked messages", Why: "why"}, {What: "policies", Why: "why"}, {What: "what waits in the plugin", Why: "not asked for: the broker would read the plugin's whole table"}},
	}
}

func TestStatusText(t *testing.T) {
	s := sample()
	view := statusView{width: 80, now: s.Time}
	require.Equal(t, `RabbitMQ 4.0.5 at amqp://rabbit1:5672/, prefix delayer, Delayer `+cli.Version()+`

controller: 12 messages wait in 1 of 2 queues
QUEUE                          WAIT    MESSAGES  
delayer.controller.wait.03       8s          12  ##############################
2 controllers at work, 5 messages held
CONTROLLER     USER          HOLDS
10.0.0.7:5123  control           5
10.0.0.8:5123  control           0

binaryladder (also under this prefix): 1201 messages wait in 2 of 4 queues
QUEUE                          WAIT    MESSAGES  
delayer.ladder.wait.1s           1s           1  #
delayer.ladder.wait.12m30s   12m30s        1200  ##############################

plugin (also under this prefix): how many messages wait is not known

NOT DELIVERED                                       MESSAGES  FIRST DUE
delayer.unroutable                                         3  2h 0m ago
delayer.misrouted                                          1  unknown
mail.parked                                                4  unknown
delayer.ladder.wait.7s (another configuration's)           9  unknown

no Delayer sends misrouted messages on: does one run?
binaryladder: 1 queue missing, delayer.ladder.wait.2s first: is this the
  configuration of the Delayers? (delayer topology verify)
policy: queue "delayer.ladder.wait.1s": a policy sets message-ttl to 500, which
  would make messages early
not known: parked messages, policies: why
not known: what waits in the plugin: not asked for: the broker would read the
  plugin's whole table
`, statusText(s, view))
	for _, width := range []int{80, 120} {
		for line := range strings.Lines(statusText(s, statusView{width: width, all: true, now: s.Time})) {
			require.Less(t, utf8.RuneCountInString(strings.TrimRight(line, "\n")), width, line)
		}
	}
	require.Equal(t, "2026-01-02T14:00:00Z waiting=unknown held=5 controllers=2 misrouted=1 unroutable=3 parked=4 policies=1 missing=1", statusLine(s))
}

// TestStatusText_LongWaits: a controller's waits have seconds, up to days.
func TestStatusText_LongWaits(t *testing.T) {
	one := status.Backend{Queues: []status.Queue{{Name: "q", Wait: 1000, Messages: 1}, {Name: "r", Wait: 65_536_000, Messages: 1}}}
	var b strings.Builder
	statusView{width: 40}.queues(&b, one)
	require.Equal(t, `QUEUE       WAIT    MESSAGES  
q             1s           1  #########
r      18h12m16s           1  #########
`, b.String())
}

func TestShort(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"250ms": 250 * time.Millisecond, "1s": time.Second, "1m": time.Minute, "12m30s": 750 * time.Second, "1h": time.Hour, "90m": 90 * time.Minute,
		"12h": 12 * time.Hour, "30d": 720 * time.Hour, "25h": 25 * time.Hour,
	} {
		if want == "90m" {
			want = "1h30m"
		}
		require.Equal(t, want, short(d))
	}
}

// TestStatusText_Due: what waits by when it is due.
func TestStatusText_Due(t *testing.T) {
	now := time.Date(2026, 12, 22, 12, 0, 5, 0, time.UTC)
	at := func(month time.Month, day, hour, minute int, width time.Duration, n int) status.Due {
		from := time.Date(2026, month, day, hour, minute, 0, 0, time.UTC)
		return status.Due{From: from, To: from.Add(width), Messages: n}
	}
	waiting := 1000
	one := status.Backend{Waiting: &waiting, Due: []status.Due{
		at(12, 22, 11, 57, 2*time.Second, 1), at(12, 22, 11, 59, 2*time.Second, 2), at(12, 22, 12, 0, time.Minute, 100), at(12, 22, 13, 0, time.Hour, 10),
		at(12, 23, 1, 0, time.Hour, 10), at(12, 24, 0, 0, 24*time.Hour, 10), at(12, 26, 0, 0, 720*time.Hour, 20), at(13, 25, 0, 0, 720*time.Hour, 20),
	}}
	var b strings.Builder
	statusView{width: 60, now: now}.due(&b, one)
	require.Equal(t, `DUE                           MESSAGES  
overdue, for 3m 5s                   3  #
12:00                              100  ###################
13:00 to 14:00                      10  #
Dec 23 01:00 to 02:00               10  #
Dec 24                              10  #
Dec 26 to Jan 25 2027               20  ###
Jan 25 2027 to Feb 24 2027          20  ###
`, b.String())
	b.Reset()
	statusView{width: 60, now: now}.due(&b, status.Backend{Due: []status.Due{}})
	require.Empty(t, b.String())
	require.Equal(t, "Dec 24 01:00 to Dec 25 01:00", dueSpan(one.Due[5], now.In(time.FixedZone("CET", 3600))))
}

// TestStatus is what an operator sees, and a script.
func TestStatus(t *testing.T) {
	t.Parallel()
	b, queue := rabbittest.Broker(t), rabbittest.Prefix(t)
	prefix := rabbittest.Prefix(t)
	config := configFile(t, "url: "+b.URL()+"\nprefix: "+prefix+"\nbinaryladder: {steps: [1s, 2s, 4s]}\n")
	look := func(args ...string) (int, string, string) {
		return command(t.Context(), t, append([]string{"status", "--config", config}, args...)...)
	}
	code, stdout, stderr := look()
	require.Equal(t, exitFailed, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "delayer status: look at prefix "+prefix+": broker unavailable: nothing of it is at amqp://")

	code, stdout, stderr = command(t.Context(), t, "topology", "apply", "--config", config)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "declared queue \""+prefix+".ladder.wait.1s\"\n")
	code, stdout, _ = command(t.Context(), t, "topology", "apply", "--config", config, "--output", "json")
	require.Equal(t, exitOK, code)
	require.JSONEq(t, `{"created": []}`, stdout)

	ch := channel(t, b.URL())
	consume(t, ch, queue)
	require.NoError(t, ch.PublishWithContext(t.Context(), "", prefix+".unroutable", true, false, amqp091.Publishing{}))
	require.Eventually(t, func() bool {
		code, stdout, stderr = look("--fail-if", "waiting>0", "--fail-if", "unroutable>0")
		return code == exitFailed
	}, time.Minute, 100*time.Millisecond)
	require.Contains(t, stdout, "binaryladder: 0 messages wait in 0 of 3 queues")
	require.Equal(t, "delayer status: unroutable>0: unroutable is 1\n", stderr)
	code, _, stderr = look("--fail-if", "policies>0")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "policies>0: policies is not known (not known: policies, parked messages, queues of other configurations: no management API is given")
	code, stdout, _ = look("--output", "json", "--parked", queue)
	require.Equal(t, exitOK, code)
	var report struct {
		Delayer, Prefix string
		Waiting         int
		Backends        []struct{ Queues []struct{ Queue string } }
		Unroutable      struct{ Messages int }
		Policies        []string
		Unknown         []struct{ What, Why string }
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Equal(t, 1, report.Unroutable.Messages)
	require.Equal(t, prefix+".ladder.wait.1s", report.Backends[0].Queues[0].Queue)
	require.Contains(t, stdout, `"policies": null`)
	require.Equal(t, "policies", report.Unknown[0].What)

	remove := func(args ...string) (int, string, string) {
		return command(t.Context(), t, append([]string{"topology", "remove", "--config", config}, args...)...)
	}
	code, _, stderr = remove()
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "messages: 1, in "+prefix+".unroutable (1)")
	code, _, stderr = remove("--force")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "standard input is no terminal: give --prefix with the name of the prefix to agree")
	code, stdout, stderr = remove("--force", "--prefix", prefix)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, "prefix "+prefix+": the exchanges and queues of backend binaryladder are deleted\n", stdout)
}

// TestStatus_Due: a wheel of slots tells when what waits is due.
func TestStatus_Due(t *testing.T) {
	t.Parallel()
	b, queue, prefix := rabbittest.Broker(t), rabbittest.Prefix(t), rabbittest.Prefix(t)
	config := configFile(t, "url: "+b.URL()+"\nprefix: "+prefix+"\nbackend: controller\ncontroller: {wheel: slots, run: false}\n")
	run := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := command(t.Context(), t, append(args, "--config", config)...)
		require.Equal(t, exitOK, code, stderr)
		return stdout
	}
	ch := rabbittest.Channel(t, b)
	_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = ch.QueueDelete(queue, false, false, false) })
	const delay = 10 * time.Minute
	due := time.Now().Add(delay)
	run("send", "--key", queue, "--delay", delay.String(), "--body", "later")
	var found statusReport
	require.NoError(t, json.Unmarshal([]byte(run("status", "--output", "json", "--fail-if", "overdue>0")), &found))
	require.Len(t, found.Backends[0].Due, 1)
	one := found.Backends[0].Due[0]
	require.Equal(t, 1, one.Messages)
	require.WithinRange(t, due, one.From.Add(-time.Minute), one.To.Add(time.Minute))
	require.Contains(t, run("status"), "\nDUE ")
	require.Contains(t, run("status", "--all"), "\nQUEUE ")
}
