package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// upgraded are the feature flags of a cluster that came from the series before: on 3.10 those of
// 3.8, and later those alone without which a node does not start.
const upgraded = "-rabbit forced_feature_flags_on_init " +
	"[quorum_queue,implicit_default_bindings,virtual_host_metadata,maintenance_mode_status,user_limits]"

// often makes the management API tell soon what has changed.
const often = " -rabbit collect_statistics_interval 250 quorum_tick_interval 250"

// guarded are a broker and those who ask it.
type guarded struct {
	*rabbittest.Rig
	managements map[string]string // user → key management
}

// TestGuards is what docs/operating.md says: what could not be looked at is unknown, and never
// good, whoever asks and whatever the broker keeps from them.
func TestGuards(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]string{
		"default": "", "no statistics": "management.disable_stats = true", "no collector": "management_agent.disable_metrics_collector = true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := rabbittest.Own(t, rabbit.Options{Plugins: []string{"rabbitmq_management"}, Config: config, Args: upgraded + often})
			g := guarded{rabbittest.NewRig(t, b), map[string]string{"none": "", "administrator": b.Management(), "monitoring": monitor(t, b)}}
			shown := config == "" || b.Version() >= "4.3" // which tells what policies set in any case
			if b.Version()[:4] == "3.10" {
				g.withoutFlag()
			} else {
				g.policies(shown)
			}
			_, err := b.Ctl(t.Context(), "enable_feature_flag", "all")
			require.NoError(t, err)
			g.policies(shown)
		})
	}
}

// monitor makes a user with the tag monitoring, who may declare nothing.
func monitor(t *testing.T, b *rabbit.Broker) string {
	t.Helper()
	for _, args := range [][]string{{"add_user", "monitor", "secret"}, {"set_user_tags", "monitor", "monitoring"}, {"set_permissions", "monitor", "^$", ".*", ".*"}} {
		_, err := b.Ctl(t.Context(), args...)
		require.NoError(t, err)
	}
	return as(t, "monitor", b.Management())
}

// as is an address with another user.
func as(t *testing.T, user, address string) string {
	t.Helper()
	at, err := url.Parse(address)
	require.NoError(t, err)
	at.User = url.UserPassword(user, "secret")
	return at.String()
}

func (g *guarded) config(user string) backend.Config {
	cfg := backend.Config{Options: delayer.Options{URL: g.Broker.URL(), Prefix: g.Prefix + "-" + user, Management: g.managements[user]}}
	cfg.BinaryLadder.Steps = "1s,2s"
	return cfg
}

func (g *guarded) file(user string) string {
	cfg := g.config(user)
	return configFile(g, fmt.Sprintf("url: %s\nprefix: %s\nmanagement: %q\nbinaryladder: {steps: [1s, 2s]}\nserve: {http: {listen: 127.0.0.1:0, page: true}}\n",
		cfg.URL, cfg.Prefix, cfg.Management))
}

// told is what a text says of policies.
func told(text string) string {
	for _, one := range []struct{ words, means string }{
		{"a policy sets message-ttl", "found"}, {"not known: policies", "unknown"}, {"unknown  policies", "unknown"}, {"not given: policies", "unknown"}, {"the management API failed", "unknown"},
		{"it is not known whether policies", "unknown"}, {"policies are not checked", "unknown"}, {"policies: none does harm", "good"}, {"no policy harms it", "good"}, {"no policy does harm", "good"}, {"", "nothing"},
	} {
		if strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(one.words), " ")) {
			return one.means
		}
	}
	return ""
}

// open is what Open says.
func (g *guarded) open(cfg backend.Config) (said string, err error) {
	var log rabbittest.Logbook
	cfg.Logger = log.Logger()
	d, err := backend.Open(g.Context(), cfg)
	if err == nil {
		err = d.Close()
		return log.String(), err
	}
	return log.String() + err.Error(), err
}

