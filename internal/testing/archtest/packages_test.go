package archtest

import (
	"flag"
	"go/doc"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

var update = flag.Bool("update", false, "write docs/reference; make reference does it for all packages")

// TestReferenceOfPackages generates docs/reference/PACKAGES.md from the package comments and the imports.
func TestReferenceOfPackages(t *testing.T) {
	synopses, ours := map[string]string{}, map[string]map[string]bool{}
	for _, s := range sources(t) {
		if ours[s.folder] == nil {
			ours[s.folder] = map[string]bool{}
		}
		if s.file.Doc != nil {
			synopses[s.folder] = new(doc.Package).Synopsis(s.file.Doc.Text())
		}
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if folder, ok := strings.CutPrefix(path, "outcry/"); ok {
				ours[s.folder][strings.TrimPrefix(folder, "internal/")] = true
			}
		}
	}
	rows := [][]string{{"package", "what it is", "imports of ours"}}
	for _, folder := range slices.Sorted(maps.Keys(ours)) {
		rows = append(rows, []string{"`" + folder + "`", synopses[folder],
			strings.Join(slices.Sorted(maps.Keys(ours[folder])), ", ")})
	}
	require.NoError(t, doctest.Reference(filepath.Join(root, "docs/reference/PACKAGES.md"), `# Packages

Made by `+"`make reference`"+` from the package comments and imports. Imports are below `+"`internal`"+` unless
they name another folder. `+"`internal/testing/archtest`"+` says which are allowed;
[ARCHITECTURE](../ARCHITECTURE.md) has the route of an order through them.

`+doctest.Table(rows), *update))
}

// TestTheMapNamesWhatIsThere checks that the packages named in docs/ARCHITECTURE.md exist, and that it gives their
// floors as rooms does.
func TestTheMapNamesWhatIsThere(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/ARCHITECTURE.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## The map\n")
	require.True(t, ok)
	rows := regexp.MustCompile("(?m)^\\| (`[^|]+`) \\| ([0-9]) \\|").FindAllStringSubmatch(section, -1)
	require.Greater(t, len(rows), 10)
	for _, row := range rows {
		for name := range strings.SplitSeq(strings.ReplaceAll(row[1], "`", ""), ", ") {
			_, below := os.Stat(filepath.Join(root, "internal", name))
			_, beside := os.Stat(filepath.Join(root, name))
			require.True(t, below == nil || beside == nil, "there is no package %s", name)
			folder := name
			if below == nil {
				folder = "internal/" + name
			}
			require.Equal(t, row[2], strconv.Itoa(roomOf(folder).floor), "floor of %s", name)
		}
	}
}

// TestTheStepsOfCIFitTheirTime adds up the budgets of .ci/run, which names the limit at its end.
func TestTheStepsOfCIFitTheirTime(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, ".ci/run"))
	require.NoError(t, err)
	limit := regexp.MustCompile(`%6d +(\d+)  all\\n`).FindSubmatch(script)
	require.NotNil(t, limit)
	most, err := strconv.Atoi(string(limit[1]))
	require.NoError(t, err)
	sum := 0
	for _, step := range regexp.MustCompile(`(?m)^step (.*)$`).FindAllSubmatch(script, -1) {
		seconds, _, _ := strings.Cut(string(step[1]), " ")
		budget, err := strconv.Atoi(seconds)
		require.NoError(t, err, "step %s has no budget", step[1])
		sum += budget
	}
	require.Positive(t, sum)
	require.LessOrEqual(t, sum, most)
}

// TestCINamesNoTests requires that no script of CI runs or leaves out a test by name: a test that is too long for a
// run says so itself (internal/testing/budget), and one that needs a program has a build tag. TestReference is the
// common beginning of the names of tests that generate pages.
func TestCINamesNoTests(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".ci/*"))
	require.NoError(t, err)
	read := 0
	for _, file := range append(files, filepath.Join(root, "Makefile")) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a folder
		}
		read++
		for _, found := range regexp.MustCompile(`[^.\w]((?:Test|Benchmark|Fuzz)[A-Z]\w+)`).FindAllSubmatch(text, -1) {
			require.Equal(t, "TestReference", string(found[1]), file)
		}
	}
	require.Greater(t, read, 5)
}
