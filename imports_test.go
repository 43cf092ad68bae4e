package delayer_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/delayer-go/delayer"

// A place is a folder, and what its packages may import. The most specific place counts. A package
// may also import those below its own folder.
type place struct {
	folder  string
	ours    []string // folders of this module; "" is the root package alone
	modules []string // of others, beside the standard library
	why     string
}

const (
	amqp       = "github.com/rabbitmq/amqp091-go"
	pgx        = "github.com/jackc/pgx/v5"
	kong       = "github.com/alecthomas/kong"
	xsync      = "golang.org/x/sync"
	wagslane   = "github.com/wagslane/go-rabbitmq"
	prometheus = "github.com/prometheus/client_golang"
	watermill  = "github.com/ThreeDotsLabs/watermill"
)

// places holds every folder of this module. A package in none of them fails the test: say who lives
// there, and who may import it.
var places = []place{
	{"", nil, []string{amqp}, "the contract imports nothing of ours: everything is built on it"},
	{"topology", nil, []string{amqp}, "data, which everybody may print"},

	{"internal/lib", []string{"", "topology", "internal/lib"}, []string{amqp}, "what a consumer links stays small, and starts no broker"},
	{"internal/lib/broker", []string{"", "internal/lib/frame", "internal/lib/pace"}, []string{amqp}, "the wire knows nothing of delays"},
	{"internal/lib/message", []string{""}, []string{amqp}, "what may go on the wire is pure"},
	{"internal/lib/messagejson", nil, []string{amqp}, "a format of messages knows no broker and no table"},
	{"internal/lib/frame", nil, nil, "what frames look like is pure"},
	{"internal/lib/format", nil, nil, "how a figure is written knows nothing of what it counts"},
	{"internal/lib/attempt", []string{"", "internal/lib/message", "internal/lib/xdelay"}, []string{amqp}, "what a failed message carries is pure"},
	{"internal/lib/acks", nil, nil, "when to acknowledge is pure"},
	{"internal/lib/topicladder", []string{"topology"}, []string{amqp}, "which exchanges decide by a key is pure"},
	{"internal/lib/bundle", []string{"", "internal/lib/brokertime", "internal/lib/messagejson"}, []string{amqp}, "the unit in which messages wait is pure"},
	{"internal/lib/xdelay", nil, []string{amqp}, "what a header means is pure"},
	{"internal/lib/schema", nil, []string{pgx}, "only what keeps something in PostgreSQL links a driver"},

	{"backend", []string{"", "topology", "internal/lib", "backend"}, []string{amqp, "go.yaml.in/yaml/v3"}, "the only package that knows all backends"},
	{"backend/*", []string{"", "topology", "internal/lib"}, []string{amqp}, "no backend imports another"},
	{"backend/controller", []string{"", "topology", "internal/lib", "backend/controller"}, []string{amqp}, "it wires its two wheels"},
	{"backend/controller/internal/writer", []string{"internal/lib/bundle"}, nil, "what gathers records is pure"},
	{"backend/controller/internal/leader", []string{"internal/lib/acks", "internal/lib/brokertime", "internal/lib/bundle"}, nil, "the machine is pure: it knows the reading of a clock, and no broker"},
	{"backend/controller/internal/slots", []string{"", "topology", "internal/lib", "backend/controller/internal"}, []string{amqp}, "it runs the machine"},
	{"backend/controller/internal/logsim", nil, nil, "what proves the wheel is made of tests only"},
	{"backend/controller/internal/settle", []string{"", "topology", "internal/lib"}, []string{amqp}, "it publishes for both wheels, and knows neither"},
	{"backend/controller/internal/rounds", []string{"", "topology", "internal/lib", "backend/controller/internal/settle"},
		[]string{amqp}, "the wheel of rounds knows nothing of slots"},

	{"retry", []string{"", "topology", "internal/lib/attempt", "internal/lib/broker", "internal/lib/message", "internal/lib/objects", "internal/lib/pace"}, []string{amqp}, "whoever retries opens the backend that it needs"},
	{"once", []string{""}, []string{amqp}, "whoever consumes need not be who publishes"},
	{"once/pgstore", []string{"", "once", "internal/lib/schema"}, []string{pgx}, "only what keeps something in PostgreSQL links a driver"},
	{"outbox", []string{"", "internal/lib/message", "internal/lib/pace", "internal/lib/messagejson", "internal/lib/schema"}, []string{amqp, pgx, xsync}, "the outbox takes a Delayer: it opens no connection to a broker"},
	{"recurring", []string{"", "internal/lib/message", "internal/lib/pace"}, []string{amqp, "github.com/adhocore/gronx"}, "what sends again and again takes a Delayer"},
	{"migrate", []string{"", "internal/lib/xdelay"}, []string{amqp}, "a header becomes a delay of the Delayer's interface, and nothing else"},
	{"gorabbitmq", []string{"", "retry", "internal/lib/xdelay"}, []string{amqp, wagslane}, "nobody links that library who does not ask for it"},
	{"watermilldelay", []string{""}, []string{amqp, watermill}, "an adapter is built on the contract alone"},
	{"metrics", []string{""}, []string{amqp, prometheus}, "the metrics take events, whichever backend they are of"},
	{"tracing", []string{""}, []string{amqp, "go.opentelemetry.io/otel"}, "a span is around the Delayer's interface"},
	{"status", []string{"", "topology", "backend", "internal/lib"}, []string{amqp}, "who looks at a broker migrates nothing"},

	{"delayertest", []string{"", "internal/lib/message"}, []string{amqp}, "unit tests of users link a Delayer in memory, and no backend"},
	{"conformance", []string{"", "topology", "conformance", "internal/lab/account", "internal/lab/amqpclient"}, []string{amqp}, "the library is not tested with itself, and the suite knows no backend"},

	{"internal/lib/strict", []string{"internal/lib/engine"}, []string{"go.yaml.in/yaml/v3"}, "who reads a configuration links a YAML reader, and nobody else"},

	{"internal/app/cli", nil, []string{kong, "golang.org/x/term"}, "what parses and prints is for every command: it knows no backend"},
	{"internal/app/flags", []string{"", "backend", "internal/lib/engine"}, nil, "what opens a Delayer is for every command"},
	{"internal/app/service", []string{"", "backend", "status", "metrics", "internal/lib/engine", "internal/lib/objects", "internal/lib/pace"}, []string{amqp, prometheus}, "what serves metrics is for every command that runs for long"},
	{"internal/app/entry", []string{"", "topology", "internal/lib", "internal/app/cli"}, []string{amqp}, "an entry takes a Delayer, whichever backend it is"},
	{"internal/app/tokens", []string{"internal/lib/engine", "internal/lib/strict", "internal/app/entry"}, []string{"go.yaml.in/yaml/v3"}, "who may do what is known before anything is done"},
	{"internal/app/certificate", []string{"internal/lib/engine"}, nil, "a certificate is for whatever listens"},
	{"internal/app/proxy", []string{"internal/lib/engine", "internal/lib/frame", "internal/lib/pace", "internal/app/certificate", "internal/app/entry"}, []string{amqp}, "a proxy knows frames, and leaves delays to an entry"},
	{"internal/app/api", []string{"", "internal/lib/engine", "internal/lib/message", "internal/lib/messagejson", "internal/lib/pace", "internal/app/certificate", "internal/app/cli", "internal/app/entry", "internal/app/tokens"},
		[]string{amqp, "github.com/danielgtaylor/huma/v2", "golang.org/x/net/netutil", xsync}, "an API takes a Delayer, whichever backend it is"},
	{"internal/app/kept", []string{"topology", "backend", "backend/controller", "backend/plugin", "internal/lib", "internal/app/cli", "internal/app/entry"}, nil, "what was not delivered is read by a command and by a page"},
	{"internal/app/remarks", []string{"status", "internal/lib/objects", "internal/app/cli"}, nil, "what is said of a status is pure"},
	{"internal/app/page", []string{"", "backend", "status", "internal/lib/broker", "internal/lib/engine", "internal/lib/format", "internal/lib/management", "internal/lib/pace", "internal/lib/undelivered", "internal/app/cli", "internal/app/entry", "internal/app/kept", "internal/app/remarks", "internal/app/tokens"}, nil, "a page shows what others read"},
	{"internal/app/migration", []string{"", "topology", "internal/lib", "internal/app/migration", "internal/app/entry", "internal/app/cli"}, []string{amqp, "github.com/google/shlex"}, "a migration takes a Delayer, whichever backend it is"},
	{"internal/app/*", []string{"", "topology", "backend", "status", "outbox", "recurring", "internal/lib", "internal/app/cli", "internal/app/flags", "internal/app/service", "internal/app/entry", "internal/app/api", "internal/app/proxy", "internal/app/page", "internal/app/kept", "internal/app/remarks", "internal/app/migration"},
		[]string{amqp, pgx, prometheus}, "a group of commands knows no other group, and starts no broker"},
	{"internal/lab", []string{"", "topology", "backend", "internal/lab", "internal/lib/pace"}, []string{amqp, pgx, xsync, "github.com/stretchr/testify", "go.uber.org/goleak"}, "tests and benchmarks: nobody else imports it"},
	{"internal/lab/bench", []string{"", "topology", "internal/lab", "internal/lib/format", "internal/lib/topicladder", "internal/lib/pace"}, []string{amqp, "gonum.org/v1/plot", "github.com/shirou/gopsutil/v4"}, "the benchmark knows no backend"},
	{"internal/lab/faults", []string{"", "topology", "backend", "internal/lab", "internal/lib/pace"}, []string{amqp, "github.com/Shopify/toxiproxy/v2", "github.com/rs/zerolog", "github.com/stretchr/testify"}, "the campaign breaks networks too"},
	{"internal/lab/rabbit", []string{"", "backend", "internal/lab/amqpclient", "internal/lab/rabbit"}, []string{amqp, "github.com/shirou/gopsutil/v4", "github.com/stretchr/testify", "go.uber.org/goleak"}, "what starts a broker needs no database"},
	{"internal/lab/chromium", []string{"internal/lab/rabbit/rabbittest"}, []string{"github.com/chromedp/chromedp", "github.com/stretchr/testify"}, "a browser knows no page"},
	{"internal/lab/account", []string{""}, []string{amqp}, "what Delayers are judged by is pure"},
	{"internal/lab/amqpclient", []string{"topology"}, []string{amqp}, "the library is not tested with itself"},

	{"cmd/delayer", []string{"backend", "internal/app"}, []string{kong}, "a table of groups of commands"},
	{"cmd/delayer-bench", []string{"", "backend", "internal/app/cli", "internal/app/entry", "internal/lib/broker", "internal/lib/engine", "internal/lab/bench", "internal/lab/rabbit"}, []string{amqp, kong}, "the command is the outermost layer"},
	{"cmd/demo", []string{"internal/app", "internal/lab/rabbit", "internal/lib/pace"}, []string{amqp, xsync}, "the command is the outermost layer"},
	{"cmd/faults", []string{"", "backend", "internal/lab"}, []string{kong}, "the command is the outermost layer"},

	{"examples", []string{"", "backend", "retry", "once", "outbox", "metrics"},
		[]string{amqp, pgx, prometheus}, "users copy the examples, and cannot import our internal packages"},
}

