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
	"internal/process/version":     nil,
	"internal/exchange/idmap":      nil,
	"internal/exchange":            {"internal/exchange/idmap"},
	"internal/journal/durable":     nil,
	"internal/testing/durabletest": {"internal/journal/durable"},
	"internal/journal":             {"internal/journal/durable"},
	"internal/replica/core":        nil,
	"internal/replica/raftlog":     {"internal/journal/durable", "internal/journal", "internal/replica/core"},
	"internal/lab/model":           nil,
	"internal/lab/grade/script":    {"internal/lab/audit", "internal/lab/dialect", "internal/lab/model"},
	"internal/testing/archtest":    nil,
	"internal/process/latency":     nil,
	"internal/testing/doctest":     nil,
	"internal/testing/asyncapi":    nil,
	"internal/engine":              {"internal/exchange"},
	"internal/door/xml/wire":       {"internal/exchange"},
	"internal/process/trywrite":    nil,
	"internal/door/websocket":      {"internal/process/trywrite"},
	"internal/door": {"internal/auth", "internal/engine", "internal/exchange", "internal/process/latency",
		"internal/process/trywrite"},
	"internal/door/jsonrpc": {"internal/view/accounts", "internal/auth", "internal/engine", "internal/exchange", "internal/view/market",
		"internal/door", "internal/door/websocket"},
	"internal/operate/remote":    nil,
	"internal/process/logging":   nil,
	"internal/process/listen":    nil,
	"internal/process/sdnotify":  nil,
	"internal/door/admin":        {"internal/auth", "internal/exchange", "internal/process/logging", "internal/operate/remote"},
	"internal/auth":              {"internal/journal/durable", "internal/exchange"},
	"internal/testing/certtest":  nil,
	"internal/testing/budget":    nil,
	"internal/testing/processes": nil,
	"internal/view/accounts":     {"internal/exchange", "internal/journal/trail"},
	"internal/journal/trail":     {},
	"internal/door/binance": {"internal/view/accounts", "internal/auth", "internal/engine", "internal/exchange", "internal/view/market",
		"internal/door", "internal/door/websocket"},
	"internal/view/market":      {"docs", "internal/exchange", "internal/journal/trail"},
	"internal/process/memlimit": nil,
	"clients/go/client":         {"internal/door/xml/wire"},
	"clients/go/stream":         {"clients/go/client"},
	"internal/lab/demo":         {"clients/go/client", "internal/exchange", "internal/door/xml/wire"},
	"internal/postgres": {"internal/journal/durable", "internal/exchange", "internal/exchange/idmap", "internal/journal",
		"migrations"},
	"internal/postgres/local": nil,
	"internal/testing/pgtest": {"internal/postgres/local"},
	"internal/operate/backup": {"internal/journal/durable", "internal/exchange", "internal/journal",
		"internal/postgres", "internal/postgres/local"},
	"internal/operate/doctor": {"internal/operate/backup", "internal/exchange", "internal/journal", "internal/process/memlimit", "internal/operate/remote",
		"internal/postgres", "internal/postgres/local", "internal/replica/raftlog"},
	"internal/process/progress": nil,
	"cmd/outcry": {"clients/go/client", "internal/auth", "internal/operate/backup", "internal/operate/doctor", "internal/journal/durable",
		"internal/lab/demo", "internal/lab/grade", "internal/lab/dialect", "internal/lab/printable", "internal/lab/grade/report",
		"internal/lab/grade/script", "internal/lab/grade/target", "internal/operate/remote", "internal/operate/settings", "internal/exchange",
		"internal/journal",
		"internal/lab/load", "internal/lab/load/scenario", "internal/process/memlimit", "internal/process/progress", "internal/door/xml/wire",
		"internal/postgres",
		"internal/postgres/local", "internal/replica/raftlog", "internal/process/version"},
	"internal/lab/grade": {"internal/lab/dialect", "internal/lab/printable", "internal/lab/grade/script", "internal/lab/grade/target",
		"internal/lab/grade/throughput"},
	"internal/lab/audit":        {"clients/go/client", "internal/lab/model", "internal/door/xml/wire"},
	"internal/lab/load":         {"clients/go/client", "internal/lab/dialect", "internal/door/xml/wire"},
	"internal/lab/grade/target": nil,
	"internal/lab/grade/faulty": {"internal/lab/dialect"},
	"internal/lab/grade/report": {"internal/lab/grade", "internal/lab/dialect", "internal/lab/printable",
		"internal/lab/grade/script"},
	"internal/lab/printable":        nil,
	"internal/lab/grade/throughput": {"internal/lab/dialect", "internal/lab/grade/script", "internal/lab/load"},
	"internal/lab/load/scenario":    {"internal/lab/dialect", "internal/lab/load", "internal/door/xml/wire"},
	"loadtest": {"internal/lab/grade/faulty", "internal/journal", "internal/lab/load", "internal/lab/load/scenario",
		"internal/lab/anchors", "internal/lab/bench", "internal/lab/books", "internal/lab/failover", "internal/lab/harness", "internal/lab/mutation",
		"internal/lab/readers", "internal/lab/torture"},
	"internal/lab/anchors": {"internal/lab/audit", "internal/lab/load", "internal/postgres/local", "internal/testing/processes",
		"internal/lab/harness"},
	"internal/lab/books": {"clients/go/client", "clients/go/stream", "internal/lab/load", "internal/lab/load/scenario",
		"internal/lab/harness"},
	"internal/lab/readers": {"internal/lab/load", "internal/lab/load/scenario", "internal/lab/bench", "internal/lab/harness",
		"internal/lab/vegeta"},
	"internal/lab/vegeta": {"internal/lab/load"},
	"internal/lab/bench": {"internal/lab/audit", "internal/operate/doctor", "internal/lab/load", "internal/lab/load/scenario", "internal/lab/harness",
		"internal/lab/vegeta"},
	"internal/lab/mutation": {"internal/lab/books", "internal/lab/failover", "internal/lab/harness", "internal/lab/torture"},
	"internal/lab/torture":  {"internal/lab/audit", "internal/lab/load", "internal/door/xml/wire", "internal/lab/harness"},
	"internal/lab/failover": {"clients/go/client", "internal/lab/audit", "internal/lab/load", "internal/testing/processes",
		"internal/door/xml/wire", "internal/lab/books", "internal/lab/harness"},
	"internal/lab/harness": {"internal/postgres/local", "internal/testing/processes"},
	"cmd/outcryd": {"internal/view/accounts", "internal/door/binance", "internal/exchange", "internal/journal", "internal/engine",
		"internal/door/xml/wire",
		"internal/door", "internal/door/websocket",
		"internal/door/admin", "internal/auth", "internal/operate/backup", "internal/operate/remote", "internal/operate/settings",
		"internal/process/latency", "internal/view/market", "internal/process/memlimit", "internal/postgres", "internal/postgres/local",
		"internal/operate/health", "internal/process/listen", "internal/process/logging", "internal/process/progress", "internal/operate/recovery",
		"internal/replica", "internal/replica/core", "internal/replica/peers", "internal/door/jsonrpc", "internal/process/sdnotify",
		"internal/process/version"},
	"internal/lab/dialect": nil,
	"internal/operate/health": {"internal/auth", "internal/door", "internal/journal", "internal/view/market", "internal/operate/remote",
		"internal/postgres", "internal/operate/settings"},
	"internal/replica": {"internal/journal/durable", "internal/journal", "internal/replica/core", "internal/replica/peers",
		"internal/replica/raftlog"},
	"internal/replica/peers": {"internal/auth", "internal/journal", "internal/replica/core"},
	"internal/operate/settings": {"internal/auth", "internal/operate/backup", "internal/exchange", "internal/journal", "internal/process/logging",
		"internal/process/memlimit", "internal/operate/remote", "internal/postgres"},
	"internal/operate/recovery": {"internal/operate/backup", "internal/exchange", "internal/journal", "internal/postgres",
		"internal/postgres/local", "internal/process/progress", "internal/operate/settings"},
}

// pure names the packages that do no I/O, read no clock, draw nothing at random
// and start nothing; forbidden is what would let them, and clock what of package time would.
var (
	pure      = []string{"internal/exchange", "internal/door/xml/wire"}
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
