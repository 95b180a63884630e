package settings

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

var update = flag.Bool("update", false, "write docs/reference; make reference does it for all packages")

// TestReferenceOfSettings generates docs/reference/SETTINGS.md from the table.
func TestReferenceOfSettings(t *testing.T) {
	files, acts := [][]string{{"flag", "variable", "default", "from, to", "reloadable", "what it is"}},
		[][]string{{"flag", "what it does"}}
	f := new(Config).flags()
	for i := range table {
		r := &table[i]
		value, help := flag.UnquoteUsage(f.Lookup(r.flag))
		help = strings.TrimSuffix(help, ".")
		if value == "string" {
			value = "value"
		}
		name := "`" + strings.TrimSpace("--"+r.flag+" "+strings.ToUpper(value)) + "`"
		if r.act {
			acts = append(acts, []string{name, help})
			continue
		}
		reload := "no"
		if r.reload != "" {
			reload = "yes"
		}
		forms := people(r)
		files = append(files,
			[]string{name, "`" + variable(r.flag) + "`", forms[len(forms)-1], between(r), reload, help})
	}
	require.NoError(t, doctest.Reference("../../../docs/reference/SETTINGS.md", `# Settings of outcryd

Made by `+"`make reference` from `internal/operate/settings/table.go`"+`.
[DEPLOYMENT](../DEPLOYMENT.md#configuration) says which of flag, environment and file wins. In a
file the name is the flag's without `+"`--`: `max-frame = 65536`"+`. A reload is SIGHUP, or
`+"`systemctl reload outcryd`"+`; what is not reloadable needs a restart.
[BOUNDS](BOUNDS.md) says what happens at each bound.

`+doctest.Table(files)+`
Flags that say what to do now, or where settings are. They cannot be in a file;
`+"`OUTCRY_CONFIG`"+` names the file as well.

`+doctest.Table(acts), *update))
}

// between returns the smallest and the largest value of a setting as text, "-" if it has no bounds.
func between(r *row) string {
	if r.min == 0 && r.max == 0 {
		return "-"
	}
	if _, ok := r.initial.(time.Duration); ok {
		return "over 0"
	}
	return amount(r, r.min) + " to " + amount(r, r.max)
}

// amount returns a value of a setting as text: a size in whole KiB, MiB, GiB or TiB, and other numbers with
// digits in groups of three.
func amount(r *row, n int64) string {
	if strings.Contains(r.help, "`bytes`") {
		for shift, unit := range map[int]string{50: "PiB", 40: "TiB", 30: "GiB", 20: "MiB", 10: "KiB"} {
			if whole := n >> shift; whole<<shift == n && whole > 0 && whole < 1024 {
				return fmt.Sprintf("%d %s", whole, unit)
			}
		}
	}
	return doctest.Thousands(n)
}

// people returns the forms in which a page may give a default, the usual one first.
func people(r *row) (forms []string) {
	switch n := r.initial.(type) {
	case time.Duration:
		forms = []string{fmt.Sprintf("%.0f s", n.Seconds())}
		if n >= time.Minute {
			forms = []string{fmt.Sprintf("%.0f min", n.Minutes())}
		}
		return forms
	case int:
		return []string{amount(r, int64(n))}
	case int64:
		return []string{amount(r, n)}
	}
	f := flag.NewFlagSet("", flag.ContinueOnError)
	r.declare(f, new(Config))
	switch text := f.Lookup(r.flag).DefValue; text {
	case "auto":
		return []string{"4/5 of the control group's or machine's", text}
	case "":
		return []string{"none"}
	default:
		return []string{text}
	}
}
