package broker_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/broker"
	"github.com/delayer-go/delayer/internal/guard"
	"github.com/delayer-go/delayer/internal/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/topology"
)

func eventually(t *testing.T, what func() bool) {
	t.Helper()
	require.Eventually(t, what, time.Minute, 10*time.Millisecond)
}

// A watched is a Guard at work on a broker.
type watched struct {
	*guard.Guard
	prefix  string
	log     rabbittest.Logbook
	control *broker.Control
	inspect atomic.Pointer[delayer.Error] // what the management API answers
}

func (w *watched) declare(t *testing.T) {
	t.Helper()
	require.NoError(t, topology.Apply(within(t), w.control, "test", guard.Plan(w.prefix, delayer.Quorum)))
}

func dial(t *testing.T, url string, w *watched) *broker.Conn {
	t.Helper()
	conn, err := broker.Dial(within(t), broker.Options{URL: url, Name: t.Name(), Backend: "test", Logger: w.log.Logger()})
	require.NoError(t, err)
	return conn
}

// watch runs a Guard as the user of url, until the test ends. Its objects are declared by an
// administrator.
func watch(t *testing.T, prefix, url string) *watched {
	t.Helper()
	w := &watched{prefix: prefix}
	admin := broker.NewControl(dial(t, rabbittest.Broker(t).URL(), w))
	t.Cleanup(admin.Close)
	w.control = admin
	w.declare(t)
	control := broker.NewControl(dial(t, url, w))
	publisher := broker.NewPublisher("test", func() {}, dial(t, url, w))
	w.Guard = guard.New(guard.Config{
		Backend: "test", Prefix: prefix, QueueType: delayer.Quorum, Logger: w.log.Logger(), Every: 100 * time.Millisecond,
		Control: control, Publish: publisher.PublishDirect,
		Inspect: func(context.Context) error {
			if found := w.inspect.Load(); found != nil {
				return found
			}
			return nil
		},
	})
	require.NoError(t, w.Open(within(t)))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, func() bool { return true })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		publisher.Close()
		control.Close()
		require.NoError(t, topology.Remove(within(t), admin, "test", guard.Plan(prefix, delayer.Quorum)))
	})
	return w
}

// setPolicy sets a policy on all names of a prefix, until it is lifted or the test ends.
func setPolicy(t *testing.T, prefix, definition string) (lift func()) {
	t.Helper()
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to set a policy")
	}
	_, err := b.Ctl(within(t), "set_policy", prefix, "^"+prefix, definition)
	require.NoError(t, err)
	lift = sync.OnceFunc(func() { _, _ = b.Ctl(within(t), "clear_policy", prefix) })
	t.Cleanup(lift)
	return lift
}

func (w *watched) logged(text string) int { return strings.Count(w.log.String(), text) }

// TestPolicies that come while a Guard is at work are found and lifted, and each is logged once.
// That is so again after what probes need was lost: exchanges that are declared again have no
// bindings any more.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		definition, want string
		lose             func(*watched, *testing.T)
	}{
		"exchanges declared again": {`{"message-ttl":50}`, "instead of 24h0m0s (expired): is there a policy with message-ttl", (*watched).loseExchanges},
		"queues deleted":           {`{"max-length":0}`, "(maxlen): is there a policy with max-length", (*watched).loseQueues},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := rabbittest.Prefix(t)
			w := watch(t, prefix, rabbittest.Broker(t).URL())
			for times := 1; times <= 2; times++ {
				lift := setPolicy(t, prefix, c.definition)
				eventually(t, func() bool { return w.Fault() != nil })
				require.ErrorIs(t, w.Fault(), delayer.ErrConflict)
				require.ErrorContains(t, w.Fault(), c.want)
				lift()
				eventually(t, func() bool { return w.Fault() == nil })
				require.Equal(t, times, w.logged("would be early or lost"), w.log.String())
				require.Equal(t, times, w.logged("the policy is gone"), w.log.String())
				c.lose(w, t)
			}
		})
	}
}

func (w *watched) loseExchanges(t *testing.T) {
	require.NoError(t, topology.Remove(within(t), w.control, "test", guard.Plan(w.prefix, delayer.Quorum)))
	w.declare(t)
}

// loseQueues deletes those that belong to one Delayer.
func (w *watched) loseQueues(t *testing.T) {
	_, err := rabbittest.Broker(t).Ctl(within(t), "eval", fmt.Sprintf(
		`[rabbit_amqqueue:delete(Q, false, false, <<"test">>) || Q <- rabbit_amqqueue:list(), `+
			`nomatch =/= re:run(element(4, amqqueue:get_name(Q)), <<"%s\\.watch\\.[A-Z]">>)].`, w.prefix))
	require.NoError(t, err)
}

// TestMissingPermission: the user is warned once, and the management API finds and lifts a fault
// all the same.
func TestMissingPermission(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ configure, write, read string }{
		"configure": {"^$", ".*", ".*"},
		"write":     {".*", "^$", ".*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := rabbittest.Prefix(t)
			w := watch(t, prefix, newUser(t, c.configure, c.write, c.read))
			eventually(t, func() bool { return w.logged("policies that make messages early are not looked for") > 0 })
			w.inspect.Store(&delayer.Error{Op: "open", Object: "policies", Kind: delayer.ErrConflict, Cause: errors.New("bad")})
			eventually(t, func() bool { return w.Fault() != nil })
			w.inspect.Store(nil)
			eventually(t, func() bool { return w.Fault() == nil })
			require.Equal(t, 1, w.logged("policies that make messages early are not looked for"), w.log.String())
		})
	}
}

// newUser makes a user with these permissions, and returns a URL.
func newUser(t *testing.T, configure, write, read string) string {
	t.Helper()
	b := rabbittest.Broker(t)
	if !b.Owned() {
		rabbittest.Skipf(t, "needs rabbitmqctl to make a user")
	}
	name := rabbittest.Prefix(t)
	_, err := b.Ctl(within(t), "add_user", name, "secret")
	require.NoError(t, err)
	_, err = b.Ctl(within(t), "set_permissions", name, configure, write, read)
	require.NoError(t, err)
	u, err := url.Parse(b.URL())
	require.NoError(t, err)
	u.User = url.UserPassword(name, "secret")
	return u.String()
}
