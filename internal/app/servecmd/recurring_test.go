package servecmd

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/delayertest"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/lib/engine"
)

func TestRecurring_Config(t *testing.T) {
	e := entries{cfg: entry.Config{Delayer: delayertest.New(delayertest.Config{}), Settings: engine.Settings{Options: delayer.Options{Prefix: "delayer"}}}}
	const good = `{name: nightly, cron: "30 2 * * *", zone: Europe/Berlin, exchange: reports, key: nightly,
		body: '{"all": true}', content_type: application/json, headers: {tenant: 7, test: true, tags: [a, b]}}`
	for text, want := range map[string]string{
		good: "",
		`{name: n, cron: "* * * * *", key: q, removed: true}`:                        "",
		`{name: n, cron: "* * * * *", key: q, zone: Europe/Atlantis}`:                `serve.recurring: invalid configuration: "n": unknown time zone Europe/Atlantis`,
		`{name: n, cron: "* * * * *", key: q, zone: Local}`:                          `serve.recurring: invalid configuration: "n": Local differs between machines`,
		`{name: n, cron: "* * * * *", key: delayer.log}`:                             `"n": its destination belongs to the Delayer`,
		`{name: n, cron: "* * * * *", exchange: delayer.x, key: k}`:                  `"n": its destination belongs to the Delayer`,
		`{name: n, cron: "61 * * * *", key: q}`:                                      `recurring message "n": invalid configuration: cron "61 * * * *": it cannot be read`,
		`{name: n, cron: "* * * * *", key: q, headers: {x: {y: 1}}}`:                 `message "n": invalid configuration: `,
		`{name: n, cron: "* * * * *", key: q, at: "10:00"}`:                          "unknown key",
		`{name: n, cron: "* * * * *", key: q}, {name: n, cron: "0 * * * *", key: q}`: "there are two of that name",
	} {
		cfg, err := parseConfig([]byte("serve: {recurring: [" + text + "]}"))
		if err == nil {
			require.False(t, cfg.nothing())
			_, err = e.scheduler(cfg.Recurring)
		}
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorIs(t, err, delayer.ErrConfig, text)
		require.ErrorContains(t, err, want)
	}
}

// TestRecurring_Read: messages are scheduled, and as the file says once it is read again.
func TestRecurring_Read(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := delayertest.New(delayertest.Config{Timers: true})
		text := `serve: {recurring: [{name: n, cron: "0 * * * *", key: q, body: b}]}`
		read := func() (cfg backend.Config, serves config, err error) {
			serves, err = parseConfig([]byte(text))
			return cfg, serves, err
		}
		_, serves, err := read()
		require.NoError(t, err)
		e := entries{read: read, cfg: entry.Config{Delayer: d}, log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		first, err := e.open(ctx, serves)
		require.NoError(t, err)
		reread, ended := make(chan os.Signal), make(chan struct{})
		go func() {
			defer close(ended)
			e.run(ctx, first, reread)
		}()
		synctest.Wait()
		require.NoError(t, e.ready())
		require.Len(t, d.Waiting(), 1)
		require.Equal(t, "n@2000-01-01T01:00Z", d.Waiting()[0].ID)

		text = `serve: {recurring: [{name: n, cron: "0 * * * *", zone: Nowhere, key: q}]}`
		reread <- syscall.SIGHUP
		synctest.Wait()
		require.Len(t, d.Waiting(), 1, "the file cannot be served")
		text = `serve: {recurring: [{name: n, cron: "0 * * * *", key: q, removed: true}]}`
		reread <- syscall.SIGHUP
		synctest.Wait()
		require.Empty(t, d.Waiting())
		cancel()
		<-ended
	})
}

func TestRecurring_Backend(t *testing.T) {
	limits := delayertest.DefaultLimits()
	limits.CancelBefore = 0
	e := entries{cfg: entry.Config{Delayer: delayertest.New(delayertest.Config{Limits: limits})}}
	_, err := e.scheduler([]recurringMessage{{Name: "n", Cron: "* * * * *", Key: "q"}})
	require.ErrorContains(t, err, "the Delayer has no tickets (use backend controller with wheel slots, its default)")
	_, err = e.scheduler(nil)
	require.NoError(t, err)
}
