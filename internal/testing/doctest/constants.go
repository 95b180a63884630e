package doctest

import (
	"fmt"
	"go/ast"
	"go/constant"
	goparser "go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Constants reads the values of constants from source, including unexported ones, so that a page can list those of
// all packages. It is used by one goroutine.
type Constants struct {
	root  string // directory of the module
	known map[string]*sourcePackage
}

// sourcePackage is a type-checked package of this module, or a stub for another package.
type sourcePackage struct {
	types  *types.Package
	values map[types.Object]constant.Value // values of constants, and of variables that are initialized with a constant
}

// NewConstants returns the constants of the module in the directory root.
func NewConstants(root string) *Constants {
	return &Constants{root: root, known: make(map[string]*sourcePackage)}
}

// Text returns a constant, or the constant that a package's variable is initialized with, as text for people:
// a duration as 10 s, another whole number with its digits in groups of three. dir is the package's directory
// relative to the root. unit is min for a duration in minutes, KiB, MiB or GiB for bytes, otherwise "". The
// error says that there is no such constant, or that it is not a whole number of the unit.
func (c *Constants) Text(dir, name, unit string) (string, error) {
	p := c.load(dir)
	object := p.types.Scope().Lookup(name)
	value := p.values[object]
	if known, ok := object.(*types.Const); ok {
		value = known.Val()
	}
	n, exact := int64(0), false
	if value != nil {
		n, exact = constant.Int64Val(constant.ToInt(value))
	}
	if !exact {
		return "", fmt.Errorf("%s has no whole constant %s", dir, name)
	}
	if object.Type().String() == "time.Duration" {
		if unit == "min" {
			return fmt.Sprintf("%g min", time.Duration(n).Minutes()), nil
		}
		return fmt.Sprintf("%g s", time.Duration(n).Seconds()), nil
	}
	shift, ok := map[string]int{"": 0, "KiB": 10, "MiB": 20, "GiB": 30}[unit]
	if !ok || n>>shift<<shift != n {
		return "", fmt.Errorf("%s.%s is %d, which is not in whole %s", dir, name, n, unit)
	}
	return strings.TrimSpace(Thousands(n>>shift) + " " + unit), nil
}

// Import implements types.Importer. Packages outside this module are empty, except time, which has its units, because
// their constants are not the project's.
func (c *Constants) Import(name string) (*types.Package, error) {
	if name == "time" {
		return timePackage, nil
	}
	for _, top := range []string{"/internal/", "/cmd/"} {
		if _, dir, ok := strings.Cut(name, top); ok {
			if p := c.load(top[1:] + dir); p.types.Scope().Len() > 0 {
				return p.types, nil
			}
		}
	}
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// load type-checks the declarations of a package. It ignores errors: the compiler reports real ones, and
// names from packages outside the module are unknown here.
func (c *Constants) load(dir string) *sourcePackage {
	if p := c.known[dir]; p != nil {
		return p
	}
	p := &sourcePackage{types: types.NewPackage(dir, path.Base(dir)), values: make(map[types.Object]constant.Value)}
	c.known[dir] = p
	set := token.NewFileSet()
	var files []*ast.File
	entries, _ := os.ReadDir(filepath.Join(c.root, dir))
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			if f, err := goparser.ParseFile(set, filepath.Join(c.root, dir, e.Name()), nil, 0); err == nil {
				files = append(files, f)
			}
		}
	}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Defs: make(map[*ast.Ident]types.Object)}
	checked := types.Config{Importer: c, IgnoreFuncBodies: true, Error: func(error) {}}
	p.types, _ = checked.Check(dir, set, files, info)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
				for i, name := range spec.Names {
					p.values[info.Defs[name]] = info.Types[spec.Values[i]].Value
				}
			}
			return true
		})
	}
	return p
}

// timePackage has Duration and its units.
var timePackage = func() *types.Package {
	p := types.NewPackage("time", "time")
	name := types.NewTypeName(token.NoPos, p, "Duration", nil)
	duration := types.NewNamed(name, types.Typ[types.Int64], nil)
	p.Scope().Insert(name)
	for unit, d := range map[string]time.Duration{"Nanosecond": 1, "Microsecond": time.Microsecond,
		"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour} {
		p.Scope().Insert(types.NewConst(token.NoPos, p, unit, duration, constant.MakeInt64(int64(d))))
	}
	p.MarkComplete()
	return p
}()
