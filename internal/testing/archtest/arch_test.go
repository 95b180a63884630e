// Package archtest holds the test that keeps the building rules of this repository:
// which package may import which, what the pure core must not touch, and how
// long files and functions may get. There is no code in it.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

// imports is the graph of docs/reference/PACKAGES.md: what each package may import of
// ours. A package that is not in it is not allowed to be.
var imports = map[string][]string{
	"migrations":                   nil,
	"internal/version":             nil,
	"internal/idmap":               nil,
	"internal/exchange":            {"internal/idmap"},
	"internal/durable":             nil,
	"internal/testing/durabletest": {"internal/durable"},
	"internal/journal":             {"internal/durable"},
	"internal/replica/core":        nil,
	"internal/replica/raftlog":     {"internal/durable", "internal/journal", "internal/replica/core"},
	"internal/model":               nil,
	"internal/grade/script":        {"internal/check", "internal/grade/dialog", "internal/model"},
	"internal/testing/archtest":    nil,
	"internal/latency":             nil,
	"internal/testing/doctest":     nil,
	"internal/testing/asyncapi":    nil,
	"internal/engine":              {"internal/exchange"},
	"internal/wire":                {"internal/exchange"},
	"internal/trywrite":            nil,
	"internal/socket":              {"internal/trywrite"},
	"internal/session": {"internal/auth", "internal/engine", "internal/exchange", "internal/latency",
		"internal/trywrite"},
	"internal/rpc": {"internal/accounts", "internal/auth", "internal/engine", "internal/exchange", "internal/market",
		"internal/session", "internal/socket"},
	"internal/operate":           nil,
	"internal/logging":           nil,
	"internal/listen":            nil,
	"internal/sdnotify":          nil,
	"internal/admin":             {"internal/auth", "internal/exchange", "internal/logging", "internal/operate"},
	"internal/auth":              {"internal/durable", "internal/exchange"},
	"internal/testing/certtest":  nil,
	"internal/testing/effort":    nil,
	"internal/testing/processes": nil,
	"internal/accounts":          {"internal/exchange", "internal/follow"},
	"internal/follow":            {},
	"internal/binance": {"internal/accounts", "internal/auth", "internal/engine", "internal/exchange", "internal/market",
		"internal/session", "internal/socket"},
	"internal/market":   {"docs", "internal/exchange", "internal/follow"},
	"internal/memory":   nil,
	"clients/go/client": {"internal/wire"},
	"clients/go/stream": {"clients/go/client"},
	"internal/demo":     {"clients/go/client", "internal/exchange", "internal/wire"},
	"internal/postgres": {"internal/durable", "internal/exchange", "internal/idmap", "internal/journal",
		"migrations"},
	"internal/postgres/cluster": nil,
	"internal/testing/pgtest":   {"internal/postgres/cluster"},
	"internal/backup": {"internal/durable", "internal/exchange", "internal/journal",
		"internal/postgres", "internal/postgres/cluster"},
	"internal/doctor": {"internal/backup", "internal/exchange", "internal/journal", "internal/memory", "internal/operate",
		"internal/postgres", "internal/postgres/cluster", "internal/replica/raftlog"},
	"internal/progress": nil,
	"cmd/outcry": {"clients/go/client", "internal/auth", "internal/backup", "internal/doctor", "internal/durable",
		"internal/demo", "internal/grade", "internal/grade/dialog", "internal/grade/plain", "internal/grade/report",
		"internal/grade/script", "internal/grade/target", "internal/operate", "internal/settings", "internal/exchange",
		"internal/journal",
		"internal/load", "internal/load/scenario", "internal/memory", "internal/progress", "internal/wire",
		"internal/postgres",
		"internal/postgres/cluster", "internal/replica/raftlog", "internal/version"},
	"internal/grade": {"internal/grade/dialog", "internal/grade/plain", "internal/grade/script", "internal/grade/target",
		"internal/grade/throughput"},
	"internal/check":        {"clients/go/client", "internal/model", "internal/wire"},
	"internal/load":         {"clients/go/client", "internal/grade/dialog", "internal/wire"},
	"internal/grade/target": nil,
	"internal/grade/faulty": {"internal/grade/dialog"},
	"internal/grade/report": {"internal/grade", "internal/grade/dialog", "internal/grade/plain",
		"internal/grade/script"},
	"internal/grade/plain":      nil,
	"internal/grade/throughput": {"internal/grade/dialog", "internal/grade/script", "internal/load"},
	"internal/load/scenario":    {"internal/grade/dialog", "internal/load", "internal/wire"},
	"loadtest": {"internal/grade/faulty", "internal/journal", "internal/load", "internal/load/scenario",
		"loadtest/anchors", "loadtest/bench", "loadtest/books", "loadtest/failover", "loadtest/harness", "loadtest/mutation",
		"loadtest/readers", "loadtest/torture"},
	"loadtest/anchors": {"internal/check", "internal/load", "internal/postgres/cluster", "internal/testing/processes",
		"loadtest/harness"},
	"loadtest/books": {"clients/go/client", "clients/go/stream", "internal/load", "internal/load/scenario",
		"loadtest/harness"},
	"loadtest/readers": {"internal/load", "internal/load/scenario", "loadtest/bench", "loadtest/harness",
		"loadtest/vegeta"},
	"loadtest/vegeta": {"internal/load"},
	"loadtest/bench": {"internal/check", "internal/doctor", "internal/load", "internal/load/scenario", "loadtest/harness",
		"loadtest/vegeta"},
	"loadtest/mutation": {"loadtest/books", "loadtest/failover", "loadtest/harness", "loadtest/torture"},
	"loadtest/torture":  {"internal/check", "internal/load", "internal/wire", "loadtest/harness"},
	"loadtest/failover": {"clients/go/client", "internal/check", "internal/load", "internal/testing/processes",
		"internal/wire", "loadtest/books", "loadtest/harness"},
	"loadtest/harness": {"internal/postgres/cluster", "internal/testing/processes"},
	"cmd/outcryd": {"internal/accounts", "internal/binance", "internal/exchange", "internal/journal", "internal/engine",
		"internal/wire",
		"internal/session", "internal/socket",
		"internal/admin", "internal/auth", "internal/backup", "internal/operate", "internal/settings",
		"internal/latency", "internal/market", "internal/memory", "internal/postgres", "internal/postgres/cluster",
		"internal/health", "internal/listen", "internal/logging", "internal/progress", "internal/recovery",
		"internal/replica", "internal/replica/core", "internal/replica/peers", "internal/rpc", "internal/sdnotify",
		"internal/version"},
	"internal/grade/dialog": nil,
	"internal/health": {"internal/auth", "internal/session", "internal/journal", "internal/market", "internal/operate",
		"internal/postgres", "internal/settings"},
	"internal/replica": {"internal/durable", "internal/journal", "internal/replica/core", "internal/replica/peers",
		"internal/replica/raftlog"},
	"internal/replica/peers": {"internal/auth", "internal/journal", "internal/replica/core"},
	"internal/settings": {"internal/auth", "internal/backup", "internal/exchange", "internal/journal", "internal/logging",
		"internal/memory", "internal/operate", "internal/postgres"},
	"internal/recovery": {"internal/backup", "internal/exchange", "internal/journal", "internal/postgres",
		"internal/postgres/cluster", "internal/progress", "internal/settings"},
}

