package report_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/bench/report"
	"github.com/delayer-go/delayer/internal/lab/chromium"
)

// TestPageInChromium: the page of a real report loads nothing, says nothing in the console, and
// fits a phone and a wide screen.
func TestPageInChromium(t *testing.T) {
	browser := chromium.Start(t)
	file, err := os.Open("../../docs/results/3.10.json")
	require.NoError(t, err)
	defer file.Close() //nolint:errcheck // it was only read
	r, err := report.Read(file)
	require.NoError(t, err)
	var page bytes.Buffer
	require.NoError(t, r.WriteHTML(&page))
	path := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(path, page.Bytes(), 0o644))

	for _, width := range []int64{390, 1280} {
		tab, cancel := chromedp.NewContext(browser)
		defer cancel()
		require.NoError(t, chromedp.Do(tab), "opening a tab")
		var events eventLog
		require.NoError(t, chromedp.Listen(tab, events.note))
		const high = 900
		require.NoError(t, chromedp.Do(tab, chromedp.EmulateViewport(width, high)))
		require.NoError(t, chromedp.Do(tab, chromedp.Navigate("file://"+path)))
		scroll, err := chromedp.Run(tab, chromedp.Evaluate[int64]("document.scrollingElement.scrollWidth"))
		require.NoError(t, err)
		assert.LessOrEqual(t, scroll, width, "it overflows")
		screenshot(tab, t, width)
		events.mu.Lock()
		assert.Empty(t, events.wrong, "at %d px", width)
		events.mu.Unlock()
	}
}

// screenshot keeps a picture where DELAYER_TEST_SCREENSHOTS names a folder, to look at.
func screenshot(tab context.Context, t *testing.T, width int64) {
	folder := os.Getenv("DELAYER_TEST_SCREENSHOTS")
	if folder == "" {
		return
	}
	png, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, fmt.Sprintf("report-%d.png", width)), png, 0o644))
}

// An eventLog keeps what a page must not do.
type eventLog struct {
	mu    sync.Mutex
	wrong []string
}

func (e *eventLog) note(event any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch event := event.(type) {
	case *network.EventRequestWillBeSent:
		if url := event.Request.URL; !strings.HasPrefix(url, "file:") && !strings.HasPrefix(url, "data:") {
			e.wrong = append(e.wrong, "request: "+url)
		}
	case *runtime.EventExceptionThrown:
		e.wrong = append(e.wrong, "exception: "+event.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		e.wrong = append(e.wrong, "console: "+event.Type.String())
	case *log.EventEntryAdded:
		e.wrong = append(e.wrong, "log: "+event.Entry.Text)
	}
}
