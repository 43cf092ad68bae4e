package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/migration/swap"
)

// removeBridge removes what a bridge left. force ignores what waits in the Delayer.
func (m *migrationSession) removeBridge(ctx context.Context, s *swap.Swapper, force bool) error {
	waiting := 0
	if !force {
		var err error
		if waiting, err = m.waiting(ctx); err != nil {
			return err
		}
	}
	return s.RemoveBridge(ctx, m.wire(), waiting)
}

// waiting counts the messages in the queues of the configured backend, those that were kept as
// unroutable excepted.
func (m *migrationSession) waiting(ctx context.Context) (int, error) {
	queues, err := m.waitingQueues()
	if err != nil {
		return 0, err
	}
	total := 0
	for _, name := range queues {
		d, err := m.wire().Depth(ctx, name)
		if err != nil {
			return 0, err
		}
		total += d.Messages
	}
	return total, nil
}

func (m *migrationSession) waitingQueues() ([]string, error) {
	var text bytes.Buffer
	if err := backend.WriteDefinitions(&text, m.cfg); err != nil {
		return nil, err
	}
	var definitions struct {
		Queues []struct{ Name string }
	}
	if err := json.Unmarshal(text.Bytes(), &definitions); err != nil {
		return nil, err
	}
	var names []string
	for _, q := range definitions.Queues {
		prefix := m.settings.Prefix
		if q.Name != prefix+".unroutable" && !strings.HasPrefix(q.Name, prefix+".watch") {
			names = append(names, q.Name)
		}
	}
	return names, nil
}