// policies looks with no policy, and with one that harms all queues.
func (g *guarded) policies(shown bool) {
	pages := map[string]string{}
	for user := range g.managements {
		s := serve(g, "serve", "--config", g.file(user))
		defer s.stop()
		pages[user] = "http://" + rabbittest.Next(g, s.http)
	}
	for _, harm := range []bool{false, true} {
		if harm {
			_, err := g.Broker.Ctl(g.Context(), "set_policy", "ttl", "^"+g.Prefix, `{"message-ttl":1}`)
			require.NoError(g, err)
		}
		for user := range g.managements {
			want := map[string]string{"open": "unknown", "status": "unknown", "verify": "unknown", "page": "unknown"}
			switch {
			case user == "none":
			case shown && harm:
				want = map[string]string{"open": "found", "status": "found", "verify": "found", "page": "found"}
			case shown:
				want = map[string]string{"open": "nothing", "status": "good", "verify": "good", "page": "good"}
			}
			require.EventuallyWithT(g, func(t *assert.CollectT) { // the API of 3.10 is some seconds behind
				page, err := http.Get(pages[user])
				require.NoError(t, err)
				defer page.Body.Close() //nolint:errcheck // it is read
				body, err := io.ReadAll(page.Body)
				require.NoError(t, err)
				opened, _ := g.open(g.config(user))
				_, status, _ := command(g.Context(), g, "status", "--config", g.file(user))
				code, problems, why := command(g.Context(), g, "topology", "verify", "--config", g.file(user))
				got := map[string]string{"open": told(opened), "status": told(status), "verify": told(problems + why), "page": told(string(body))}
				require.Equal(t, want, got, "%s, harm %v:\n%s\n%s\n%s\n%s", user, harm, opened, status, problems, why)
				require.Equal(t, want["verify"] == "good", code == exitOK)
			}, time.Minute, 100*time.Millisecond)
		}
	}
	_, err := g.Broker.Ctl(g.Context(), "clear_policy", "ttl")
	require.NoError(g, err)
	require.Eventually(g, func() bool { _, err := g.open(g.config("monitoring")); return err == nil }, time.Minute, 100*time.Millisecond)
}

// withoutFlag looks at a broker that silently dead-letters at most once. An earlier Delayer has
// declared its queues.
func (g *guarded) withoutFlag() {
	const off = "feature flag stream_queue"
	for user := range g.managements {
		cfg := g.config(user)
		plan, err := backend.Topology(cfg)
		require.NoError(g, err)
		for _, x := range plan.AllExchanges() {
			require.NoError(g, g.Ch.ExchangeDeclare(x.Name, x.Kind, true, x.AutoDelete, false, false, x.Args()))
		}
		for _, q := range plan.Queues {
			_, err := g.Ch.QueueDeclare(q.Name, true, false, false, false, q.Args)
			require.NoError(g, err)
		}
		said, err := g.open(cfg)
		require.ErrorIs(g, err, delayer.ErrNotFound, said)
		_, stdout, stderr := command(g.Context(), g, "status", "--config", g.file(user), "--fail-if", "missing>0")
		require.Contains(g, stdout, off+": it is disabled")
		require.Contains(g, stderr, "missing is 1")
		_, stdout, stderr = command(g.Context(), g, "topology", "verify", "--config", g.file(user))
		require.Equal(g, user != "none", strings.Contains(stdout, off+": ") || strings.Contains(stderr, "the management API failed"), stdout+stderr)
		code, _, stderr := command(g.Context(), g, "serve", "--config", g.file(user))
		require.Equal(g, exitFailed, code)
		require.Contains(g, stderr, off)

		cfg.URL, cfg.Passive = as(g.TB.(*testing.T), "monitor", cfg.URL), true
		said, err = g.open(cfg)
		require.NoError(g, err)
		require.Contains(g, said, "it is not known whether quorum queues lose messages")
	}
	require.Empty(g, g.streams(), "looking leaves nothing behind")
}

func (g *guarded) streams() string {
	out, err := g.Broker.Ctl(g.Context(), "eval", "[Q || Q <- rabbit_amqqueue:list(), amqqueue:get_type(Q) =:= rabbit_stream_queue].")
	require.NoError(g, err)
	return strings.Trim(out, "[]\n ")
}
