package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// startsIn lists the files in which every error is a refusal to start. Each error text must be in refusals or besides.
var startsIn = []string{"cmd/outcryd/server.go", "cmd/outcryd/bind.go", "cmd/outcryd/security.go",
	"internal/process/listen/listen.go", "internal/operate/recovery/database.go", "internal/operate/recovery/state.go",
	"internal/operate/settings/security.go"}

// refusal is a row of docs/reference/MESSAGES.md: the log message, its meaning, and what to do.
type refusal struct {
	says, is, do string
	files        []string // files with an error text that contains says; empty if another program reports the error
}

// refusals lists all refusals to start. Of packages that also return other errors, it has only the refusals.
var refusals = []refusal{
	{"is in use by another process", "a second exchange on this data directory, `outcry verify`, or a backup of a " +
		"stopped exchange with a local Postgres, which `outcry-backup.timer` begins each hour",
		"`fuser -v /var/lib/outcry/LOCK` shows it. Wait for a backup, or `systemctl stop outcry-backup`; end anything " +
			"else. Then `systemctl reset-failed outcryd` and start", []string{"internal/journal/fs.go"}},
	{"another server is using the database", "a second exchange on this database, or a copy of this one; the line " +
		"names its process in Postgres",
		"end it. If its machine is gone, Postgres ends its session within half a minute",
		[]string{"internal/postgres/store.go"}},
	{"a connection pooler is in between", "the URL leads to PgBouncer or the like, which keeps neither the lock nor " +
		"the settings of a session", "name Postgres itself in `DATABASE_URL`", []string{"internal/postgres/session.go"}},
	{"address already in use", "another program has the port; nothing was started",
		"`ss -Hltnp sport = :12345`; end it, or change `OUTCRY_LISTEN`", nil},
	{"same address as --listen", "both ports have the same address; nothing was started", "change `OUTCRY_HTTP`",
		[]string{"cmd/outcryd/bind.go", "internal/operate/settings/inspect.go"}},
	{"is open beyond this machine", "others can reach the address, and neither tokens nor client certificates are " +
		"required",
		"[Security](../DEPLOYMENT.md#security); or `OUTCRY_OPEN=true`: anyone who reaches it then trades for anybody",
		[]string{"internal/operate/settings/security.go"}},
	{"records that were answered may be lost", "the journal is not the newest, or gone",
		"[Lose the journal](PROCEDURES.md#lose-the-journal)", []string{"internal/operate/recovery/database.go"}},
	{"the database is older than the journal's start", "the database is an old copy",
		"[Lose Postgres](PROCEDURES.md#lose-postgres)", []string{"internal/operate/recovery/state.go"}},
	{"this data directory belongs to another database", "`DATABASE_URL` or `OUTCRY_DATA` is wrong", "correct it",
		[]string{"internal/operate/recovery/state.go"}},
	{"is damaged at offset", "a segment of the journal is not what was written",
		"keep everything: [A damaged journal](PROCEDURES.md#a-damaged-journal)", []string{"internal/journal/segment.go"}},
	{"does not add up", "somebody has changed the tables, or a bug", "keep everything, `outcry verify`",
		[]string{"internal/operate/recovery/state.go"}},
	{"does not replay as recorded", "replaying the journal has another result than it recorded: a bug, or another " +
		"version",
		"keep everything, try the version that wrote it", []string{"internal/operate/recovery/state.go"}},
	{"may not make the schema outcry", "the role owns neither the database nor a schema `outcry`",
		"as a superuser, in that database: `CREATE SCHEMA outcry AUTHORIZATION outcry`",
		[]string{"internal/postgres/names.go"}},
	{"search_path names no schema for the tables", "no schema of the role's `search_path` exists, or `outcry` alone does",
		"make one, or set `search_path` in `DATABASE_URL`", []string{"internal/postgres/names.go"}},
	{"has no exchange_state", "the schema that people read was renamed or dropped",
		"renamed: `UPDATE outcry.schema_version SET people = …`. Dropped: [Lose Postgres](PROCEDURES.md#lose-postgres)",
		[]string{"internal/postgres/names.go"}},
	{"its schema has version", "this program is older than the one that wrote the database; one of " +
		"before version 8 waits, and says `\"outcry_schema_version\" is a composite type`", "install the newer one",
		[]string{"internal/postgres/migrate.go"}},
	{"this program reads up to version", "this program is older than the one that wrote the journal",
		"install the newer one", []string{"internal/journal/segment.go"}},
	{"must be a whole number", "a setting has a malformed value; the line names it, and says what it must be",
		"correct it", []string{"internal/operate/settings/flags.go"}},
	{"must be from", "a setting out of its bounds; the line names them", "correct it",
		[]string{"internal/operate/settings/table.go"}},
	{"is not a setting", "a misspelled name in the file of settings; the line names it", "correct it",
		[]string{"internal/operate/settings/configfile.go"}},
	{"was begun and has not ended", "a restore into this data directory was interrupted",
		"`outcry restore` again, with the same backup", []string{"internal/operate/backup/marker.go"}},
	{"--auth: ", "the file of tokens, `/var/lib/outcry/tokens`, is damaged or cannot be read; the line says where",
		"restore it from a backup; without it all tokens are revoked", []string{"cmd/outcryd/security.go"}},
	{"--tls-cert: ", "certificate, key or authorities cannot be read, or do not fit together; an expired one is " +
		"accepted",
		"correct the files, which belong to `root` and are readable for the group `outcry`",
		[]string{"cmd/outcryd/security.go"}},
}