func TestImports(t *testing.T) {
	lived := map[string]bool{}
	for _, p := range list(t) {
		path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		at := placeOf(path)
		require.NotNil(t, at, "%s is in no place", p.ImportPath)
		lived[at.folder] = true
		for _, imported := range p.Imports {
			if !at.allows(path, imported) {
				t.Errorf("%s imports %s. Packages in %q may not: %s", p.ImportPath, imported, at.folder, at.why)
			}
			if imported == "testing" && !under("conformance", path) && !under("internal/lab", path) {
				t.Errorf("%s imports testing: production code does not", p.ImportPath)
			}
		}
	}
	for _, at := range places {
		require.True(t, lived[at.folder], "no package in %q: the place is out of date", at.folder)
	}
}

// startBrokers are the folders whose tests may start brokers and databases: nobody's module counts
// what they import.
var startBrokers = []string{"internal/lab", "internal/app", "cmd", "conformance", "examples"}

// TestImports_OfTests: `go mod tidy` counts what the tests of an imported package import. Those
// that start a broker would bring docker into the go.sum of our users.
func TestImports_OfTests(t *testing.T) {
	for _, p := range list(t) {
		path := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if slices.ContainsFunc(startBrokers, func(folder string) bool { return under(folder, path) }) {
			continue
		}
		for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
			if under(module+"/internal/lab/rabbit", imported) || under(module+"/internal/lab/postgrestest", imported) {
				t.Errorf("tests of %s import %s: they live in internal/lab/tests", p.ImportPath, imported)
			}
		}
	}
}

