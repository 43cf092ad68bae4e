package backend_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// TestOpen_LimitOfVhost: what is one too many is named, with the limit.
func TestOpen_LimitOfVhost(t *testing.T) {
	t.Parallel()
	b := rabbittest.Ours(t)
	cfg, vhost := config(t), rabbittest.Prefix(t)
	u, err := url.Parse(b.URL())
	require.NoError(t, err)
	u.Path = "/" + vhost
	cfg.URL = u.String()
	ctl := func(args ...string) {
		t.Helper()
		_, err := b.Ctl(within(t), args...)
		require.NoError(t, err)
	}
	ctl("add_vhost", vhost)
	t.Cleanup(func() { ctl("delete_vhost", vhost) })
	ctl("set_permissions", "--vhost", vhost, u.User.Username(), ".*", ".*", ".*")
	for limit, says := range map[string]string{
		`{"max-queues": 2}`:      "queue limit in vhost '" + vhost + "' (2) is reached",
		`{"max-connections": 0}`: "connection limit (0) is reached",
	} {
		ctl("set_vhost_limits", "--vhost", vhost, limit)
		_, err = backend.Open(within(t), cfg)
		t.Log(err)
		require.ErrorIs(t, err, delayer.ErrUnavailable)
		require.NotErrorIs(t, err, delayer.ErrConflict)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "raise that limit")
		ctl("clear_vhost_limits", "--vhost", vhost)
	}
}
