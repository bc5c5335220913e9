package ottla_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheLibraryLeavesTheProcessAlone: it handles no signals, ends no process, sets nothing of the runtime's, and panics only
// where someone's code is wrong, never because of what is in a file.
func TestTheLibraryLeavesTheProcessAlone(t *testing.T) {
	mayPanic := map[string]bool{
		"record.Put": true, "record.Compress": true, // of records that someone changes meanwhile
		"record.compress": true, "record.must": true, // a codec or an error that the code before rules out
		"segment.guard":    true,                        // goes on with what isn't of the mapping
		"journal.validate": true, "journal.apply": true, // an event that the code has no branch for
	}
	ofTheProcess := []string{"os.Exit", "os.Chdir", "os.Setenv", "syscall.Kill", "debug.SetGCPercent", "debug.SetMemoryLimit",
		"runtime.GOMAXPROCS", "slog.SetDefault"}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains([]string{"cmd", "examples", "tools", "bench", "testdata"}, d.Name()) || strings.HasPrefix(d.Name(), ".") && path != ".") {
			return filepath.SkipDir
		}
		base := filepath.Base(path)
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(base, "mem") {
			return nil // mem*.go: the file system that only tests use
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, decl := range file.Decls {
			fn, _ := decl.(*ast.FuncDecl)
			ast.Inspect(decl, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if pkg, ok := n.X.(*ast.Ident); ok {
						require.False(t, pkg.Name == "signal" || slices.Contains(ofTheProcess, pkg.Name+"."+n.Sel.Name),
							"%s: %s.%s", path, pkg.Name, n.Sel.Name)
					}
				case *ast.CallExpr:
					if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "panic" {
						require.True(t, mayPanic[file.Name.Name+"."+fn.Name.Name], "%s: %s panics", path, fn.Name.Name)
					}
				}
				return true
			})
		}
		return nil
	})
	require.NoError(t, err)
}