// placeOf is the most specific place of a package, by its path below the module.
func placeOf(path string) *place {
	var found *place
	for i, at := range places {
		folder := strings.TrimSuffix(at.folder, "/*")
		in := under(folder, path) && (folder != "" || path == "")
		if at.folder != folder {
			in = in && path != folder
		}
		if in && (found == nil || len(at.folder) > len(found.folder)) {
			found = &places[i]
		}
	}
	return found
}

// allows reports whether a package may import another.
func (at place) allows(path, imported string) bool {
	if ours, is := strings.CutPrefix(imported, module); is {
		ours = strings.TrimPrefix(ours, "/")
		if under(path, ours) && path != "" {
			return true
		}
		return slices.ContainsFunc(at.ours, func(folder string) bool { return folder == ours || folder != "" && under(folder, ours) })
	}
	first, _, _ := strings.Cut(imported, "/")
	if !strings.Contains(first, ".") {
		return true // of the standard library
	}
	return slices.ContainsFunc(at.modules, func(module string) bool { return under(module, imported) })
}

// under reports whether a path is a folder or below it.
func under(folder, path string) bool {
	return folder == "" || path == folder || strings.HasPrefix(path, folder+"/")
}

type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

// list returns the packages of this module.
func list(t *testing.T) []goPackage {
	t.Helper()
	packages, err := listed()
	require.NoError(t, err)
	return packages
}

var listed = sync.OnceValues(func() (packages []goPackage, err error) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...").Output()
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
})
