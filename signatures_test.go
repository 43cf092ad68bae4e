package delayer_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSignatures_NameNothingInternal: users cannot name what is in an internal package, so no
// exported declaration of a public package does.
func TestSignatures_NameNothingInternal(t *testing.T) {
	publicFiles(t, func(files *token.FileSet, file *ast.File) {
		internal := internalImports(file)
		for _, decl := range file.Decls {
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BlockStmt: // the body of a function
					return false
				case *ast.FuncDecl:
					return n.Recv == nil || exportedType(n.Recv.List[0].Type)
				case *ast.SelectorExpr:
					x, _ := n.X.(*ast.Ident)
					assert.False(t, x != nil && internal[x.Name], "%s names %v.%s", files.Position(n.Pos()), x, n.Sel)
				}
				return true
			})
		}
	})
}

// TestSignatures_Constructors: Open has a ctx and holds connections, New has none and holds none,
// and Close returns an error.
func TestSignatures_Constructors(t *testing.T) {
	publicFiles(t, func(files *token.FileSet, file *ast.File) {
		for _, decl := range file.Decls {
			f, is := decl.(*ast.FuncDecl)
			if !is {
				continue
			}
			var params, results []string
			for _, p := range f.Type.Params.List {
				params = append(params, types.ExprString(p.Type))
			}
			if f.Type.Results != nil {
				for _, r := range f.Type.Results.List {
					results = append(results, types.ExprString(r.Type))
				}
			}
			at := files.Position(f.Pos())
			switch name := f.Name.Name; {
			case f.Recv != nil && name == "Close":
				assert.Equal(t, []string{"error"}, results, at)
			case f.Recv != nil:
			case strings.HasPrefix(name, "Open"):
				require.NotEmpty(t, params, at)
				assert.Equal(t, "context.Context", params[0], at)
				require.Len(t, results, 2, at)
				assert.Equal(t, "error", results[1], at)
			case strings.HasPrefix(name, "New"):
				assert.NotContains(t, params, "context.Context", at)
			}
		}
	})
}

// publicFiles calls check with each file of each public package, reduced to what is exported.
func publicFiles(t *testing.T, check func(*token.FileSet, *ast.File)) {
	t.Helper()
	for _, p := range list(t) {
		if !public(p.ImportPath) {
			continue
		}
		for _, name := range p.GoFiles {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.FileExports(file)
			check(files, file)
		}
	}
}

// public reports whether users can import a package.
func public(importPath string) bool {
	inside := strings.TrimPrefix(importPath, module) + "/"
	return !strings.Contains(inside, "/internal/") && !strings.HasPrefix(inside, "/cmd/") && !strings.HasPrefix(inside, "/examples/")
}

// exportedType reports whether the type of a receiver is exported.
func exportedType(receiver ast.Expr) bool {
	switch x := receiver.(type) {
	case *ast.StarExpr:
		return exportedType(x.X)
	case *ast.IndexExpr:
		return exportedType(x.X)
	case *ast.Ident:
		return x.IsExported()
	}
	return true
}

// internalImports returns the names of internal packages in a file.
func internalImports(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, spec := range file.Imports {
		at, err := strconv.Unquote(spec.Path.Value)
		switch {
		case err != nil || !strings.Contains(at, "/internal/"):
		case spec.Name != nil:
			names[spec.Name.Name] = true
		default:
			names[path.Base(at)] = true
		}
	}
	return names
}
