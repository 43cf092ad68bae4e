// Package project_test looks at what the project is made, released and deployed with, and runs the
// programs of its pages and examples.
package project_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/conformance"
	"github.com/delayer-go/delayer/internal/lab/docs"
	"github.com/delayer-go/delayer/internal/lab/rabbit"
	"github.com/delayer-go/delayer/internal/lab/rabbit/rabbittest"
)

func TestMain(m *testing.M) { rabbittest.Main(m, rabbit.Options{}) }

const root = "../../../../"

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(root + path)
	require.NoError(t, err)
	return string(text)
}

// parse reads the only document of a file, or all of them.
func parse[T any](t *testing.T, path string) (documents []T) {
	t.Helper()
	for decoder := yaml.NewDecoder(strings.NewReader(read(t, path))); ; {
		var one T
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return documents
		}
		require.NoError(t, err, path)
		documents = append(documents, one)
	}
}

func dockerfile(t *testing.T) (lines []string) {
	for line := range strings.Lines(read(t, "Dockerfile")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

func finalStage(t *testing.T) []string {
	lines := dockerfile(t)
	at := slices.Index(lines, "FROM scratch")
	require.Positive(t, at)
	return lines[at:]
}

// TestDocs_Start: docs/start.md shows the worker as it is, without its first comment. It goes on from
// the first program, which TestReadme_Example compares with README.md.
func TestDocs_Start(t *testing.T) {
	_, source, _ := strings.Cut(read(t, "examples/worker/main.go"), "\npackage main\n")
	assert.Contains(t, read(t, "docs/start.md"), "```go\npackage main\n"+source+"```\n")
	assert.Contains(t, read(t, "docs/start.md"), "](../README.md#from-go)")
}

// TestDocs_Languages: docs/languages.md and the page beside the programs in other languages name each,
// and what they show of one is a part of it: all of a block, or the lines that a diff removes.
func TestDocs_Languages(t *testing.T) {
	var files []string
	for _, pattern := range []string{"*.*", "*/*.*"} {
		found, err := filepath.Glob(root + "examples/clients/" + pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		files = append(files, found...)
	}
	page, beside, sources := read(t, "docs/languages.md"), read(t, "examples/clients/README.md"), map[string]string{}
	for _, file := range files {
		if filepath.Base(file) == "README.md" {
			continue
		}
		name := strings.TrimPrefix(filepath.ToSlash(file), root+"examples/clients/")
		sources[name] = read(t, "examples/clients/"+name)
		assert.Contains(t, page, "](../examples/clients/"+name+")")
		assert.Contains(t, beside, "["+name+"]("+name+")")
	}
	shown := 0
	for _, b := range append(docs.Blocks(page), docs.Blocks(beside)...) {
		parts := []string{b.Text}
		switch b.Lang {
		case "", "yaml", "json", "go", "sh": // each has a test of its own, or is no program
			continue
		case "diff":
			parts = regexp.MustCompile(`(?m)(?:^-.*\n)+`).FindAllString(b.Text, -1)
			require.NotEmpty(t, parts, b.Text)
		}
		for _, part := range parts {
			shown++
			part = strings.TrimPrefix(strings.ReplaceAll("\n"+part, "\n-", "\n"), "\n")
			is := slices.ContainsFunc(slices.Collect(maps.Values(sources)), func(source string) bool {
				return strings.Contains("\n"+source, "\n"+part)
			})
			assert.True(t, is, "no program of examples/clients has this:\n%s", part)
		}
	}
	require.GreaterOrEqual(t, shown, 15)
}

// TestDocs_Testing: docs/testing.md shows all functions of a test that runs, as they are.
func TestDocs_Testing(t *testing.T) {
	source := read(t, "delayertest/shop_test.go")
	_, source, _ = strings.Cut(source, "\n// A shop ")
	var shown int
	for _, b := range docs.Blocks(read(t, "docs/testing.md")) {
		if b.Lang != "go" {
			continue
		}
		assert.Contains(t, "// A shop "+source, strings.TrimSuffix(b.Text, "\n"))
		shown += strings.Count("\n"+b.Text, "\nfunc ")
	}
	require.Equal(t, strings.Count(source, "\nfunc "), shown)
}

// TestDocs_YAML: a configuration is one that Delayer takes.
func TestDocs_YAML(t *testing.T) {
	for page, text := range docs.Pages(t, root) {
		for _, b := range docs.Blocks(text) {
			if b.Lang == "yaml" && !strings.Contains(b.Text, "scrape_configs") {
				_, err := backend.Parse(strings.NewReader(b.Text))
				assert.NoError(t, err, "%s:\n%s", page, b.Text)
			}
		}
	}
}

// TestDocs_Troubleshooting: what docs/troubleshooting.md quotes of Delayer is in its source, but for
// what differs. A text that begins with a number is the broker's.
func TestDocs_Troubleshooting(t *testing.T) {
	ofTheBroker := []string{"missing_segment_header", "Login failed", "Not administrator user"}
	var source strings.Builder
	for _, folder := range []string{".", "backend", "internal/app", "internal/lib"} {
		require.NoError(t, filepath.WalkDir(root+folder, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && folder == "." && path != root+folder:
				return fs.SkipDir
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				text, err := os.ReadFile(path)
				source.Write(text)
				return err
			}
			return nil
		}))
	}
	page, _, _ := strings.Cut(read(t, "docs/troubleshooting.md"), "\n## Messages\n")
	rows := regexp.MustCompile("(?m)^\\| (?:[0-9]{3} \\| )?(`[^|]*`)").FindAllStringSubmatch(page, -1)
	require.Greater(t, len(rows), 30)
	parts, number := regexp.MustCompile(`…|: | \(|\)`), regexp.MustCompile("^[0-9]{3} ")
	for _, row := range rows {
		for _, quoted := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			for _, part := range parts.Split(quoted[1], -1) {
				if part = strings.TrimSpace(part); !number.MatchString(part) && !slices.Contains(ofTheBroker, part) {
					assert.Contains(t, source.String(), part, quoted[1])
				}
			}
		}
	}
}

