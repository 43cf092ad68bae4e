package page

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/app/tokens"
)

// TestProxied: a trusted proxy says who it is; the same header from elsewhere says nothing.
func TestProxied(t *testing.T) {
	w := newSite(t, undeliveredSample(), "tokens: []")
	w.put("a", "", nil)
	var err error
	w.Proxy, err = tokens.Proxy{Header: "X-User", From: []string{"10.0.0.5"}, Act: []string{"alice"}}.Open()
	require.NoError(t, err)
	ask := func(from, user, method, path string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://delayer.example"+path, strings.NewReader(form.Encode()))
		r.RemoteAddr = from
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		if user != "" {
			r.Header.Set("X-User", user)
		}
		answer := httptest.NewRecorder()
		w.ServeHTTP(answer, r)
		w.Backlog.done.Wait()
		return answer
	}
	const proxy, other = "10.0.0.5:4711", "10.0.0.6:4711"
	text := ask(proxy, "alice", http.MethodGet, unroutable, nil).Body.String()
	assert.Contains(t, text, `<p class="who">alice</p>`)
	assert.NotContains(t, text, "Log out", "only the proxy can do that")
	assert.Contains(t, ask(proxy, "bob", http.MethodGet, unroutable, nil).Body.String(), "bob, read only")

	remove := url.Values{"queue": {"delayer.unroutable"}, "action": {"delete"}, "id": {"a.0"}, "sure": {"yes"}}
	for name, answer := range map[string]*httptest.ResponseRecorder{
		"forged":              ask(other, "alice", http.MethodPost, "/page/act", remove),
		"without the name":    ask(proxy, "", http.MethodPost, "/page/act", remove),
		"of one who may look": ask(proxy, "bob", http.MethodPost, "/page/act", remove),
	} {
		assert.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, answer.Code, name)
	}
	assert.Len(t, w.heap, 1)
	assert.Equal(t, "/page/login", ask(other, "alice", http.MethodGet, "/", nil).Header().Get("Location"))
	assert.Equal(t, 1, strings.Count(w.log.String(), "is not believed"), "once is enough")
	assert.Equal(t, http.StatusSeeOther, ask(proxy, "alice", http.MethodPost, "/page/act", remove).Code)
	assert.Empty(t, w.heap)
	assert.Contains(t, w.log.String(), "who=alice action=delete")
}
