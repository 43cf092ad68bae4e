package project_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
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

// at is what a YAML document has at a path such as spec.containers.0.image.
func at(t *testing.T, document any, path string) any {
	t.Helper()
	for key := range strings.SplitSeq(path, ".") {
		switch v := document.(type) {
		case map[string]any:
			require.Contains(t, v, key, path)
			document = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			require.NoError(t, err, path)
			require.Less(t, i, len(v), path)
			document = v[i]
		default:
			t.Fatalf("%s: no %s in %v", path, key, document)
		}
	}
	return document
}

func TestKubernetes(t *testing.T) {
	documents := parse[any](t, "deploy/kubernetes/serve.yaml")
	require.Len(t, documents, 3)
	deployment, service, budget := documents[0], documents[1], documents[2]
	for path, want := range map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "spec.replicas": 2,
		"spec.template.metadata.labels":                                          at(t, deployment, "spec.selector.matchLabels"),
		"spec.template.spec.securityContext.runAsNonRoot":                        true,
		"spec.template.spec.containers.0.env.0.name":                             "DELAYER_URL",
		"spec.template.spec.containers.0.ports.0.name":                           "http",
		"spec.template.spec.containers.0.livenessProbe.httpGet.path":             "/healthz",
		"spec.template.spec.containers.0.livenessProbe.httpGet.port":             "http",
		"spec.template.spec.containers.0.readinessProbe.httpGet.path":            "/readyz",
		"spec.template.spec.containers.0.readinessProbe.httpGet.port":            "http",
		"spec.template.spec.containers.0.securityContext.readOnlyRootFilesystem": true,
		"spec.template.spec.containers.0.env.0.valueFrom.secretKeyRef.key":       "url",
	} {
		require.Equal(t, want, at(t, deployment, path), path)
	}
	pod := at(t, deployment, "spec.template.spec")
	require.NotEmpty(t, at(t, pod, "containers.0.resources.requests.cpu"))
	require.NotEmpty(t, at(t, pod, "containers.0.resources.limits.memory"))
	user, _, _ := strings.Cut(instruction(t, "USER"), ":")
	require.Equal(t, user, fmt.Sprint(at(t, pod, "securityContext.runAsUser")))
	require.Equal(t, instruction(t, "EXPOSE"), fmt.Sprint(at(t, pod, "containers.0.ports.0.containerPort")))
	var image []any
	require.NoError(t, json.Unmarshal([]byte(instruction(t, "CMD")), &image))
	require.Equal(t, append(image, "--config", "/etc/delayer/delayer.yaml"), at(t, pod, "containers.0.args"), "as the image does by itself, with a configuration")
	require.Equal(t, at(t, pod, "volumes.0.name"), at(t, pod, "containers.0.volumeMounts.0.name"))
	require.Equal(t, "/etc/delayer", at(t, pod, "containers.0.volumeMounts.0.mountPath"))

	require.Equal(t, "policy/v1", at(t, budget, "apiVersion"))
	require.Equal(t, "PodDisruptionBudget", at(t, budget, "kind"))
	require.Less(t, at(t, budget, "spec.minAvailable"), at(t, deployment, "spec.replicas"), "or no machine can be emptied")
	require.Equal(t, at(t, deployment, "spec.selector"), at(t, budget, "spec.selector"))

	require.Equal(t, "Service", at(t, service, "kind"))
	require.Equal(t, at(t, deployment, "spec.selector.matchLabels"), at(t, service, "spec.selector"))
	require.Equal(t, at(t, pod, "containers.0.ports.1.name"), at(t, service, "spec.ports.0.targetPort"))

	kustomization := parse[any](t, "deploy/kubernetes/kustomization.yaml")[0]
	require.Equal(t, "serve.yaml", at(t, kustomization, "resources.0"))
	require.Equal(t, at(t, pod, "volumes.0.configMap.name"), at(t, kustomization, "configMapGenerator.0.name"))
	require.Equal(t, "delayer.yaml", at(t, kustomization, "configMapGenerator.0.files.0"))
	compose, here := parse[any](t, "deploy/delayer.yaml")[0], parse[any](t, "deploy/kubernetes/delayer.yaml")[0]
	require.Equal(t, at(t, compose, "serve.exchanges"), at(t, here, "serve.exchanges"))
	require.Equal(t, fmt.Sprintf(":%v", at(t, pod, "containers.0.ports.1.containerPort")), at(t, here, "serve.http.listen"))
	require.Equal(t, at(t, pod, "volumes.1.name"), at(t, pod, "containers.0.volumeMounts.1.name"))
	require.Equal(t, at(t, pod, "containers.0.env.0.valueFrom.secretKeyRef.name"), at(t, pod, "volumes.1.secret.secretName"), "one Secret has both")
	tokens := fmt.Sprintf("%v/%v", at(t, pod, "containers.0.volumeMounts.1.mountPath"), at(t, pod, "volumes.1.secret.items.0.path"))
	require.Equal(t, tokens, at(t, here, "serve.http.tokens"))
	require.Equal(t, at(t, pod, "containers.0.image"), at(t, kustomization, "images.0.name"))
}
