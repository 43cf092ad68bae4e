package servecmd

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/delayertest"
)

func TestRecurring_Config(t *testing.T) {
	d := delayertest.New(delayertest.Config{})
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
			_, err = newScheduler(d, "delayer", nil, cfg.Recurring)
		}
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorIs(t, err, delayer.ErrConfig, text)
		require.ErrorContains(t, err, want)
	}
}

// TestRecurring_Scheduled: messages are scheduled, and cancelled, as the file says.
func TestRecurring_Scheduled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := delayertest.New(delayertest.Config{Timers: true})
		schedule := func(message string) {
			cfg, err := parseConfig([]byte("serve: {recurring: [" + message + "]}"))
			require.NoError(t, err)
			s, err := newScheduler(d, "delayer", slog.New(slog.DiscardHandler), cfg.Recurring)
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); s.Run(ctx) }()
			synctest.Wait()
			cancel()
			<-ended
		}
		schedule(`{name: n, cron: "0 * * * *", key: q, body: b}`)
		require.Len(t, d.Waiting(), 1)
		require.Equal(t, "n@2000-01-01T01:00Z", d.Waiting()[0].ID)
		schedule(`{name: n, cron: "0 * * * *", key: q, removed: true}`)
		require.Empty(t, d.Waiting())
	})
}

func TestRecurring_Backend(t *testing.T) {
	limits := delayertest.DefaultLimits()
	limits.CancelBefore = 0
	d := delayertest.New(delayertest.Config{Limits: limits})
	_, err := newScheduler(d, "delayer", nil, []recurringMessage{{Name: "n", Cron: "* * * * *", Key: "q"}})
	require.ErrorContains(t, err, "the Delayer has no tickets (use backend controller with wheel slots, its default)")
	_, err = newScheduler(d, "delayer", nil, nil)
	require.NoError(t, err)
}
