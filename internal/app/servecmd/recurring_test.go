package servecmd

import (
	"testing"

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

func TestRecurring_Backend(t *testing.T) {
	with := config{Recurring: make([]recurringMessage, 1)}
	for name, want := range map[string]bool{"controller": true, "binaryladder": false} {
		err := checkRecurring(backend.Config{Backend: name}, with)
		require.Equal(t, want, err == nil, name)
		if !want {
			require.ErrorContains(t, err, "serve.recurring: invalid configuration: the backend has no tickets, which these messages need (write backend: controller")
		}
	}
}
