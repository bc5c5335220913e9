package ottla_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/ottlalog/ottla"

// floors is the house, from the ground up: a package imports only from lower floors.
var floors = [][]string{
	{"record", "internal/notify", "internal/vfs"},
	{"segment", "internal/journal", "internal/directory"},
	{"log"},
	{"partition"},
	{"topic"},
	{"group"},
	{""},
	{"cmd/ottla", "examples/quakes", "examples/quickstart", "bench", "internal/vfs/vfstest"}, // nobody imports these but tests
}

// outside is what the library may need beside the standard library.
var outside = []string{
	"github.com/tidwall/wal", "github.com/cespare/xxhash/v2", "golang.org/x/sys/unix", "golang.org/x/sys/windows",
	"github.com/klauspost/compress/gzip", "github.com/klauspost/compress/snappy", "github.com/klauspost/compress/zstd",
	"github.com/pierrec/lz4/v4",
}

func floorOf(pkg string) int {
	for i, floor := range floors {
		for _, p := range floor {
			if p == pkg {
				return i
			}
		}
	}
	return -1
}

func TestImportsRunDownward(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata" || path == "tools" || path == "bench/peers") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files++
		checkImports(t, path)
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, files, 50)
}

func checkImports(t *testing.T, path string) {
	pkg := filepath.ToSlash(filepath.Dir(path))
	if pkg == "." {
		pkg = ""
	}
	floor := floorOf(pkg)
	require.GreaterOrEqual(t, floor, 0, "package %q has no floor", pkg)
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	require.NoError(t, err)
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		inside, ours := strings.CutPrefix(name, module)
		switch {
		case ours:
			require.Less(t, floorOf(strings.TrimPrefix(inside, "/")), floor, "%s imports %s: the arrow runs up", path, name)
		case name == "log" || name == "C" || name == "unsafe" && pkg != "segment" && !strings.HasPrefix(pkg, "internal/vfs"):
			require.Fail(t, "banned import", "%s imports %s", path, name)
		case strings.Contains(name, "."):
			require.Contains(t, outside, name, path)
		}
		if name == "os" || name == "syscall" || strings.HasPrefix(name, "golang.org/x/sys") {
			require.True(t, pkg == "internal/vfs" || pkg == "internal/directory" || floor == len(floors)-1,
				"%s imports %s: only internal/vfs talks to the system", path, name)
		}
	}
}
