package project_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayer-go/delayer/backend"
	"github.com/delayer-go/delayer/internal/docs"
)

// pages are README.md and docs/*.md by their paths.
func pages(t *testing.T) map[string]string {
	t.Helper()
	pages, err := docs.Pages()
	require.NoError(t, err)
	return pages
}

// prose is a page without its code blocks.
func prose(page string) string {
	return regexp.MustCompile("(?ms)^```.*?^```$").ReplaceAllString(page, "")
}

// anchors are the names of a page's headings, as GitHub makes them.
func anchors(page string) (names []string) {
	for _, h := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(prose(page), -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(h[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// TestDocs_Links: what a page links to in this repository is there.
func TestDocs_Links(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|(?m)^\[[^\]]+\]: (\S+)$`)
	for page, text := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(prose(text), -1) {
			to := found[1] + found[2]
			if strings.Contains(to, "://") {
				continue
			}
			file, anchor, _ := strings.Cut(to, "#")
			target := path.Join(path.Dir(page), file)
			if file == "" {
				target = page
			}
			_, err := os.Stat(root + target)
			if assert.NoError(t, err, page) && anchor != "" {
				assert.Contains(t, anchors(read(t, target)), anchor, "%s links to %s", page, to)
			}
		}
	}
}

// TestDocs_Order: README.md lists every page in the order in which each links to the next.
func TestDocs_Order(t *testing.T) {
	_, list, found := strings.Cut(read(t, "README.md"), "\n## Documentation\n")
	require.True(t, found)
	var order []string
	for _, item := range regexp.MustCompile(`(?m)^\d+\. \[[^\]]+\]\((docs/[^)]+)\): .+$`).FindAllStringSubmatch(list, -1) {
		order = append(order, item[1])
	}
	all := pages(t)
	assert.Len(t, order, len(all)-1, "each page once")
	const last = 2 // compatibility and architecture, to which nothing is next
	next := regexp.MustCompile(`(?m)^Next: \[[^\]]+\]\(([^)]+)\)$`)
	for i, page := range order[:len(order)-last] {
		found := next.FindStringSubmatch(all[page])
		if assert.NotNil(t, found, "%s has no Next", page) {
			assert.Equal(t, filepath.Base(order[i+1]), found[1], page)
		}
	}
}

// TestReadme_Questions: each answer is a backend or a later question, and every backend is one.
func TestReadme_Questions(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "README.md"), "<!-- questions: begin -->")
	table, _, _ = strings.Cut(table, "<!-- questions: end -->")
	row := regexp.MustCompile(`(?m)^\| ([1-9]) \| .+ \| (.+) \| (.+) \|$`)
	questions := row.FindAllStringSubmatch(table, -1)
	require.Len(t, questions, 5)
	var ends []string
	for _, q := range questions {
		for _, answer := range q[2:] {
			if answer > "0" && answer <= "9" {
				assert.Greater(t, answer, q[1])
				continue
			}
			ends = append(ends, regexp.MustCompile("^`(\\w+)`").FindStringSubmatch(answer)[1])
		}
	}
	slices.Sort(ends)
	want := backend.Names()
	slices.Sort(want)
	assert.Equal(t, want, slices.Compact(ends))
}

// TestDocs_Start: docs/start.md shows the examples as they are, without their first comment.
func TestDocs_Start(t *testing.T) {
	for _, name := range []string{"first", "worker"} {
		source := read(t, "examples/"+name+"/main.go")
		_, source, _ = strings.Cut(source, "\npackage main\n")
		assert.Contains(t, read(t, "docs/start.md"), "```go\npackage main\n"+source+"```\n", name)
	}
}

// TestDocs_YAML: a configuration is one that Delayer takes.
func TestDocs_YAML(t *testing.T) {
	for page, text := range pages(t) {
		for _, b := range docs.Blocks(text) {
			if b.Lang == "yaml" && !strings.Contains(b.Text, "scrape_configs") {
				_, err := backend.Parse(strings.NewReader(b.Text))
				assert.NoError(t, err, "%s:\n%s", page, b.Text)
			}
		}
	}
}

// TestDocs_Make: the targets that are named are there.
func TestDocs_Make(t *testing.T) {
	makefile := read(t, "Makefile")
	for page, text := range pages(t) {
		for _, target := range regexp.MustCompile("(?m)(?:^    |^|`)make ([a-z][a-z-]*)").FindAllStringSubmatch(text, -1) {
			assert.Contains(t, makefile, "\n"+target[1]+":", "%s: there is no make %s", page, target[1])
		}
	}
}

// ours are the packages that the pages name, by the name that they have there.
var ours = map[string][]string{
	"delayer": {"."}, "backend": {"backend"}, "binaryladder": {"backend/binaryladder"}, "retry": {"retry"},
	"migrate": {"migrate"}, "gorabbitmq": {"gorabbitmq", "migrate/gorabbitmq", "retry/gorabbitmq"}, "outbox": {"outbox"},
	"once": {"once"}, "pgstore": {"once/pgstore"}, "metrics": {"metrics"}, "tracing": {"tracing"},
	"watermilldelay": {"watermilldelay"}, "status": {"status"},
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

// snippet parses Go code: a file, or statements with … where something is left out.
func snippet(t *testing.T, page, code string) *ast.File {
	t.Helper()
	code = strings.ReplaceAll(code, " …\"", "\"")
	code = regexp.MustCompile(`(?m)^\s*…$`).ReplaceAllString(code, "")
	code = strings.ReplaceAll(code, ", …", "")
	if !strings.HasPrefix(code, "package ") {
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
	for page, text := range pages(t) {
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
