package statuscmd

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/cli"
	"github.com/delayer-go/delayer/status"
)

// sample is a status with something of everything.
func sample() status.Status {
	number := func(n int) *int { return &n }
	return status.Status{
		Time: time.Date(2026, 1, 2, 14, 0, 0, 0, time.UTC), Broker: status.Broker{Address: "amqp://rabbit1:5672/", Version: "4.0.5"}, Prefix: "delayer",
		Backends: []status.Backend{
			{
				Name: "controller", Configured: true, Waiting: number(12), Controllers: number(2),
				Queues: []status.Queue{{Name: "delayer.controller.intake", Consumers: 2, Intake: true}, {Name: "delayer.controller.wait.03", Wait: 8000, Messages: 12}},
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
		Misrouted: &status.Queue{Name: "delayer.misrouted", Messages: 1}, Unroutable: &status.Queue{Name: "delayer.unroutable", Messages: 3},
		Parked: []status.Queue{{Name: "mail.parked", Messages: 4}, {Name: "empty.parked"}}, Others: []status.Queue{{Name: "delayer.ladder.wait.7s", Messages: 9}},
		Policies: []string{`queue "delayer.ladder.wait.1s": a policy sets message-ttl to 500, which would make messages early`},
		Bindings: []string{`binding "a" goes around`, `binding "b" goes around`, `binding "c" goes around`, `binding "d" goes around`},
		Unknown:  []status.Unknown{{What: "parked messages", Why: "why"}, {What: "policies", Why: "why"}, {What: "what waits in the plugin", Why: "it is in no queue"}},
	}
}

func TestPage(t *testing.T) {
	s := sample()
	require.Equal(t, `RabbitMQ 4.0.5 at amqp://rabbit1:5672/, prefix delayer, Delayer `+cli.Version()+`

controller: 12 messages wait in 1 of 2 queues
QUEUE                          WAIT    MESSAGES
delayer.controller.wait.03       8s          12
2 controllers at work

binaryladder (also under this prefix): 1201 messages wait in 2 of 4 queues
QUEUE                          WAIT    MESSAGES
delayer.ladder.wait.1s           1s           1
delayer.ladder.wait.12m30s   12m30s        1200

plugin (also under this prefix): how many messages wait is not known

NOT DELIVERED                                       MESSAGES
delayer.unroutable                                         3
delayer.misrouted                                          1
mail.parked                                                4
delayer.ladder.wait.7s (another configuration's)           9

unroutable messages: see which and why with delayer messages list, send them
  with delayer messages retry
parked messages: see which and why with delayer messages list mail.parked
no Delayer sends misrouted messages on: start one, or send those that are due
  with delayer messages retry
messages in queues of another configuration, delayer.ladder.wait.7s first: let
  a Delayer with that configuration run until they are delivered
binaryladder: 1 queue missing, delayer.ladder.wait.2s first: is this the
  configuration of the Delayers? (delayer topology verify)
policy: queue "delayer.ladder.wait.1s": a policy sets message-ttl to 500, which
  would make messages early
policies: see rabbitmqctl list_policies and list_operator_policies, and keep
  them from names that begin with delayer.: rabbitmqctl set_policy (or
  set_operator_policy) NAME '^(?!delayer\.)' DEFINITION, with their --priority
  and --apply-to
binding "a" goes around
binding "b" goes around
binding "c" goes around
bindings: and 1 more, see delayer topology verify
not known: parked messages, policies: why
not known: what waits in the plugin: it is in no queue
`, page(s, s.Time))
	require.Equal(t, "2026-01-02T14:00:00Z waiting=unknown controllers=2 misrouted=1 unroutable=3 parked=4 policies=1 bindings=4 missing=1", line(s))
}

// TestPage_Slots: what is in the queues of slots are bundles.
func TestPage_Slots(t *testing.T) {
	one := status.Backend{
		Unread: new(int), Controllers: new(int),
		Queues: []status.Queue{{Name: "log", Intake: true}, {Name: "slot", Messages: 1}},
	}
	var b strings.Builder
	queues(&b, one)
	*one.Controllers = 2
	controllers(&b, one)
	require.Equal(t, `QUEUE     WAIT     BUNDLES
slot         -           1
2 controllers at work
`, b.String())
	require.Equal(t, " (also under this prefix): how many messages wait is not known", title(one))
}

// TestPage_Due: what waits by when it is due.
func TestPage_Due(t *testing.T) {
	now := time.Date(2026, 12, 22, 12, 0, 5, 0, time.UTC)
	at := func(month time.Month, day, hour, minute int, width time.Duration, n int) status.Due {
		from := time.Date(2026, month, day, hour, minute, 0, 0, time.UTC)
		return status.Due{From: from, To: from.Add(width), Messages: n}
	}
	waiting := 1000
	one := status.Backend{Waiting: &waiting, Unread: new(int), Queues: []status.Queue{{Messages: 3}}, Due: []status.Due{
		at(12, 22, 11, 57, 2*time.Second, 1), at(12, 22, 11, 59, 2*time.Second, 2), at(12, 22, 12, 0, 4*time.Second, 90), at(12, 22, 12, 0, 54300*time.Millisecond, 10),
		at(12, 22, 12, 1, 31500*time.Millisecond, 10), at(12, 22, 12, 40, 19*time.Minute+30*time.Second, 10),
		at(12, 22, 22, 0, 2*time.Hour, 10), at(12, 24, 0, 0, 12*time.Hour, 10), at(12, 31, 12, 0, 12*time.Hour, 20), at(13, 2, 0, 0, 12*time.Hour, 20),
	}}
	one.Due[0].Overdue, one.Due[1].Overdue, one.Due[2].Overdue = 1, 2, 1
	var b strings.Builder
	due(&b, one, now)
	require.Equal(t, `DUE                                 MESSAGES
overdue, for 3m 5s                         3
12:00:00 to 12:00:55                     100
12:01:00 to 12:01:32                      10
12:40 to 13:00                            10
22:00 to Dec 23 00:00                     10
Dec 24 00:00 to 12:00                     10
Dec 31 12:00 to Jan 1 2027 00:00          20
Jan 2 2027 00:00 to 12:00                 20
`, b.String())
	b.Reset()
	due(&b, status.Backend{Due: []status.Due{}}, now)
	require.Empty(t, b.String())
	require.Equal(t, " (also under this prefix): 1000 messages wait", title(one))
	waiting, one.Changes = 1, 1
	require.Equal(t, " (also under this prefix): about 1 message waits", title(one))
	*one.Unread = 1
	require.Equal(t, " (also under this prefix): about 1 message waits", title(one))
	one.Changes = 0
	require.Equal(t, " (also under this prefix): about 1 message waits", title(one))
	*one.Unread = 0
	require.Equal(t, " (also under this prefix): 1 message waits", title(one))
	one.Inexact = true
	require.Equal(t, " (also under this prefix): about 1 message waits", title(one))
	require.Equal(t, "Dec 24 01:00 to 13:00", cli.Stretch(one.Due[7].From, one.Due[7].To, now.In(time.FixedZone("CET", 3600))))
	require.Equal(t, "12:00:05", cli.Stretch(now, now.Add(time.Millisecond), now))
	midnight := now.Truncate(24 * time.Hour)
	require.Equal(t, "Dec 21 23:40 to Dec 22 00:00", cli.Stretch(midnight.Add(-20*time.Minute), midnight, now))
}

// TestEntries: the queues of a configuration, also of one that delayer serve refuses.
func TestEntries(t *testing.T) {
	for text, want := range map[string][]string{
		"":                      nil,
		"serve: 5":              nil,
		"backend: controller":   nil,
		"serve: {exchanges: 5}": nil,
		"serve: {prefetch: x, exchanges: [{name: a, to: b}, {name: c}]}": {"p.serve.parked.a", "p.serve.parked.c"},
		"serve: {amqp: {listen: ':5673'}, exchanges: [{name: a}]}":       {"p.serve.parked.a", "p.serve.parked.p.proxy"},
	} {
		assert.Equal(t, want, entries([]byte(text), "p"), text)
	}
}

func TestCondition(t *testing.T) {
	two, seven := 2, 7
	s := status.Status{
		Waiting: &seven, Unroutable: &status.Queue{Messages: 3}, Policies: []string{"one"}, Parked: []status.Queue{{Messages: 4}, {Messages: 5}},
		Backends: []status.Backend{{Missing: []string{"q"}}, {Controllers: &two}},
		Unknown:  []status.Unknown{{What: "queues of other configurations", Why: "no management API is given"}},
	}
	for text, want := range map[string]string{
		"unroutable>0":    "unroutable>0: unroutable is 3",
		"unroutable > 3":  "",
		"unroutable>=3":   "unroutable>=3: unroutable is 3",
		"unroutable<4":    "unroutable<4: unroutable is 3",
		"unroutable<=2":   "",
		"waiting==7":      "waiting==7: waiting is 7",
		"waiting!=7":      "",
		"policies>0":      "policies>0: policies is 1",
		"parked>8":        "parked>8: parked is 9",
		"controllers<1":   "",
		" controllers<3 ": " controllers<3 : controllers is 2",
		"missing>0":       "missing>0: missing is 1",
		"misrouted>0":     "",
	} {
		var c condition
		err := c.UnmarshalText([]byte(text))
		require.NoError(t, err, text)
		got, err := c.holds(s)
		require.NoError(t, err, text)
		require.Equal(t, want, got)
	}
	for text, want := range map[string]string{
		"others>0": "others>0: others is not known (not known: queues of other configurations: no management API is given)",
	} {
		var c condition
		err := c.UnmarshalText([]byte(text))
		require.NoError(t, err, text)
		_, err = c.holds(s)
		require.ErrorContains(t, err, want)
	}
	for text, want := range map[string]string{
		"":                                "is no condition such as unroutable>0",
		"unroutable":                      "want a name, one of > >= < <= == != and a whole number (names: bindings, controllers, misrouted, missing, others, overdue, parked, policies, unroutable, waiting)",
		"unroutable=0":                    "is no condition",
		"unroutable>-1":                   "is no condition",
		"unroutable>1h":                   "is no condition",
		"lost>0":                          `there is no number "lost" (names: bindings,`,
		"waiting>99999999999999999999999": "is too large",
	} {
		err := new(condition).UnmarshalText([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}