// pure names the packages that do no I/O, read no clock, draw nothing at random
// and start nothing; forbidden is what would let them, and clock what of package time would.
var (
	pure      = []string{"internal/exchange", "internal/wire"}
	forbidden = []string{"os", "net", "net/http", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog", "sync",
		"context"}
	clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
)

const (
	fileLinesMax     = 400
	functionLinesMax = 70
)

// source is one parsed file that is not a test.
type source struct {
	path, folder string
	file         *ast.File
	set          *token.FileSet
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	for _, top := range []string{"clients", "cmd", "internal", "migrations", "loadtest"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			path, err = filepath.Rel(root, path)
			all = append(all, source{path, filepath.ToSlash(filepath.Dir(path)), file, set})
			return err
		})
		require.NoError(t, err)
	}
	require.NotEmpty(t, all)
	return all
}

func TestPackagesImportWhatTheHouseAllows(t *testing.T) {
	for _, s := range sources(t) {
		allowed, known := imports[s.folder]
		require.True(t, known, "%s: package %s is not in the house", s.path, s.folder)
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if ours, ok := strings.CutPrefix(path, "outcry/"); ok {
				require.Contains(t, allowed, ours, "%s imports %s", s.path, path)
			}
		}
	}
}

func TestTheCoreStaysPure(t *testing.T) {
	for _, s := range sources(t) {
		for _, folder := range pure {
			if s.folder != folder {
				continue
			}
			for _, spec := range s.file.Imports {
				path, _ := strconv.Unquote(spec.Path.Value)
				require.NotContains(t, forbidden, path, s.path)
			}
			ast.Inspect(s.file, func(n ast.Node) bool {
				_, starts := n.(*ast.GoStmt)
				require.False(t, starts, "%s starts a goroutine", s.path)
				if x, ok := n.(*ast.SelectorExpr); ok && fmt.Sprint(x.X) == "time" {
					require.NotContains(t, clock, x.Sel.Name, s.path)
				}
				return true
			})
		}
	}
}

func TestFilesAndFunctionsStayShort(t *testing.T) {
	for _, s := range sources(t) {
		lines := s.set.Position(s.file.End()).Line
		require.LessOrEqual(t, lines, fileLinesMax, s.path)
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				n := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1
				require.LessOrEqual(t, n, functionLinesMax, "%s: %s", s.path, f.Name.Name)
			}
		}
	}
}

func TestEveryPackageAndExportedNameIsDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		documented[s.folder] = documented[s.folder] || s.file.Doc != nil
		for _, d := range s.file.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: %s has no docstring", s.path, name)
			}
		}
	}
	for folder, ok := range documented {
		require.True(t, ok, "package %s has no package comment", folder)
	}
}

// undocumented lists the exported names of a declaration that have no comment.
// A group's comment covers its values.
func undocumented(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && d.Doc == nil && spec.Doc == nil {
					names = append(names, spec.Name.Name)
				}
			case *ast.ValueSpec:
				if spec.Names[0].IsExported() && d.Doc == nil && spec.Doc == nil && spec.Comment == nil {
					names = append(names, spec.Names[0].Name)
				}
			}
		}
	}
	return names
}

// exportedReceiver reports whether a function is none's method or an exported type's.
func exportedReceiver(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	typ := f.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	name, ok := typ.(*ast.Ident)
	return ok && name.IsExported()
}
