// Package chromium starts a browser for tests that look at pages.
package chromium

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

// deadline is for all that a test does in its browser, the start included, on a slow machine.
const deadline = 5 * time.Minute

var names = []string{
	"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless-shell",
	"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
}

// find returns one that runs, or skips the test. Where a package is only a hint to install another
// one, the name exists and the browser does not.
func find(t *testing.T) string {
	t.Helper()
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		if err := exec.CommandContext(ctx, path, "--version").Run(); err == nil {
			return path
		}
	}
	rabbittest.Skipf(t, "there is no Chromium here (make install-chromium)")
	return ""
}

// Start starts a Chromium of the test's own, with a profile of its own, that ends with the test.
func Start(t *testing.T) context.Context {
	t.Helper()
	path := find(t)
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.WSURLReadTimeout(deadline),
		chromedp.NoSandbox, // it opens our own pages only, and containers often allow no sandbox
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx), "starting %s", path)
	t.Cleanup(func() { require.NoError(t, chromedp.Cancel(ctx), "ending the browser") })
	return ctx
}
