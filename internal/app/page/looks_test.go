package page

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"maps"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/app/kept"
	"github.com/delayer-go/delayer/internal/lab/chromium"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
	"github.com/delayer-go/delayer/internal/lib/messagejson"
	"github.com/delayer-go/delayer/internal/lib/undelivered"
	"github.com/delayer-go/delayer/status"
)

// shots is a folder for pictures of all pages: go test ./internal/app/page -run TestPages -shots
// /tmp/shots
var shots = flag.String("shots", "", "write a picture of each page, light and dark, wide and narrow, into this folder")

// axe is where scripts/install-checkers.sh puts what finds that pages keep people out.
const axe = "../../../bin/checkers/node_modules/axe-core/axe.min.js"

// links are the addresses that HTML of ours leads to.
var links = regexp.MustCompile(`href="(/[^"]*)"`)

// crawl returns the HTML of all pages that can be reached from the first by links, one for each
// path, by their addresses.
func (w *site) crawl() map[string]string {
	w.Helper()
	found, paths, todo := map[string]string{}, map[string]bool{}, []string{"/", unroutable + "&find=orders", "/page/message?queue=delayer.unroutable&id=m1.0", "/page/waiting"}
	for len(todo) > 0 {
		address := todo[0]
		todo = todo[1:]
		at, err := url.Parse(address)
		require.NoError(w, err)
		if paths[at.Path] || slices.Contains(static, filepath.Base(at.Path)) || at.Query().Has("as") {
			continue
		}
		paths[at.Path], found[address] = true, w.body(address)
		for _, link := range links.FindAllStringSubmatch(found[address], -1) {
			todo = append(todo, html.UnescapeString(link[1]))
		}
	}
	return found
}

// furnished is a page with something of everything.
func furnished(t *testing.T) *site {
	t.Helper()
	w := filled(t, 50)
	for i, m := range w.heap {
		m.To, m.Key, m.MessageID = "exchange "+string(*m.Exchange), messagejson.Text(fmt.Sprintf("order.%d", i)), messagejson.Text(fmt.Sprintf("m%d", i))
		m.Why, m.LastError, m.Size = "exchange was gone, is there now: retry", "", 417+i
		m.Since = messagejson.Instant(asked.Add(-time.Duration(i*i+3) * time.Minute))
		m.whole = func() kept.Whole {
			return kept.Whole{
				Failures: []kept.Failure{{Attempt: 1, At: asked.Add(-time.Hour), Error: "no: " + evil}, {Attempt: 2, At: asked, Error: "timeout\nafter 5s"}},
				Content: undelivered.Content{
					Properties: messagejson.Properties{ContentType: "application/json"}, Body: []byte(`{"order": 4711, "note": "` + evil + `"}`),
				},
			}
		}
	}
	w.act(url.Values{"queue": {"delayer.unroutable"}, "action": {"delete"}, "id": {"m0.0", "gone.0"}, "sure": {"yes"}})
	w.tells.retried = retried{More: 3, Queues: []retryQueue{
		attempts(retryQueue{Name: "mails", Parked: "delayer.parked", Ready: 1234, Handling: 2, Workers: 3, Given: 4}, 98765, 1.25),
		{Name: "invoices." + strings.Repeat("long", 20), Parked: "invoices.parked", There: true, Ready: 7}, {Name: "gone", Parked: "gone.parked"},
	}}
	return w
}

