package archtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// dependencies lists each module that go.mod requires directly, with its purpose, its maintainer according to
// its own files, and whether it is part of a released program.
var dependencies = []struct {
	module, why, keptBy string
	released            bool
}{
	{"github.com/jackc/pgx/v5", "Postgres, with COPY and exact types", "Jack Christensen (licence)", true},
	{"github.com/prometheus/client_golang", "metrics", "its MAINTAINERS", true},
	{"github.com/prometheus/client_model", "reads our own metrics", "its MAINTAINERS", true},
	{"github.com/fergusstrange/embedded-postgres", "downloads a Postgres", "Fergus Strange (licence)", true},
	{"go.etcd.io/raft/v3", "consensus of a cluster", "its OWNERS", true},
	{"google.golang.org/protobuf", "messages of raft", "the Go authors (licence)", true},
	{"github.com/BurntSushi/toml", "reads profiles of `outcry-lab grade`", "TOML authors (licence)", true},
	{"golang.org/x/sync", "weighted semaphore for memory", "the Go authors", true},
	{"golang.org/x/sys", "flock, fallocate, socket options", "the Go authors", true},
	{"github.com/stretchr/testify", "assertions", "its MAINTAINERS", false},
	{"pgregory.net/rapid", "state-machine properties", "its files name nobody", false},
	{"github.com/rogpeppe/go-internal", "transcripts (txtar)", "the Go authors (licence)", false},
	{"go.yaml.in/yaml/v3", "reads openapi.yaml", "the YAML organization (README)", false},
	{"github.com/chromedp/chromedp", "the page in a browser", "Kenneth Shaw (licence)", false},
	{"github.com/chromedp/cdproto", "the same", "Kenneth Shaw (licence)", false},
	{"github.com/anishathalye/porcupine", "linearizability, also for `outcry-lab grade`", "Anish Athalye (licence)", true},
	{"github.com/coder/websocket", "WebSocket of the Go client and of tests", "Coder (licence)", false},
	{"github.com/tsenart/vegeta/v12", "load over HTTP", "its CODEOWNERS: tsenart, xla", false},
	{"github.com/prometheus/procfs", "processes under load; client_golang needs it too", "its MAINTAINERS", false},
	{"github.com/HdrHistogram/hdrhistogram-go", "latencies under load", "Coda Hale (licence)", true},
	{"gonum.org/v1/plot", "plots of reports", "the Gonum authors", false},
	{"golang.org/x/net", "headers of HTTP/2 (hpack), for etcd beside us", "the Go authors", false},
}

// TestReferenceOfDependencies generates docs/reference/DEPENDENCIES.md. It fails if go.mod requires a module that
// is not in dependencies.
func TestReferenceOfDependencies(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	_, list, ok := strings.Cut(string(b), "\nrequire (\n")
	require.True(t, ok)
	list, _, ok = strings.Cut(list, "\n)")
	require.True(t, ok)
	var required, known []string
	for _, match := range regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(list, -1) {
		required = append(required, match[1])
	}
	paths := imported(t)
	rows := [][]string{{"module", "why", "kept by", "brings", "in a released program"}}
	for _, d := range dependencies {
		known = append(known, d.module)
		released := "no"
		if d.released {
			released = "yes"
		}
		rows = append(rows,
			[]string{"`" + d.module + "`", d.why, d.keptBy, strconv.Itoa(brings(t, d.module, paths)), released})
	}
	require.ElementsMatch(t, required, known, "the modules that go.mod requires, and those with a reason here")
	require.NoError(t, doctest.Reference(filepath.Join(root, "docs/reference/DEPENDENCIES.md"), `# Dependencies

Made by `+"`make reference`"+` from `+"`go.mod`, `go list -deps`"+` and the reasons in
`+"`internal/testing/archtest`"+`. *Brings* counts the further modules that the packages we import need.
[Decision 26](../decisions/0026-dependencies.md) says when a module is added.

`+doctest.Table(rows), *update))
}

// imported returns the paths of all packages that our Go files import, including tests.
func imported(t *testing.T) map[string]bool {
	paths := map[string]bool{}
	for _, top := range []string{"clients", "cmd", "deploy", "internal", "loadtest", "migrations"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
			if err != nil {
				return err
			}
			for _, spec := range file.Imports {
				paths[strings.Trim(spec.Path.Value, `"`)] = true
			}
			return nil
		}))
	}
	return paths
}

// brings counts the modules, other than module itself and the standard library, that the imported packages of
// module need.
func brings(t *testing.T, module string, imported map[string]bool) int {
	arguments := []string{"list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}"}
	flags := len(arguments)
	for path := range imported {
		if path == module || strings.HasPrefix(path, module+"/") {
			arguments = append(arguments, path)
		}
	}
	require.Greater(t, len(arguments), flags, "no file imports %s", module)
	list := exec.Command("go", arguments...)
	list.Dir = root
	out, err := list.Output()
	require.NoError(t, err)
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	return len(slices.DeleteFunc(slices.Compact(modules), func(m string) bool { return m == module }))
}