// TestDocs_Make: the targets that pages name exist.
func TestDocs_Make(t *testing.T) {
	makefile, pages := read(t, "Makefile"), docs.Pages(t, root)
	pages["CONTRIBUTING.md"] = read(t, "CONTRIBUTING.md")
	for page, text := range pages {
		for _, target := range regexp.MustCompile("(?m)(?:^    |^|`)make ([a-z][a-z-]*)").FindAllStringSubmatch(text, -1) {
			assert.Contains(t, makefile, "\n"+target[1]+":", "%s: there is no make %s", page, target[1])
		}
	}
}

// ours are the packages that the pages name, by the name that they have there.
var ours = map[string][]string{
	"delayer": {"."}, "backend": {"backend"}, "binaryladder": {"backend/binaryladder"}, "retry": {"retry"},
	"migrate": {"migrate"}, "gorabbitmq": {"gorabbitmq"}, "outbox": {"outbox"},
	"once": {"once"}, "recurring": {"recurring"}, "pgstore": {"once/pgstore"}, "metrics": {"metrics"}, "tracing": {"tracing"},
	"watermilldelay": {"watermilldelay"}, "status": {"status"}, "delayertest": {"delayertest"},
}

// exported are the top-level names of packages, and the fields of their structs.
func exported(t *testing.T, folders []string) (names, fields map[string]bool) {
	t.Helper()
	names, fields = map[string]bool{}, map[string]bool{}
	for _, folder := range folders {
		files, err := filepath.Glob(root + folder + "/*.go")
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			require.NoError(t, err)
			for name := range tree.Scope.Objects {
				names[name] = true
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				if s, ok := n.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						for _, name := range f.Names {
							fields[name.Name] = true
						}
						fields[lastName(f.Type)] = true // embedded
					}
				}
				return true
			})
		}
	}
	return names, fields
}

// lastName is B of A.B, *B and B.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return lastName(e.X)
	}
	return ""
}

// snippet parses Go code: a file, declarations, or statements with … where something is left out.
func snippet(t *testing.T, page, code string) *ast.File {
	t.Helper()
	code = strings.ReplaceAll(code, " …\"", "\"")
	code = regexp.MustCompile(`(?m)^\s*…$`).ReplaceAllString(code, "")
	code = strings.ReplaceAll(code, ", …", "")
	switch {
	case strings.HasPrefix(code, "package "):
	case regexp.MustCompile(`(?m)^(func|type) `).MatchString(code):
		code = "package p\n" + code
	default:
		code = "package p\nfunc _() {\n" + code + "\n}\n"
	}
	file, err := parser.ParseFile(token.NewFileSet(), page, code, parser.SkipObjectResolution)
	require.NoError(t, err, "%s:\n%s", page, code)
	return file
}

// TestDocs_Go: Go code can be parsed, and what it names of our packages is there.
func TestDocs_Go(t *testing.T) {
	names, fields := map[string]map[string]bool{}, map[string]map[string]bool{}
	for name, folders := range ours {
		names[name], fields[name] = exported(t, folders)
	}
	seen := 0
	for page, text := range docs.Pages(t, root) {
		for _, b := range docs.Blocks(text) {
			if b.Lang != "go" {
				continue
			}
			ast.Inspect(snippet(t, page, b.Text), func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && names[x.Name] != nil {
						seen++
						assert.True(t, names[x.Name][n.Sel.Name], "%s: there is no %s.%s", page, x.Name, n.Sel.Name)
					}
				case *ast.CompositeLit:
					of, ok := n.Type.(*ast.SelectorExpr)
					if !ok || fields[lastName(of.X)] == nil {
						return true
					}
					for _, e := range n.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok {
							assert.True(t, fields[lastName(of.X)][lastName(kv.Key)], "%s: %s has no field %s", page, of.Sel.Name, lastName(kv.Key))
						}
					}
				}
				return true
			})
		}
	}
	require.Greater(t, seen, 40)
}

// TestPromises: each test that docs/reliability.md names exists, and each case of the suite is named.
func TestPromises(t *testing.T) {
	_, tables, there := strings.Cut(read(t, "docs/reliability.md"), "\n## Where each promise is tested\n")
	require.True(t, there)
	named := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| .* \| (.*) \|$`).FindAllStringSubmatch(tables, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			named[name[1]] = true
		}
	}
	require.NotEmpty(t, named)
	cases := map[string]bool{}
	for _, c := range conformance.Cases() {
		cases[c.Name] = true
		assert.True(t, named["conformance/"+c.Name], "docs/reliability.md does not name the case %s", c.Name)
	}
	faults := source(t, "internal/lab/faults", "*.go")
	for name := range named {
		if c, is := strings.CutPrefix(name, "conformance/"); is {
			assert.True(t, cases[c], "%s: no such case", name)
		} else if f, is := strings.CutPrefix(name, "faults/"); is {
			assert.True(t, strings.Contains(faults, `Name: "`+f+`"`), "%s: no such fault", name)
		} else if dot := strings.LastIndexByte(name, '.'); assert.Positive(t, dot, name) {
			folder, test := strings.TrimPrefix(name[:dot], "delayer"), name[dot+1:]
			assert.True(t, strings.Contains(source(t, folder, "*_test.go"), "func "+test+"("), "%s: no such test", name)
		}
	}
}

func source(t *testing.T, folder, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, pattern))
	require.NoError(t, err)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

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
