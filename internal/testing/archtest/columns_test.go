package archtest

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// columnsMax is the largest width of a line in a Go file. A tab counts as one column.
const columnsMax = 120

// generated matches the line that tools write above generated code.
var generated = regexp.MustCompile(`^// Code generated .* DO NOT EDIT\.$`)

// TestLinesStayNarrow checks every Go file except test data and generated files.
func TestLinesStayNarrow(t *testing.T) {
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err = filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch path = filepath.ToSlash(path); {
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		files++
		for _, place := range tooWide(t, path) {
			t.Errorf("%s is wider than %d columns", place, columnsMax)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, files)
}

// tooWide returns the positions of a file's lines that are too wide, or nil if the file is generated.
func tooWide(t *testing.T, path string) (places []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(root, path))
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if generated.MatchString(lines.Text()) {
			return nil
		}
		if utf8.RuneCountInString(lines.Text()) > columnsMax {
			places = append(places, path+":"+strconv.Itoa(n))
		}
	}
	require.NoError(t, lines.Err(), path)
	return places
}
