// Package archtest checks the rules by which this repository is built: which package may import which, what the
// pure core must not use, and how long files and functions may be. It contains only tests.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const root = "../../.."

// room is a folder and everything below it.
type room struct {
	folder string
	floor  int      // the room may import rooms of lower floors, and packages of its own folder
	also   []string // other rooms that it may import
	only   []string // if not empty, the only rooms that it may import
}

// rooms are all rooms of the repository. A package belongs to the room with the longest folder that contains it.
// docs/decisions/0037-wings.md has the reasons.
var rooms = []room{
	{folder: "internal/exchange", floor: 1},
	{folder: "internal/journal", floor: 1},
	{folder: "internal/process", floor: 1},
	{folder: "migrations", floor: 1},
	{folder: "docs", floor: 1},
	{folder: "deploy", floor: 1},

	{folder: "internal/engine", floor: 2},
	{folder: "internal/replica", floor: 2, also: []string{"internal/auth"}}, // peers authenticate with certificates
	{folder: "internal/postgres", floor: 2},
	{folder: "internal/view", floor: 2},
	{folder: "internal/auth", floor: 2},

	{folder: "internal/operate", floor: 3},
	// Many programs read settings, so this package imports no database, journal or backup.
	{folder: "internal/operate/settings", floor: 2,
		only: []string{"internal/auth", "internal/exchange", "internal/process"}},
	{folder: "internal/testing", floor: 3},

	{folder: "internal/door", floor: 4},
	// Clients and the lab also use the codec.
	{folder: "internal/door/xml/wire", floor: 2, only: []string{"internal/exchange"}},

	{folder: "clients", floor: 5, only: []string{"internal/door/xml/wire"}},
	{folder: "internal/lab", floor: 6},
	{folder: "cmd/outcryd", floor: 5},
	{folder: "cmd/internal/cli", floor: 6},
	{folder: "cmd/outcry", floor: 6, also: []string{"cmd/internal/cli"}},
	{folder: "cmd/outcry-lab", floor: 7},
	{folder: "loadtest", floor: 7},
}

// pure names the packages that do no I/O, read no clock, draw no random numbers and start no goroutine. They must not
// import the packages in forbidden, and must not use the functions of package time listed in clock.
var (
	pure      = []string{"internal/exchange", "internal/door/xml/wire"}
	forbidden = []string{"os", "net", "net/http", "math/rand", "math/rand/v2", "crypto/rand", "log", "log/slog", "sync",
		"context"}
	clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
)

const (
	fileLinesMax     = 600
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
		from := roomOf(s.folder)
		require.NotNil(t, from, "%s: package %s belongs to no room", s.path, s.folder)
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if ours, ok := strings.CutPrefix(path, "outcry/"); ok {
				to := roomOf(ours)
				require.NotNil(t, to, "%s: package %s belongs to no room", s.path, ours)
				require.True(t, from.allows(to), "%s imports %s", s.path, path)
			}
		}
	}
}

// TestThePictureHasEveryRoom checks that docs/images/wings.svg names each room. Its arrows are drawn by hand and
// not checked.
func TestThePictureHasEveryRoom(t *testing.T) {
	picture, err := os.ReadFile(filepath.Join(root, "docs/images/wings.svg"))
	require.NoError(t, err)
	for _, r := range rooms {
		require.Contains(t, string(picture), strings.TrimPrefix(r.folder, "internal/"))
	}
}

// roomOf returns the room that a package belongs to, or nil.
func roomOf(folder string) (found *room) {
	for i := range rooms {
		r := &rooms[i]
		within := folder == r.folder || strings.HasPrefix(folder, r.folder+"/")
		if within && (found == nil || len(r.folder) > len(found.folder)) {
			found = r
		}
	}
	return found
}

// allows reports whether packages of room r may import packages of room to.
func (r *room) allows(to *room) bool {
	switch {
	case r == to || slices.Contains(r.also, to.folder):
		return true
	case len(r.only) > 0:
		return slices.Contains(r.only, to.folder)
	}
	return to.floor < r.floor
}

func TestTheHouseIsKeptByItsFloors(t *testing.T) {
	for _, c := range []struct {
		from, to string
		allowed  bool
	}{
		{"internal/engine", "internal/exchange/idmap", true},
		{"internal/engine", "internal/postgres", false},
		{"internal/view/accounts", "internal/engine", false},
		{"internal/replica/peers", "internal/auth", true},
		{"internal/exchange", "internal/journal", false},
		{"internal/exchange", "internal/exchange/idmap", true},
		{"internal/door/jsonrpc", "internal/view/market", true},
		{"internal/door/web", "internal/view/market", true},
		{"internal/view/market", "internal/door/web", false},
		{"internal/operate/health", "internal/door", false},
		{"internal/operate/doctor", "internal/operate/settings", true},
		{"internal/operate/settings", "internal/auth", true},
		{"internal/operate/settings", "internal/postgres", false},
		{"internal/operate/settings", "internal/journal", false},
		{"internal/operate/settings", "internal/operate/backup", false},
		{"internal/door/xml/wire", "internal/door", false},
		{"clients/go/stream", "internal/door/xml/wire", true},
		{"clients/go/client", "internal/exchange", false},
		{"cmd/outcryd", "internal/lab/grade", false},
		{"cmd/outcry", "internal/lab/grade", false},
		{"cmd/outcry-lab", "internal/lab/grade", true},
		{"internal/engine", "internal/lab/model", false},
		{"loadtest", "internal/lab/torture", true},
	} {
		require.Equal(t, c.allowed, roomOf(c.from).allows(roomOf(c.to)), "%s imports %s", c.from, c.to)
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

// undocumented lists the exported names of a declaration that have no comment. The comment of a group covers its
// values.
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

// exportedReceiver reports whether a function is not a method, or is a method of an exported type.
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
