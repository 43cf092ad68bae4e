package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/delayer-go/delayer/internal/app/cli"
)

func TestMigrateEvacuate_Refuses(t *testing.T) {
	t.Setenv("DELAYER_URL", "amqp://guest:secret@127.0.0.1:1/")
	for args, says := range map[string]string{
		"evacuate":                                  "--rabbitmqctl is missing",
		"evacuate --rabbitmqctl x --leave 1s":       "--leave must be at least 10s",
		"evacuate --rabbitmqctl x' --dry-run":       "a quote is not closed",
		"evacuate --rabbitmqctl /no/such --dry-run": "give the command that runs rabbitmqctl on a node",
		"drain":                       "no management API",
		"drain --rabbitmqctl /no/ctl": "give the command that runs rabbitmqctl on a node",
	} {
		var out, err strings.Builder
		status := run(t.Context(), append([]string{"migrate"}, strings.Fields(args)...), strings.NewReader(""), &out, &err)
		assert.NotEqual(t, cli.OK, status, args)
		assert.Contains(t, err.String(), says, args)
		assert.NotContains(t, err.String(), "secret")
	}
}

func TestMigrateEvacuate_PluginBackend(t *testing.T) {
	t.Setenv("DELAYER_URL", "amqp://guest:secret@127.0.0.1:1/")
	t.Setenv("DELAYER_BACKEND", "plugin")
	var out, err strings.Builder
	status := run(t.Context(), []string{"migrate", "evacuate", "--rabbitmqctl", "x"}, strings.NewReader(""), &out, &err)
	assert.Equal(t, cli.Failed, status)
	assert.Contains(t, err.String(), "the configuration's backend is the plugin itself")
}