// exitStatuses is the last section of docs/reference/MESSAGES.md.
const exitStatuses = `
## Exit statuses

| of outcryd | |
| --- | --- |
| 0 | an orderly stop |
| 1 | it could not start, or had to stop: the last line of the log says why |
| 2 | an invalid setting; also a bug, after which the log has the stack of every goroutine |
| signal 9 | somebody, or the kernel for want of memory |
| signal 6 | the watchdog, after 60 seconds; after 30 starts within two minutes systemd gives up |

| of outcry | |
| --- | --- |
| 0 | done |
| 1 | the exchange answered with an error; address, token or certificate are wrong; what goes over HTTP ` +
	`could not reach it; ` + "`verify`" + `: something is wrong |
| 2 | a wrong command line; ` + "`verify`" + `: it could not be checked |
| 3 | no reply to a command that trades, or to a file of ` + "`send`" + `: it was not sent, or may have been done. ` +
	"Retry the same line with the same `--ref`, or the file if everything in it has a `ref`: it is done at most once. " +
	"If a retry then exits with 1, the first try may still have placed the order, since a revoked token, for example, " +
	"is refused before the ref is looked up: check with `outcry query --ref`" + ` |
`

// besides lists error texts of startsIn that have no row in refusals.
var besides = []string{
	"starting", "stopping", // states, not refusals
	"--listen: %w", "--http: %w", "--%s %s: %w", "%s: %w", "another program listens there", // address already in use
	"xml: %w", "http: %w", // errors that end a running server
	"the journal in %s reaches only to %d: %w",                             // records that were answered may be lost
	"journal record %d: %w",                                                // any other record that replays differently
	"must be host names without ports", "is open beyond this machine, and", // wrong flags
	"both are needed", "are needed as well", "is not an origin as browsers send it", // wrong flags
	"%x", // a digest
}

// TestReferenceOfMessages generates docs/reference/MESSAGES.md from refusals.
func TestReferenceOfMessages(t *testing.T) {
	rows := [][]string{{"it says", "what it means", "what to do"}}
	for _, r := range refusals {
		rows = append(rows, []string{"`… " + r.says + "`", r.is, r.do})
	}
	require.NoError(t, doctest.Reference("../../docs/reference/MESSAGES.md", `# Messages and exit statuses

Made by `+"`make reference` from `cmd/outcryd/refusal_page_test.go`"+`.

## What a start refuses

The last line of the log says why `+"`outcryd`"+` did not start, and nothing was changed. `+"`OUTCRY_…`"+` is a
setting in `+"`/etc/default/outcryd`"+`.

`+doctest.Table(rows)+exitStatuses, *update))
}

// TestThePageHasWhatAStartRefuses compares refusals, from which the page is made, with the error texts in the program.
func TestThePageHasWhatAStartRefuses(t *testing.T) {
	known := slices.Clone(besides)
	for _, r := range refusals {
		known = append(known, r.says)
		for _, file := range r.files {
			says := func(text string) bool { return strings.Contains(text, r.says) }
			require.True(t, slices.ContainsFunc(errorTexts(t, file), says), "%s does not say %q", file, r.says)
		}
	}
	for _, file := range startsIn {
		for _, text := range errorTexts(t, file) {
			require.True(t, slices.ContainsFunc(known, func(k string) bool { return strings.Contains(text, k) }),
				"%s refuses with %q, of which refusals know nothing", file, text)
		}
	}
}

// errorTexts returns the error texts in a file: the string literals passed to functions that make errors or texts.
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

// nameOf returns the name of a called function without its package, or "".
func nameOf(f ast.Expr) string {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