// TestPages: axe-core finds nothing on any page, and nothing is wider than the window. With -shots
// there are pictures to look at.
func TestPages(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(axe)
	if err != nil && *shots == "" {
		rabbittest.Skipf(t, "not run: there is no axe-core (make install-checkers)")
	}
	w := furnished(t)
	b := w.look()
	b.axe = string(script)
	b.check("login")
	b.login()
	for _, address := range slices.Sorted(maps.Keys(w.crawl())) {
		b.open(address)
		at, _, _ := strings.Cut(strings.Trim(strings.TrimPrefix(address, "/page"), "/"), "?")
		b.check(cmp.Or(strings.ReplaceAll(at, "/", "-"), "overview"))
	}
	b.open(unroutable)
	b.do(chromedp.Click("tbody tr:nth-child(2) input"), chromedp.Click("button[value=delete]"), chromedp.WaitVisible(".narrow button"))
	b.check("confirm")
	b.open("/page/queue?missed&queue=" + url.QueryEscape("delayer.serve.parked.orders"+evil))
	b.check("queue-missed")
	last := w.Figures.look(t.Context())
	last.Err = context.DeadlineExceeded
	w.Figures.set(last)
	b.open("/")
	b.do(chromedp.WaitVisible(".old .facts"))
	b.check("overview-away")
	for _, n := range []int{0, 1_000_000} { // the second is in the README
		for i := range 50 * 60 { // for an hour
			if i%50 == 0 {
				w.at = w.at.Add(time.Minute)
			}
			for range 1 + i*i%7 + i/500 {
				w.Rates.delivered(delayer.DeliveryEvent{Lateness: time.Duration(i%9+1) * time.Millisecond})
			}
		}
		w.at = w.at.Add(time.Minute)
		s := scene(n, w.at)
		w.Figures.set(look{figures{Status: s, Entries: []entry.Depth{{Exchange: "orders", Waiting: 7}}}, reply{At: w.at, Known: true}})
		b.open("/")
		b.check(fmt.Sprintf("overview-%d", n))
	}
	if b.axe != "" {
		b.do(chromedp.Navigate("data:text/html,<title></title><img src=x><p style='color:%23eee;width:9999px'>pale"))
		for _, want := range []string{"image-alt", "color-contrast", "wider than the window"} {
			assert.Contains(t, strings.Join(b.wrong(), "\n"), want, "what is wrong must be found")
		}
	}
}

// set makes figures be known.
func (f *Figures) set(known look) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.known, f.next = known.figures, known.reply, f.now().Add(mostEvery)
}

// A looker looks at pages in a browser.
type looker struct {
	*testing.T
	tab       context.Context
	base, axe string
}

// look serves a page, and opens its login in a browser.
func (w *site) look() looker {
	w.Helper()
	server := httptest.NewServer(w)
	w.Cleanup(server.Close)
	b := looker{T: w.T, tab: chromium.Start(w.T), base: server.URL}
	b.open("/page/login")
	return b
}

func (b looker) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	require.NoError(b, chromedp.Do(b.tab, steps...))
}

func (b looker) open(address string) { b.Helper(); b.do(chromedp.Navigate(b.base + address)) }

func (b looker) login() {
	b.Helper()
	b.do(chromedp.SendKeys("#token", "a"), chromedp.Click("main button"), chromedp.WaitVisible(".facts"))
}

// check fails if axe-core finds something on the page that is shown, light and wide or dark and
// narrow, or if one must scroll to the side; and writes pictures.
func (b looker) check(name string) {
	b.Helper()
	const high = 900
	for i, v := range []struct {
		scheme string
		wide   int64
	}{{"light", 1280}, {"dark", 360}, {"dark", 1280}, {"light", 390}} {
		if i > 1 && *shots == "" {
			break
		}
		b.do(chromedp.EmulateViewport(v.wide, high))
		_, err := chromedp.Call(b.tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.scheme}},
		})
		require.NoError(b, err)
		hidden, err := chromedp.Run(b.tab, chromedp.Evaluate[string](`[...document.querySelectorAll("td a, .list .key")].filter(
			(e) => e.getBoundingClientRect().right > innerWidth || !e.offsetParent).map((e) => e.textContent).join(", ")`))
		require.NoError(b, err)
		assert.Empty(b, hidden, "not to be seen: %s, %d px", name, v.wide)
		if b.axe != "" {
			assert.Empty(b, b.wrong(), "%s, %s, %d px", name, v.scheme, v.wide)
		}
		if *shots != "" {
			picture, err := chromedp.Run(b.tab, chromedp.FullScreenshot(100))
			require.NoError(b, err)
			file := filepath.Join(*shots, fmt.Sprintf("%s-%s-%d.png", name, v.scheme, v.wide))
			require.NoError(b, os.WriteFile(file, picture, 0o600))
		}
	}
}

