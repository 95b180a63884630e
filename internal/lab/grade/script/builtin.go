package script

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// builtin has the files of the built-in cases.
//
//go:embed all:cases
var builtin embed.FS

// filesMax is how many cases a folder may have.
const filesMax = 5000

// Builtin returns the built-in cases, sorted by group and name.
func Builtin() ([]*Case, error) {
	root, err := fs.Sub(builtin, "cases")
	if err != nil {
		return nil, err
	}
	return read(root, nil)
}

// Load reads all GROUP/NAME.case below dir. It returns them together with the cases in to, sorted by group and name; a
// case from dir replaces the one of the same name. The error names the file and line, or says that dir has no case. to
// is unchanged.
func Load(dir string, to []*Case) ([]*Case, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	all, err := read(root.FS(), to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return all, nil
}

// read reads the cases of a folder and merges them into a copy of to.
func read(root fs.FS, to []*Case) ([]*Case, error) {
	files, err := fs.Glob(root, "*/*.case")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no GROUP/NAME.case")
	}
	if len(files) > filesMax {
		return nil, fmt.Errorf("there are more than %d cases", filesMax)
	}
	all := slices.Clone(to)
	for _, file := range files {
		c, err := readCase(root, file)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(all, func(other *Case) bool { return other.Name == c.Name }); i >= 0 {
			all[i] = c
		} else {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, inOrder)
	return all, nil
}

// readCase reads one file. The error says that the file is larger than caseBytesMax, or what is wrong in it.
func readCase(root fs.FS, file string) (*Case, error) {
	info, err := fs.Stat(root, file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > caseBytesMax {
		return nil, fmt.Errorf("%s: not a file of at most %d bytes", file, caseBytesMax)
	}
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return nil, err
	}
	return Parse(strings.TrimSuffix(file, path.Ext(file)), text)
}

// inOrder compares two cases by group and name.
func inOrder(a, b *Case) int {
	place := func(c *Case) int {
		return slices.IndexFunc(Groups, func(g Group) bool { return g.Name == c.Group })
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a.Name, b.Name))
}
