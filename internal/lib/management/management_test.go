package management

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
)

// answers are given one after the other, the last for ever. They need no network.
type answers []int

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	res := httptest.NewRecorder()
	res.WriteHeader((*a)[0])
	fmt.Fprint(res, `{"name":"rabbit"}`)
	if len(*a) > 1 {
		*a = (*a)[1:]
	}
	return res.Result(), nil
}

// TestGet_AsksAgain: the management API of 3.10 answers 500 for a moment where a stream is
// declared.
func TestGet_AsksAgain(t *testing.T) {
	get := func(limit time.Duration, given ...int) (took time.Duration, err error) {
		synctest.Test(t, func(t *testing.T) {
			a := answers(given)
			c, newErr := New("http://monitor:hunter2@host:15672", 0, &a)
			require.NoError(t, newErr)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			var into struct{ Name string }
			begin := time.Now()
			if err = c.Get(ctx, Request{Op: "look at", Path: "queues"}, &into); err == nil {
				require.Equal(t, "rabbit", into.Name)
			}
			took = time.Since(begin)
		})
		return took, err
	}
	_, err := get(time.Minute, 500, 500, 503, 200)
	require.NoError(t, err)

	took, err := get(time.Minute, 500)
	require.ErrorIs(t, err, delayer.ErrUnavailable)
	require.ErrorContains(t, err, "500 Internal Server Error")
	require.Equal(t, 1550*time.Millisecond, took, "it ends")

	took, err = get(time.Second, 502)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "502 Bad Gateway")
	require.Equal(t, time.Second, took)

	took, err = get(time.Minute, 401, 200)
	require.ErrorIs(t, err, delayer.ErrAccess, "asking again would not help")
	require.Zero(t, took)
	require.NotContains(t, err.Error(), "hunter2")
}

// TestRemedy: what the user lacks is said, by the reason that RabbitMQ gives.
func TestRemedy(t *testing.T) {
	for reason, want := range map[string]string{
		"Login failed": "user name and the password", "Not administrator user": "tag administrator", "Not monitor user": "tag monitoring", "": "tag monitoring",
	} {
		require.Contains(t, remedy(reason), want)
	}
}