// wrong is what axe-core finds, and whether one must scroll to the side.
func (b looker) wrong() (list []string) {
	b.Helper()
	text, err := chromedp.Run(b.tab, chromedp.Evaluate[string](b.axe+`;
axe.run(document, {resultTypes: ["violations"]}).then((found) => {
  const wrong = found.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.target + " " + n.failureSummary).join("; "));
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) wrong.push("wider than the window: " + root.scrollWidth);
  return JSON.stringify(wrong);
})`, chromedp.EvalAwaitPromise))
	require.NoError(b, err)
	require.NoError(b, json.Unmarshal([]byte(text), &list))
	return list
}

// TestPages_Keyboard: with keys alone one logs in, finds a message and deletes it, and sees where
// one is.
func TestPages_Keyboard(t *testing.T) {
	t.Parallel()
	w := filled(t, 3)
	b := w.look()
	// to presses Tab until an element has the focus, and a frame around it.
	to := func(selector string, how ...chromedp.KeyOption) {
		t.Helper()
		for range 100 {
			b.do(chromedp.KeyEvent(kb.Tab, how...))
			there, err := chromedp.Run(b.tab, chromedp.Evaluate[bool](fmt.Sprintf(
				"document.activeElement.matches(%q) && getComputedStyle(document.activeElement).outlineStyle === 'solid'", selector)))
			require.NoError(t, err)
			if there {
				return
			}
		}
		require.Fail(t, "cannot be reached with Tab: "+selector)
	}
	b.do(chromedp.KeyEvent("a"+kb.Enter), chromedp.WaitVisible("nav"))
	to(".skip")
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("main:focus"))
	b.open("/")
	to("a[href='/page/undelivered']")
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("[aria-current][href='/page/undelivered']"))
	to("tbody a")
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#every"))
	to("tbody tr:nth-child(2) input")
	b.do(chromedp.KeyEvent(" "))
	to("button[value=delete]", chromedp.KeyModifiers(chromedp.ModifierShift))
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(".narrow button"))
	to(".narrow button")
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("h1 [role=status]"))
	w.Backlog.done.Wait()
	assert.Len(t, w.heap, 2)
}

