package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startsIn are the files whose every error is a refusal to start, and so is in
// docs/OPERATIONS.md or in besides.
var startsIn = []string{"cmd/outcryd/server.go", "cmd/outcryd/bind.go", "cmd/outcryd/security.go",
	"internal/listen/listen.go", "internal/recovery/database.go", "internal/recovery/state.go",
	"internal/settings/security.go"}

// refusals are the rows of the page, and of each the files that have it in an error's
// text. Packages that also fail otherwise have only some of theirs here.
var refusals = map[string][]string{
	"is in use by another process":                        {"internal/journal/fs.go"},
	"another server is using the database":                {"internal/postgres/store.go"},
	"a connection pooler is in between":                   {"internal/postgres/session.go"},
	"records that were answered may be lost":              {"internal/recovery/database.go"},
	"the database is older than the journal reaches back": {"internal/recovery/state.go"},
	"this data directory belongs to another database":     {"internal/recovery/state.go"},
	"is damaged at offset":                                {"internal/journal/segment.go"},
	"does not add up":                                     {"internal/recovery/state.go"},
	"does not come out as recorded":                       {"internal/recovery/state.go"},
	"its schema has version":                              {"internal/postgres/migrate.go"},
	"this program reads up to version":                    {"internal/journal/segment.go"},
	"was begun and has not ended":                         {"internal/backup/marker.go"},
	"--auth: ":                                            {"cmd/outcryd/security.go"},
	"is open beyond this machine":                         {"internal/settings/security.go"},
	"--tls-cert: ":                                        {"cmd/outcryd/security.go"},
	"must be from":                                        {"internal/settings/table.go"},
	"is no setting":                                       {"internal/settings/configfile.go"},
	"must be a whole number":                              {"internal/settings/flags.go"},
	"is the address of --listen too":                      {"cmd/outcryd/bind.go", "internal/settings/inspect.go"},
	"address already in use":                              nil, // of the system, as bind says it
}

// besides are errors in startsIn that are not a row of their own.
var besides = []string{
	"starting", "stopping", // states, which are no errors of a start
	"--listen: %w", "--http: %w", "--%s %s: %w", "%s: %w", "another program listens there", // address already in use
	"xml: %w", "http: %w", // ends of a server that has started
	"the journal in %s reaches only to %d: %w",                             // records that were answered may be lost
	"journal record %d: %w",                                                // what else does not come out as recorded
	"must be host names without ports", "is open beyond this machine, and", // wrong flags
	"both are needed", "are needed as well", // wrong flags
	"%x", // a digest
}

// TestThePageHasWhatAStartRefuses compares the page with the texts in the program.
func TestThePageHasWhatAStartRefuses(t *testing.T) {
	page, err := os.ReadFile("../../docs/OPERATIONS.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(page), "\n## What a start refuses\n")
	require.True(t, ok)
	table, _, ok := strings.Cut(section, "\n\n| exit status")
	require.True(t, ok)
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(?:… )?([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		rows = append(rows, row[1])
	}
	require.ElementsMatch(t, rows, slices.Collect(maps.Keys(refusals)))
	for row, files := range refusals {
		for _, file := range files {
			says := func(text string) bool { return strings.Contains(text, row) }
			require.True(t, slices.ContainsFunc(errorTexts(t, file), says), "%s does not say %q", file, row)
		}
	}
	known := slices.Concat(rows, besides)
	for _, file := range startsIn {
		for _, text := range errorTexts(t, file) {
			require.True(t, slices.ContainsFunc(known, func(k string) bool { return strings.Contains(text, k) }),
				"%s refuses with %q, of which docs/OPERATIONS.md knows nothing", file, text)
		}
	}
}

// errorTexts returns the texts of a file's errors: the strings that are given to what
// makes them.
func errorTexts(t *testing.T, file string) (all []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, 0)
	require.NoError(t, err)
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !slices.Contains([]string{"New", "Errorf", "Sprintf", "wrong"}, nameOf(call.Fun)) {
			return true
		}
		text := ""
		for _, argument := range call.Args {
			ast.Inspect(argument, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					s, err := strconv.Unquote(l.Value)
					require.NoError(t, err)
					text += s
				}
				return true
			})
		}
		if text != "" {
			all = append(all, text)
		}
		return true
	})
	require.NotEmpty(t, all, file)
	return all
}

// nameOf returns the name of a function, without that of its package.
func nameOf(f ast.Expr) string {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
