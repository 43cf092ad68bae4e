package page

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFilter(t *testing.T) {
	m := &item{Exchange: "orders.eu", Known: true, Key: "a.b", Attempts: "3 attempts", Since: asked.Add(-2 * time.Hour)}
	direct := &item{Known: true, Key: "queue", Since: asked.Add(-time.Minute)}
	stray := &item{Key: "a.b"} // of no Delayer
	for _, c := range []struct {
		filter filter
		want   [3]bool // of these three
	}{
		{filter{}, [3]bool{true, true, true}},
		{filter{Exchange: "orders.eu"}, [3]bool{true, false, false}},
		{filter{Exchange: "orders"}, [3]bool{}},
		{filter{Exchange: "orders*"}, [3]bool{true, false, false}},
		{filter{Exchange: "orders?eu"}, [3]bool{}},
		{filter{Exchange: "*"}, [3]bool{true, true, false}},
		{filter{Exchange: defaultExchange}, [3]bool{false, true, false}},
		{filter{Key: "a.*"}, [3]bool{true, false, true}},
		{filter{Reason: "NO SUCH"}, [3]bool{true, true, true}},
		{filter{Reason: "3 attempts, no"}, [3]bool{true, false, false}},
		{filter{Age: "1h"}, [3]bool{true, false, false}},
		{filter{Age: "60s"}, [3]bool{true, true, false}},
		{filter{Age: "1d"}, [3]bool{}},
		{filter{Exchange: "*", Key: "queue", Reason: "queue", Age: "30s"}, [3]bool{false, true, false}},
	} {
		matches, err := c.filter.match(asked)
		require.NoError(t, err)
		for i, one := range []*item{m, direct, stray} {
			got, err := matches(one, func() (string, error) { return "no such queue", nil })
			require.NoError(t, err)
			assert.Equal(t, c.want[i], got, "%v: message %d", c.filter, i)
		}
	}
	for _, wrong := range []string{"x", "-1h", "-1d", "d", "9999999d"} {
		_, err := filter{Age: wrong}.match(asked)
		require.ErrorIs(t, err, errAge, wrong)
	}
}

// TestFilter_Address: what was typed comes back from the address.
func TestFilter_Address(t *testing.T) {
	f := filter{Exchange: "a&b=c", Key: "#*.é", Reason: evil, Age: "1h"}
	v, err := url.ParseQuery(strings.TrimPrefix(f.Query(), "&"))
	require.NoError(t, err)
	assert.Equal(t, f, filterOf(v))
	assert.Empty(t, filter{}.Query())
}

// filled is a page with n messages, of which every third is for another exchange.
func filled(t *testing.T, n int) *site {
	t.Helper()
	w := newSite(t, undeliveredSample(), "tokens: [{name: alice, sha256: "+hashOf("a")+", rights: [view, act]}, {name: carol, sha256: "+hashOf("c")+", rights: [view, act]}]")
	w.login("a")
	for i := range n {
		w.put(fmt.Sprintf("m%d", i), "", nil)
		m := w.heap[i]
		m.Known, m.Exchange = true, []string{"orders", "billing", "billing"}[i%3]
	}
	return w
}

// TestFilter_Acts: what matches is counted for the question, and no more than that is acted on.
func TestFilter_Acts(t *testing.T) {
	w := filled(t, 30)
	text := w.body(unroutable + "&exchange=orders")
	assert.Contains(t, text, "10 of 30 match</strong>: exchange orders.")
	assert.Contains(t, text, "all 10 that match")
	assert.NotContains(t, text, ">m1<")

	form := func() url.Values {
		return url.Values{"queue": {"delayer.unroutable"}, "action": {"delete"}, "which": {"all"}, "exchange": {"orders"}, "count": {"30"}}
	}
	text = w.act(form()).Body.String()
	assert.Contains(t, text, "Delete 10 messages?")
	assert.Contains(t, text, "exchange orders")
	assert.Contains(t, text, `name="exchange" value="orders"`)
	assert.Len(t, w.heap, 30)

	w.put("late", "", nil) // after the question
	w.heap[30].Known, w.heap[30].Exchange = true, "orders"
	yes := form()
	yes.Set("count", "10")
	yes.Set("sure", "yes")
	assert.Equal(t, "/page/job", w.act(yes).Header().Get("Location"))
	assert.Contains(t, w.body("/page/job"), "10 of 10 deleted")
	assert.Len(t, w.heap, 21)
	assert.Equal(t, "late", w.heap[20].Message)
	w.act(yes)
	assert.Contains(t, w.body("/page/job"), "1 of 10 deleted")
	assert.Contains(t, w.body("/page/job"), "9 were not in the queue any more")
	for _, text := range []string{
		"an action of the page has begun\" who=alice action=delete queue=delayer.unroutable asked=10",
		"an action of the page has ended\" who=alice action=delete queue=delayer.unroutable asked=10 done=10",
	} {
		assert.Contains(t, w.log.String(), text)
	}
	f := form()
	f.Set("exchange", "nope")
	assert.Contains(t, w.act(f).Body.String(), "No message matches any more")
	assert.Equal(t, http.StatusBadRequest, w.ask(http.MethodGet, unroutable+"&age=old", nil).Code)
	assert.Len(t, w.heap, 20)
}

// TestList_Pages: of many messages some are shown, and all can be.
func TestList_Pages(t *testing.T) {
	w := filled(t, 2*mostShown+1)
	assert.Contains(t, w.body(unroutable), "401 messages, the oldest first; 1 to 200 shown")
	assert.NotContains(t, w.body(unroutable), "Older")
	second := w.body(unroutable + "&from=200")
	assert.Contains(t, second, "201 to 400 shown")
	assert.Contains(t, second, `&amp;from=0">Older`)
	assert.Contains(t, second, `&amp;from=400">Newer`)
	last := w.body(unroutable + "&from=400")
	assert.Contains(t, last, "401 to 401 shown")
	assert.NotContains(t, last, "Newer")
	assert.Contains(t, w.body(unroutable+"&exchange=billing"), `&amp;exchange=billing&amp;from=200">Newer`)
	assert.Contains(t, w.body(unroutable+"&from=9999999999999"), "none shown")
}

// TestItem_Reason: why a message was given up is told with its last error, and a long one is cut in
// the list.
func TestItem_Reason(t *testing.T) {
	m := &item{Attempts: "3 attempts", Last: "503"}
	assert.Equal(t, "all 3 attempts failed: 503", m.reason("all 3 attempts failed"))
	assert.Equal(t, "3 attempts, permanent error: 503", m.reason("permanent error"))
	assert.Equal(t, "no such queue", (&item{}).reason("no such queue"))
	assert.Equal(t, strings.Repeat("ü", 160)+"…", listed{Why: strings.Repeat("ü", 161)}.Brief())
}

// TestPage_GetHasNoBody: a form in the body of a GET is not read, and its files fill no disk.
func TestPage_GetHasNoBody(t *testing.T) {
	w := filled(t, 1)
	for _, path := range []string{"/page/waiting", "/page/ticket", unroutable} {
		body := iotest.ErrReader(errors.New("it was read"))
		r := httptest.NewRequest(http.MethodGet, "http://localhost:8080"+path, body)
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		r.AddCookie(&http.Cookie{Name: w.Page.cookie(), Value: w.cookie})
		w.ServeHTTP(httptest.NewRecorder(), r)
		_, err := r.Body.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, path)
	}
}
