package delayer_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/delayer-go/delayer"

// amqpclient is the one internal package that the suite may import: it imports nothing of ours.
const amqpclient = module + "/internal/amqpclient"

// rules say which packages may not import which, directly or not, and why.
var rules = []struct{ from, notTo, why string }{
	{"", module + "/", "the contract imports nothing of ours: everything is built on it"},
	{"internal/message", module + "/internal/", "what may go on the wire is pure"},
	{"internal/broker", module + "/internal/topology", "the wire knows nothing of delays"},
	{"internal/broker", module + "/internal/delivery", "the wire knows nothing of delays"},
	{"internal/guard", module + "/internal/engine", "what is known of policies does not depend on who publishes"},
	{"internal", module + "/backend", "data flows one way: backends are built on internal packages"},
	{"backend/binaryladder", module + "/backend", "only package backend knows all backends; none imports another"},
	{"backend/fixedtiers", module + "/backend", "only package backend knows all backends; none imports another"},
	{"backend/plugin", module + "/backend", "only package backend knows all backends; none imports another"},
	{"backend/controller", module + "/backend", "only package backend knows all backends; none imports another"},
	{"backend", module + "/internal/rabbit", "what a consumer links has no broker launcher in it"},
	{"backend", "github.com/ory/dockertest", "what a consumer links stays small"},
	{"backend", "github.com/stretchr/testify", "what a consumer links has no test helper in it"},
	{"backend", module + "/bench", "benchmarks are built on backends"},
	{"backend", "testing", "production code imports no testing"},
	{"bench", module + "/internal/rabbit", "the benchmark takes a broker, it does not start one"},
	{"backend", "github.com/michaelklishin/rabbit-hole", "only the command talks to the management API"},
	{"bench", "github.com/michaelklishin/rabbit-hole", "only the command talks to the management API"},
	{"bench", "github.com/chromedp", "a browser is for tests: the report is made without one"},
	{"bench", module + "/cmd", "the command is the outermost layer"},
	{"backend", amqpclient, "the library has a client of its own"},
	{"internal/amqpclient", module + "/", "the library is not tested with itself"},
	{"conformance", module + "/internal/", "the library is not tested with itself"},
	{"cmd/delayer", module + "/internal/rabbit", "what runs in production starts no broker"},
	{"cmd/delayer", "github.com/ory/dockertest", "what runs in production starts no containers"},
	{"cmd/delayer", module + "/bench", "the benchmark is a command of its own, cmd/delayer-bench"},
	{"cmd/delayer", "github.com/chromedp", "a browser is for tests"},
	{"cmd/delayer", "testing", "production code imports no testing"},
	{"conformance", module + "/backend", "the suite knows no backend"},
	{"internal/attempt", module + "/internal/", "what a failed message carries is pure"},
	{"retry", module + "/backend", "whoever retries opens the backend that it needs"},
	{"retry", module + "/internal/engine", "a retry is published through the Delayer's interface alone"},
	{"retry", "go.yaml.in/yaml", "a policy is a plain struct: its service reads the file"},
	{"retry", "github.com/stretchr/testify", "what a consumer links has no test helper in it"},
	{"retry", "testing", "production code imports no testing"},
	{"internal/xdelay", module + "/", "what a header means is pure"},
	{"backend", module + "/internal/migration", "only the command migrates"},
	{"retry", module + "/internal/migration", "only the command migrates"},
	{"migrate", module + "/backend", "whoever publishes opens the backend that it needs"},
	{"migrate", module + "/internal/engine", "a header becomes a delay of the Delayer's interface, and nothing else"},
	{"migrate", module + "/internal/migration", "a service publishes: the command migrates"},
	{"migrate", "testing", "production code imports no testing"},
	{"status", module + "/internal/migration", "who looks at a broker migrates nothing"},
	{"status", "testing", "production code imports no testing"},
	{"gorabbitmq", module + "/backend", "whoever publishes opens the backend that it needs"},
	{"gorabbitmq", module + "/internal/engine", "a publisher publishes through the Delayer's interface alone"},
	{"gorabbitmq", "testing", "production code imports no testing"},
	{"metrics", module + "/backend", "the metrics take events, whichever backend they are of"},
	{"metrics", module + "/internal/engine", "the metrics take events, and publish nothing"},
	{"metrics", "testing", "production code imports no testing"},
	{"tracing", module + "/backend", "whoever publishes opens the backend that it needs"},
	{"tracing", module + "/internal/engine", "a span is around the Delayer's interface"},
	{"tracing", "testing", "production code imports no testing"},
	{"watermilldelay", module + "/backend", "whoever publishes opens the backend that it needs"},
	{"watermilldelay", module + "/internal/", "an adapter is built on the contract alone"},
	{"watermilldelay", "github.com/ThreeDotsLabs/watermill-amqp", "the subscriber is the user's choice"},
	{"watermilldelay", "testing", "production code imports no testing"},
	{"", "github.com/jackc/pgx", "the contract knows no database"},
	{"backend", "github.com/jackc/pgx", "who delays messages links no database driver"},
	{"internal/message", "github.com/jackc/pgx", "what may go on the wire is pure"},
	{"internal/messagejson", module + "/internal/", "a format of messages knows no broker and no table"},
	{"conformance", "github.com/jackc/pgx", "the suite needs no database"},
	{"bench", "github.com/jackc/pgx", "the benchmark compares backends: it needs no database"},
	{"cmd/delayer-bench", "github.com/jackc/pgx", "the benchmark compares backends: it needs no database"},
	{"backend", module + "/internal/migration", "whoever publishes migrates nothing: that is the command's"},
	{"internal/migration", module + "/backend", "a migration takes a Delayer, whichever backend it is"},
	{"outbox", module + "/backend", "the outbox takes a Delayer, whichever backend it is"},
	{"outbox", module + "/internal/broker", "the outbox takes a Delayer: it opens no connection to a broker"},
	{"outbox", module + "/once", "whoever publishes need not be who consumes"},
	{"once/pgstore", module + "/outbox", "whoever consumes need not be who publishes"},
	{"outbox", module + "/internal/postgres", "production code starts no database"},
	{"once", module + "/internal/postgres", "production code starts no database"},
	{"outbox", "testing", "production code imports no testing"},
	{"once", "testing", "production code imports no testing"},
}