// TestPages_Times: times are written, and typed, in the reader's zone. In UTC they are as they were
// sent, and without a script too.
func TestPages_Times(t *testing.T) {
	t.Parallel()
	w, by := withTickets(t)
	w.broker.status.Backends = slots().Backends
	w.broker.status.Backends[0].Due = w.broker.status.Backends[0].Due[1:]
	w.put("m1", "", nil)
	b := w.look()
	in := func(zone string) {
		_, err := chromedp.Call(b.tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone})
		require.NoError(t, err)
	}
	read := func(script string) (text string) {
		text, err := chromedp.Run(b.tab, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
		require.NoError(t, err)
		return text
	}
	text := func() string { // once the page's script has run, which a click does not wait for
		return read("new Promise((done) => document.readyState === 'complete' ? done() : addEventListener('load', done))" +
			".then(() => document.body.innerText)")
	}
	in("America/St_Johns")
	b.login()
	for range 2 {
		assert.Contains(t, text(), "read 10:30:30 UTC-3:30")
		assert.Contains(t, text(), "Times are in America/St_Johns. Made 10:30:30 UTC-3:30.")
		const panels, hours, days = "[...document.querySelectorAll('.panel')]", "[1].textContent", "[2].textContent"
		assert.Contains(t, read(panels+hours), "Mon 10:30")
		assert.Contains(t, read(panels+hours), "from (America/St_Johns)")
		assert.Contains(t, read(panels+days), "day in UTC")
		assert.Contains(t, read("document.querySelectorAll('.panel')[1].querySelector('rect title').textContent"), "Mon 10:30: ")
		assert.Equal(t, "2026-11-23T14:00:30Z", read("document.querySelector('footer time').title"))
		read("refresh().then(() => '')") // the newer figures
	}
	b.open("/page/waiting")
	for _, want := range []string{"10:50 to 11:11", "10:30:34", "due (America/St_Johns)", "at 10:30:34 UTC-3:30"} {
		assert.Contains(t, text(), want)
	}
	b.open(unroutable)
	assert.Contains(t, text(), "Nov 23 10:30:30 UTC-3:30, now")
	b.open("/page/ticket?ticket=d2.one")
	assert.Contains(t, text(), "Nov 23 11:30:30 UTC-3:30, in 1h 0m")
	b.do(chromedp.SendKeys("#by", "33h"))
	b.do(chromedp.Click("button[value=postpone]"), chromedp.WaitVisible(".narrow button"))
	assert.Contains(t, text(), "It is due Nov 24 20:30:30 UTC-3:30, in 1d 10h then.")
	b.do(chromedp.Click(".narrow button"), chromedp.WaitVisible("h1 [role=status]"))
	assert.Equal(t, 34*time.Hour, by.postponed)

	in("UTC")
	for _, address := range []string{"/", "/page/waiting", unroutable, "/page/ticket?ticket=d2.one"} {
		b.open(address)
		const all = "JSON.stringify([...%s.querySelectorAll('time')].map((time) => time.textContent))"
		shown := read(fmt.Sprintf(all, "document"))
		assert.Equal(t, read("fetch(location.href).then((r) => r.text()).then((text) => "+
			fmt.Sprintf(all, "new DOMParser().parseFromString(text, 'text/html')")+")"), shown, address)
		assert.Contains(t, shown, "14:00:30 UTC")
	}
	in("America/St_Johns")
	_, err := chromedp.Call(b.tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	b.open("/")
	found, err := chromedp.Run(b.tab, chromedp.Text("body"))
	require.NoError(t, err)
	assert.Contains(t, found, "read 14:00:30 UTC")
	assert.Contains(t, found, "Times are in UTC.")
}

// scene is a status as one may look at it, with n messages waiting.
func scene(n int, at time.Time) status.Status {
	minute := func(i int) time.Time { return at.Truncate(time.Minute).Add(time.Duration(i) * time.Minute) }
	s := status.Status{
		Time: at, Broker: status.Broker{Address: "amqp://rabbit1:5672/", Version: "4.3.6"}, Prefix: "delayer", Waiting: &n,
		Backends:   []status.Backend{{Name: "controller", Configured: true, Waiting: &n, Unread: ptr(0), Controllers: ptr(2)}},
		Misrouted:  &status.Queue{Name: "delayer.misrouted"},
		Unroutable: &status.Queue{Name: "delayer.unroutable", Messages: min(n, 3)},
		Parked:     []status.Queue{{Name: "invoices.parked", Messages: min(n, 50)}}, Policies: []string{},
	}
	b := &s.Backends[0]
	b.Due = []status.Due{}
	left := n
	add := func(from, to, messages int) {
		messages = min(messages, left)
		if left -= messages; messages > 0 {
			b.Due = append(b.Due, status.Due{From: minute(from), To: minute(to), Messages: messages})
		}
	}
	for i := range 30 {
		add(i, i+1, n/200+(i*i*7919)%(n/150+2))
	}
	for i := range 4 {
		add(30+20*i, 50+20*i, n/25+(i*7919)%(n/40+2))
	}
	for i := range 12 {
		add(110+120*i, 230+120*i, n/40+(i*i*7919)%(n/60+2))
	}
	for i := range 14 {
		add(1550+720*i, 2270+720*i, cmp.Or(n/(30+3*i), 1))
	}
	b.Due = append(b.Due, status.Due{From: minute(12000), To: minute(12720), Messages: left})
	return s
}
