package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/bench"
)

// managementAPI answers as that of RabbitMQ does, for the user me with password hunter2.
func managementAPI(t *testing.T) *url.URL {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		assert.Equal(t, "/api/nodes", r.URL.Path)
		_, err := w.Write([]byte(`[{"name":"a","running":true,"mem_used":1000},{"name":"b","running":true,"mem_used":200},
			{"name":"c","running":false,"mem_used":7}]`))
		assert.NoError(t, err)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	return at
}

func TestMemoryFromTheManagementAPI(t *testing.T) {
	api := managementAPI(t)
	var said []string
	logf := func(format string, _ ...any) { said = append(said, format) }
	for name, c := range map[string]struct{ amqp, management string }{
		"the AMQP URL's user": {"amqp://me:hunter2@host/", api.String()},
		"one of its own":      {"amqp://other:s3cret@host/", "http://me:hunter2@" + api.Host + "/"},
	} {
		target := bench.Target{URL: c.amqp}
		require.NoError(t, addManagement(t.Context(), &target, c.management, logf), name)
		memory, err := target.Memory()
		require.NoError(t, err, name)
		assert.Equal(t, int64(1200), memory, "of the nodes that run")
		assert.Contains(t, target.MemorySource, "management API")
	}
	assert.Contains(t, strings.Join(said, "\n"), "processor time")
}

func TestAManagementAPIThatWasNamedMustAnswer(t *testing.T) {
	api := managementAPI(t)
	for name, c := range map[string]struct{ amqp, management, want string }{
		"password":       {"amqp://me:s3cret@host/", api.String(), "401"},
		"its own":        {"amqp://me:hunter2@host/", "http://me:s3cret@" + api.Host, "401"},
		"nobody there":   {"amqp://me:s3cret@host/", "http://127.0.0.1:1", "127.0.0.1:1"},
		"scheme":         {"amqp://me:s3cret@host/", "amqp://me:s3cret@host", "not an http address"},
		"not an address": {"amqp://me:s3cret@host/", "http://me:s3cret@host:port", "http://host:15672"},
	} {
		err := addManagement(t.Context(), &bench.Target{URL: c.amqp}, c.management, t.Logf)
		require.ErrorContains(t, err, c.want, name)
		assert.NotContains(t, err.Error(), "s3cret", name)
		assert.NotContains(t, err.Error(), "hunter2", name)
	}
}

func TestWithoutAManagementAPIItIsSaid(t *testing.T) {
	var said []string
	target := bench.Target{URL: "amqp://me:hunter2@delayer.invalid/"}
	err := addManagement(t.Context(), &target, "", func(format string, _ ...any) { said = append(said, format) })
	require.NoError(t, err)
	assert.Nil(t, target.Memory)
	require.Len(t, said, 1)
	assert.Contains(t, said[0], "left out")
}

func TestTheUsualPortOfTheAPI(t *testing.T) {
	for amqp, want := range map[string]string{
		"amqp://h/":         "http://guest:guest@h:15672",
		"amqps://u:p@h:1/v": "https://u:p@h:15671",
		"amqp://[::1]:5672": "http://guest:guest@[::1]:15672",
	} {
		address, err := managementAddress(amqp, "")
		require.NoError(t, err)
		assert.Equal(t, want, address)
	}
}