func TestImportsGoOneWay(t *testing.T) {
	packages := list(t)
	for _, rule := range rules {
		checked := false
		for _, p := range packages {
			path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
			if path != rule.from && (rule.from == "" || !strings.HasPrefix(path, rule.from+"/")) ||
				strings.HasPrefix(path, "internal/rabbit") {
				continue
			}
			checked = true
			for _, dep := range p.Deps {
				inside := strings.HasPrefix(dep, module+"/"+rule.from+"/") && rule.from != ""
				allowed := dep == module || rule.from == "conformance" && dep == amqpclient
				if !inside && !allowed && (dep == rule.notTo || strings.HasPrefix(dep, strings.TrimSuffix(rule.notTo, "/")+"/")) {
					t.Errorf("%s imports %s: %s", p.ImportPath, dep, rule.why)
				}
			}
		}
		require.True(t, checked, "no package %q: the rule is out of date", rule.from)
	}
}

// TestGoRabbitMQ_OnlyWhereImported: nobody links that library who does not ask for it.
func TestGoRabbitMQ_OnlyWhereImported(t *testing.T) {
	for _, p := range list(t) {
		if strings.HasSuffix(p.ImportPath, "gorabbitmq") || strings.HasSuffix(p.ImportPath, "/internal/publishoptions") {
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, "github.com/wagslane/go-rabbitmq") {
				t.Errorf("%s imports %s: what is for that library is in packages gorabbitmq", p.ImportPath, dep)
			}
		}
	}
}

