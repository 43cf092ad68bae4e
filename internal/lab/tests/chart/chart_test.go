// Package chart_test lints and renders the Helm chart, and hands what it renders to delayer serve.
package chart_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

const (
	root   = "../../../../"
	folder = root + "deploy/chart"
	image  = "image: registry.example/delayer:1\n"
)

// TestChart: what the chart gives is linted, is one whole, and runs the image as the image runs.
func TestChart(t *testing.T) {
	for _, m := range lint.All(folder, parse(t, image), "default", true).Messages {
		require.Less(t, m.Severity, support.WarningSev, m.Error())
	}
	objects := render(t, image)
	require.Len(t, objects, 4)
	deployment, config, service := objects["Deployment"], objects["ConfigMap"], objects["Service"]
	require.Equal(t, at(t, deployment, "spec.selector.matchLabels"), at(t, deployment, "spec.template.metadata.labels"))
	pod := at(t, deployment, "spec.template.spec")
	require.Equal(t, at(t, config, "metadata.name"), at(t, pod, "volumes.0.configMap.name"))
	user, _, _ := strings.Cut(instruction(t, "USER"), ":")
	require.Equal(t, user, fmt.Sprint(at(t, pod, "securityContext.runAsUser")))
	require.Equal(t, instruction(t, "EXPOSE"), fmt.Sprint(at(t, pod, "containers.0.ports.0.containerPort")))
	var args []any
	require.NoError(t, json.Unmarshal([]byte(instruction(t, "CMD")), &args))
	require.Equal(t, append(args, "--config", "/etc/delayer/delayer.yaml"), at(t, pod, "containers.0.args"), "as the image does by itself, with a configuration")

	require.Equal(t, at(t, deployment, "spec.selector"), at(t, objects["PodDisruptionBudget"], "spec.selector"))
	require.Equal(t, 1, at(t, objects["PodDisruptionBudget"], "spec.maxUnavailable"), "or no machine can be emptied")
	require.Equal(t, at(t, deployment, "spec.selector.matchLabels"), at(t, service, "spec.selector"))

	other := render(t, image+"config: {prefix: another}")["Deployment"]
	sum := "spec.template.metadata.annotations.checksum/config"
	require.NotEqual(t, at(t, deployment, sum), at(t, other, sum), "a change of the configuration is a roll-out")
}

// TestValues: of values, delayer serve takes what comes of them, or something says what is wrong
// before anything is connected to.
func TestValues(t *testing.T) {
	delayer := filepath.Join(t.TempDir(), "delayer")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", delayer, "./cmd/delayer")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for values, want := range map[string]struct {
		ports   []any // of the Service: its name, its number, the container's
		refused string
	}{
		image: {ports: []any{"api", 80, 8081}},
		image + "config: {serve: {amqp: {listen: ':5673'}}}":              {ports: []any{"api", 80, 8081, "amqp", 5672, 5673}},
		image + "config: {serve: {http: null, amqp: {listen: ':5673'}}}":  {ports: []any{"amqp", 5672, 5673}},
		image + "config: {serve: {http: null}}":                           {},
		image + "config: {serve: null}":                                   {},
		image + "config: {controller: {memory: 268435456}}\nmemory: 1024": {ports: []any{"api", 80, 8081}},
		"":                      {refused: "image: name the image that you pushed"},
		image + "secrets: mine": {refused: "secrets"},
		image + "replicas: 0":   {refused: "replicas"},
		image + "config: {serve: {amqp: {listen: localhost:5673}}}": {refused: "the Service needs a port alone, such as :8081"},
		image + "config: {serve: {http: {tokens: null}}}":           {refused: "there is none, and everybody who reaches :8081 could publish"},
		image + "config: {backend: magic}":                          {refused: "magic"},
		image + "config: {serve: {exchange: []}}":                   {refused: "exchange"},
	} {
		t.Run(values, func(t *testing.T) {
			objects, err := rendered(t, values)
			if err == nil {
				err = accepts(t, delayer, objects)
			}
			if want.refused != "" {
				require.ErrorContains(t, err, want.refused)
				return
			}
			require.NoError(t, err)
			require.Equal(t, want.ports, ports(t, objects))
		})
	}
}

// ports are those of the Service, each with its name, its number and that of the container's port.
func ports(t *testing.T, objects map[string]any) (all []any) {
	if objects["Service"] == nil {
		return nil
	}
	container := map[any]any{}
	for _, p := range at(t, objects["Deployment"], "spec.template.spec.containers.0.ports").([]any) {
		container[at(t, p, "name")] = at(t, p, "containerPort")
	}
	for _, p := range at(t, objects["Service"], "spec.ports").([]any) {
		all = append(all, at(t, p, "name"), at(t, p, "port"), container[at(t, p, "targetPort")])
	}
	return all
}

// accepts runs the container's command until it connects to a broker, which there is none of.
func accepts(t *testing.T, delayer string, objects map[string]any) error {
	dir := t.TempDir()
	text := strings.ReplaceAll(at(t, objects["ConfigMap"], "data").(map[string]any)["delayer.yaml"].(string), "/etc/delayer-secret", dir)
	tokens, err := os.ReadFile(root + "deploy/tokens.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokens.yaml"), tokens, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "delayer.yaml"), []byte(text), 0o600))
	command := exec.CommandContext(t.Context(), delayer)
	for _, arg := range at(t, objects["Deployment"], "spec.template.spec.containers.0.args").([]any) {
		command.Args = append(command.Args, strings.NewReplacer("/etc/delayer", dir, ":8080", "127.0.0.1:0").Replace(arg.(string)))
	}
	command.Env = []string{"DELAYER_URL=amqp://127.0.0.1:1"}
	out, err := command.CombinedOutput()
	require.Error(t, err, "there is no broker:\n%s", out)
	if strings.Contains(string(out), "127.0.0.1:1") {
		return nil
	}
	return fmt.Errorf("delayer serve: %s", out)
}

// render is the objects that values give, by kind.
func render(t *testing.T, values string) map[string]any {
	t.Helper()
	objects, err := rendered(t, values)
	require.NoError(t, err)
	return objects
}

func rendered(t *testing.T, values string) (map[string]any, error) {
	chart, err := loader.Load(folder)
	require.NoError(t, err)
	all, err := chartutil.ToRenderValues(chart, parse(t, values), chartutil.ReleaseOptions{Name: "later", Namespace: "default"}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	objects := map[string]any{}
	for _, text := range files {
		for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
			var object any
			if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("%w in\n%s", err, text)
			}
			objects[at(t, object, "kind").(string)] = object
		}
	}
	return objects, nil
}

// parse reads values as helm reads those of --values.
func parse(t *testing.T, text string) map[string]any {
	values, err := chartutil.ReadValues([]byte(text))
	require.NoError(t, err)
	return values
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

// instruction is what follows a word in the last stage of the Dockerfile.
func instruction(t *testing.T, word string) string {
	text, err := os.ReadFile(root + "Dockerfile")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^`+word+` (.*)$`).FindAllSubmatch(text, -1)
	require.NotEmpty(t, found, word)
	return string(found[len(found)-1][1])
}
