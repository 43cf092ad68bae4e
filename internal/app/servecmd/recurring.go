package servecmd

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
	_ "time/tzdata" // an image may have no time zones

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/delayer-go/delayer"
	"github.com/delayer-go/delayer/internal/app/entry"
	"github.com/delayer-go/delayer/internal/lib/engine"
	"github.com/delayer-go/delayer/recurring"
)

// A recurringMessage is one of serve.recurring: see [recurring.Message].
type recurringMessage struct {
	Name        string         `yaml:"name"`
	Cron        string         `yaml:"cron"`
	Zone        string         `yaml:"zone"` // default: UTC
	Exchange    string         `yaml:"exchange"`
	Key         string         `yaml:"key"`
	Body        string         `yaml:"body"`
	ContentType string         `yaml:"content_type"`
	Headers     map[string]any `yaml:"headers"`
	Removed     bool           `yaml:"removed"`
}

// newScheduler returns what schedules messages through a Delayer with a prefix, or nil if there is
// none.
func newScheduler(by delayer.Delayer, prefix string, log *slog.Logger, messages []recurringMessage) (*recurring.Scheduler, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	cfg := recurring.Config{Logger: log}
	for _, m := range messages {
		zone, err := time.LoadLocation(m.Zone)
		switch {
		case err != nil:
		case zone == time.Local:
			err = errors.New("Local differs between machines")
		case entry.Owns(prefix, m.Exchange), m.Exchange == "" && entry.Owns(prefix, m.Key):
			err = errors.New("its destination belongs to the Delayer")
		}
		if err != nil {
			return nil, engine.ConfigError("serve.recurring", fmt.Errorf("%.80q: %w", m.Name, err), "")
		}
		cfg.Messages = append(cfg.Messages, recurring.Message{
			Name: m.Name, Cron: m.Cron, Zone: zone, Removed: m.Removed,
			Message: delayer.Message{Exchange: m.Exchange, Key: m.Key, Publishing: amqp091.Publishing{
				Body: []byte(m.Body), ContentType: m.ContentType, Headers: m.Headers,
			}},
		})
	}
	return recurring.New(by, cfg)
}