// TestObservability_OnlyWhereImported: nobody links Prometheus or OpenTelemetry who does not ask for it. The command
// and an example serve metrics.
func TestObservability_OnlyWhereImported(t *testing.T) {
	allowed := map[string][]string{
		"github.com/prometheus/": {"metrics", "cmd/delayer", "examples/worker"}, "go.opentelemetry.io/": {"tracing"},
	}
	for _, p := range list(t) {
		for path, ours := range allowed {
			if !slices.Contains(ours, strings.TrimPrefix(p.ImportPath, module+"/")) {
				require.NotContains(t, strings.Join(p.Deps, "\n"), path, "%s: what is for it is in %v", p.ImportPath, ours)
			}
		}
	}
}

// TestKong_OnlyInCommands: what parses a command line is for commands. No program that publishes links it.
func TestKong_OnlyInCommands(t *testing.T) {
	for _, p := range list(t) {
		if path := strings.TrimPrefix(p.ImportPath, module+"/"); strings.HasPrefix(path, "cmd/") || path == "internal/cli" {
			continue
		}
		for _, dep := range p.Deps {
			require.False(t, strings.HasPrefix(dep, "github.com/alecthomas/"), "%s imports %s", p.ImportPath, dep)
		}
	}
}

// TestWatermill_OnlyWhereImported: nobody links that library who does not ask for it.
func TestWatermill_OnlyWhereImported(t *testing.T) {
	for _, p := range list(t) {
		switch strings.TrimPrefix(p.ImportPath, module+"/") {
		case "watermilldelay", "examples/watermill", "internal/tests/watermill":
			continue
		}
		require.NotContains(t, strings.Join(p.Deps, "\n"), "github.com/ThreeDotsLabs/", p.ImportPath)
	}
}

// TestOnceLinksNoDatabaseDriver: that is for once/pgstore, which the rules above cannot tell from package once.
func TestOnceLinksNoDatabaseDriver(t *testing.T) {
	for _, p := range list(t) {
		if p.ImportPath == module+"/once" {
			require.NotContains(t, strings.Join(p.Deps, "\n"), "github.com/jackc/pgx")
			return
		}
	}
	require.Fail(t, "no package once")
}

// TestExamplesArePublic: users copy the examples, and cannot import our internal packages. The demo and the
// campaign start brokers.
func TestExamplesArePublic(t *testing.T) {
	checked := 0
	for _, p := range list(t) {
		name, example := strings.CutPrefix(p.ImportPath, module+"/examples/")
		if !example || name == "notify/demo" || name == "notify/campaign" {
			continue
		}
		checked++
		require.NotContains(t, strings.Join(p.Imports, "\n"), module+"/internal/", name)
	}
	require.Positive(t, checked)
}

// TestPublicPackagesHaveExamples: a reader of a documentation page copies from there.
func TestPublicPackagesHaveExamples(t *testing.T) {
	for _, p := range list(t) {
		if path := strings.TrimPrefix(p.ImportPath, module); strings.Contains(path, "/internal/") ||
			strings.HasPrefix(path, "/cmd/") || strings.HasPrefix(path, "/examples/") {
			continue
		}
		found := false
		for _, file := range p.XTestGoFiles { // an example of package x itself may use what readers have not
			source, err := os.ReadFile(filepath.Join(p.Dir, file))
			require.NoError(t, err)
			found = found || strings.Contains(string(source), "\nfunc Example")
		}
		require.True(t, found, "%s has no Example in package %s_test", p.ImportPath, filepath.Base(p.Dir))
	}
}

type goPackage struct {
	ImportPath, Dir           string
	Imports, Deps             []string
	TestGoFiles, XTestGoFiles []string
}

func list(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,Deps,TestGoFiles,XTestGoFiles", "./...").Output()
	require.NoError(t, err)
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(t, err)
		packages = append(packages, p)
	}
}
