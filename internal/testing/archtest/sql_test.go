package archtest

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// relations are the names of all tables and views of the exchange.
const relations = `accounts|symbols|positions|market|candles|orders|executions|exchange_state|placement_log|` +
	`order_log|execution_log|part_log|cancel_log|halt_log|refs|resting_orders|fill_log|amend_log|hold_log|cause_log|` +
	`account_log|symbol_log|switch_log|placed_log|opening_\w+|outcry_schema_version|schema_version`

var (
	// keyword precedes a relation or a list of relations. The keywords in our SQL are in upper case.
	keyword = regexp.MustCompile(`\b(FROM|JOIN|INTO|UPDATE|TABLE|VIEW|COPY|TRUNCATE|USING|ONLY|ON|LOCK) `)
	// bare matches a relation without its schema. A relation with a schema has a dot before it; a name with a dot
	// after it qualifies a column.
	bare = regexp.MustCompile(`^((?:[\w."]+(?: (?:AS )?[a-z]\w*)?, ?)*?)(` + relations + `|pg_\w+)\b(?:[^.\w(]|$)`)
)

// unqualified returns the relations that a statement names without a schema.
func unqualified(sql string) (names []string) {
	sql = strings.Join(strings.Fields(sql), " ")
	for _, at := range keyword.FindAllStringIndex(sql, -1) {
		if found := bare.FindStringSubmatch(sql[at[1]:]); found != nil {
			names = append(names, found[2])
		}
	}
	return names
}

// TestEveryStatementNamesItsSchemas checks every string of the programs, and the migrations since the one that created
// the schemas. A relation without a schema is found through search_path, and may be a different one for a role with a
// different path.
func TestEveryStatementNamesItsSchemas(t *testing.T) {
	statements := 0
	check := func(where, sql string) {
		if keyword.MatchString(strings.Join(strings.Fields(sql), " ")) {
			statements++
		}
		require.Empty(t, unqualified(sql), "%s: a relation without its schema (public. or outcry.) in %q", where, sql)
	}
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				check(s.path, text)
			}
			return true
		})
	}
	migrations, err := filepath.Glob(filepath.Join(root, "migrations", "*.sql"))
	require.NoError(t, err)
	for _, path := range migrations {
		if filepath.Base(path) < "0008" { // released migrations that name no schema
			continue
		}
		sql, err := os.ReadFile(path)
		require.NoError(t, err)
		for statement := range strings.SplitSeq(withoutComments(string(sql)), ";") {
			// the search_path of these migrations contains only pg_catalog
			check(path, strings.ReplaceAll(statement, "pg_", "pg_catalog.pg_"))
		}
	}
	require.Greater(t, statements, 100, "statements with a keyword")
}

// withoutComments removes the comments and the string literals of SQL.
func withoutComments(sql string) string {
	return regexp.MustCompile(`(?m)--.*$|'[^']*'`).ReplaceAllString(sql, "")
}

// TestARelationWithoutItsSchemaIsFound checks that unqualified finds relations without a schema.
func TestARelationWithoutItsSchemaIsFound(t *testing.T) {
	for sql, want := range map[string][]string{
		`SELECT id FROM orders`: {"orders"},
		"SELECT 1\n\t\t FROM public.orders o\n\tLEFT JOIN\n\trefs r": {"refs"},
		`UPDATE accounts a SET held = 0`:                             {"accounts"},
		`COPY order_log (id) FROM STDIN`:                             {"order_log"},
		`LOCK TABLE public.orders, order_log, executions`:            {"order_log"},
		`SELECT FROM public.orders o, outcry.refs AS r, market`:      {"market"},
		`TRUNCATE halt_log`:                                          {"halt_log"},
		`SELECT pid FROM pg_locks`:                                   {"pg_locks"},
		`ALTER TABLE outcry.refs ADD a int`:                          nil,
		`SELECT orders.id FROM public.orders WHERE orders.id = 1`:    nil,
		`FROM pg_catalog.pg_locks l JOIN public.market m`:            nil,
		`the orders and executions of accounts FROM somewhere`:       nil,
	} {
		require.Equal(t, want, unqualified(sql), sql)
	}
}
