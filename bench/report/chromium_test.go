package report_test

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/chromium"
)

// A look is how a page is looked at.
type look struct {
	width  int64
	scheme string // light or dark
	media  string // screen or print
}

func (l look) String() string { return fmt.Sprintf("%s, %s, %d px", l.media, l.scheme, l.width) }

//go:embed testdata/inspect.js
var inspectScript string

// inspect opens the page in a tab of its own and returns all that is wrong with it.
func inspect(browser context.Context, t *testing.T, path string, l look) []string {
	t.Helper()
	tab, cancel := chromedp.NewContext(browser)
	defer cancel()
	require.NoError(t, chromedp.Do(tab), "opening a tab")
	var events eventLog
	require.NoError(t, chromedp.Listen(tab, events.note))
	const high = 900
	require.NoError(t, chromedp.Do(tab, chromedp.EmulateViewport(l.width, high)))
	_, err := chromedp.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: l.media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: l.scheme}},
	})
	require.NoError(t, err)
	require.NoError(t, chromedp.Do(tab, chromedp.Navigate("file://"+path)))
	wrong, err := chromedp.Run(tab, chromedp.Evaluate[[]string](
		fmt.Sprintf("%s\ninspect(%d, %q, %q)", inspectScript, l.width, l.scheme, l.media)))
	require.NoError(t, err)
	if l.media == "print" && l.scheme == "light" { // it takes long
		pdf, err := chromedp.Run(tab, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4), chromedp.PDFPrintBackground()))
		require.NoError(t, err)
		if !strings.HasPrefix(string(pdf), "%PDF") {
			wrong = append(wrong, "it does not print")
		}
	}
	return append(wrong, events.wrong("file://"+path)...)
}

// An eventLog keeps what a page must not do.
type eventLog struct {
	mu       sync.Mutex
	requests []string
	errors   []string
}

func (e *eventLog) note(event any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		e.requests = append(e.requests, event.Request.URL)
	case *runtime.EventExceptionThrown:
		e.errors = append(e.errors, "exception: "+event.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		e.errors = append(e.errors, "console: "+event.Type.String())
	case *log.EventEntryAdded:
		e.errors = append(e.errors, "log: "+event.Entry.Text)
	}
}

func (e *eventLog) wrong(own string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := slices.Clone(e.errors)
	for _, url := range e.requests {
		if url != own && !strings.HasPrefix(url, "data:") {
			out = append(out, "request: "+url)
		}
	}
	return out
}

func TestPageInChromium(t *testing.T) {
	browser := chromium.Start(t)
	t.Run("mistakes are found", func(t *testing.T) { findsMistakes(browser, t) })
	full, _ := rendered(t, "full", full())
	empty, _ := rendered(t, "empty", empty())
	for _, l := range []look{
		{360, "light", "screen"}, {360, "dark", "screen"}, {1440, "light", "screen"}, {1440, "dark", "screen"},
		{703, "light", "print"}, {703, "dark", "print"}, // A4 within its margins: a browser shrinks what is wider
	} {
		t.Run(l.String(), func(t *testing.T) {
			require.Empty(t, strings.Join(inspect(browser, t, full, l), "\n"))
			require.Empty(t, strings.Join(inspect(browser, t, empty, l), "\n"), "of a report without runs")
		})
	}
}

// findsMistakes inspects a page with one of each mistake: an inspection that finds nothing would
// prove nothing.
func findsMistakes(browser context.Context, t *testing.T) {
	t.Helper()
	path := write(t, "broken", brokenPage)
	wrong := strings.Join(inspect(browser, t, path, look{360, "dark", "screen"}), "\n")
	for _, want := range []string{
		"overflows", "without a title", "without a table", "without a scope", "without a caption", "cannot be focused",
		"cut off", "contrast", "overlap", "not dark", "request: file:///nowhere.png", "console: error", "exception: ",
	} {
		require.Contains(t, wrong, want)
	}
	wrong = strings.Join(inspect(browser, t, path, look{703, "dark", "print"}), "\n")
	require.Contains(t, wrong, "not printed")
}

const brokenPage = `<!DOCTYPE html><html><head><title>broken</title></head><body style="background: #fff">
<p style="width: 2000px; color: #ddd">too wide, too pale</p>
<figure><svg role="img" width="90" height="30"><text y="20">one</text><text y="21">two</text></svg></figure>
<div id="verdict"><div class="scroll" style="overflow-x: auto; width: 100px"><table><tr><th>a</th><td style="padding: 99px">b</td></tr></table></div></div>
<details><summary>closed</summary><table><tr><td>hidden</td></tr></table></details>
<img src="/nowhere.png"><script>console.error("wrong"); throw new Error("thrown")</script></body></html>`
