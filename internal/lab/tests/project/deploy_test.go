package project_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type composeFile struct {
	Services map[string]struct {
		Image, Build string
		Profiles     []string
		Environment  map[string]string
		Ports        []string
		Volumes      []string
		Healthcheck  struct{ Test []string }
		DependsOn    map[string]struct{ Condition string } `yaml:"depends_on"`
	}
	Volumes map[string]any
}

func TestCompose(t *testing.T) {
	c := parse[composeFile](t, "compose.yaml")[0]
	for _, name := range []string{"rabbitmq", "rabbitmq-plugin", "serve", "prometheus", "grafana"} {
		require.Contains(t, c.Services, name)
	}
	tagged := regexp.MustCompile(`^[\w/.-]+:[\w.-]*\d[\w.-]*$`)
	for name, s := range c.Services {
		if s.Build == "" {
			assert.Regexp(t, tagged, s.Image, name)
		}
		for _, port := range s.Ports {
			assert.True(t, strings.HasPrefix(port, "127.0.0.1:"), "%s: %s is everybody's", name, port)
		}
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			switch {
			case strings.HasPrefix(source, "./deploy/"):
				_, err := os.Stat(root + source)
				assert.NoError(t, err, name)
			case source != "./grafana": // the dashboard has a test of its own
				assert.Contains(t, c.Volumes, source, name)
			}
		}
		assert.Equal(t, name == "rabbitmq-plugin", len(s.Profiles) > 0, "%s: only the plugin is asked for", name)
	}
	serve, broker := c.Services["serve"], c.Services["rabbitmq"]
	require.Equal(t, ".", serve.Build)
	require.Equal(t, "amqp://guest:guest@rabbitmq:5672/", serve.Environment["DELAYER_URL"], "the user that every page names")
	require.Equal(t, "service_healthy", serve.DependsOn["rabbitmq"].Condition)
	require.NotEmpty(t, broker.Healthcheck.Test)
	require.Equal(t, broker.Healthcheck, c.Services["rabbitmq-plugin"].Healthcheck)
	require.Contains(t, read(t, "deploy/enabled_plugins"), "rabbitmq_delayed_message_exchange")
}
