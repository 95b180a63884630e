package compose

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWhatTheExchangeMayTakeFitsIntoItsMemory adds up the memory that each setting of the container may need according
// to the documentation.
func TestWhatTheExchangeMayTakeFitsIntoItsMemory(t *testing.T) {
	s := project(t).Services["outcryd"]
	figure := func(path, pattern string) int {
		b, err := os.ReadFile("../../" + path)
		require.NoError(t, err)
		found := regexp.MustCompile(pattern).FindSubmatch(b)
		require.NotNil(t, found, "%s: no %s", path, pattern)
		n, err := strconv.Atoi(strings.NewReplacer(",", "", "_", "").Replace(string(found[1])))
		require.NoError(t, err)
		return n
	}
	set := func(name string) int {
		value := s.Environment[name]
		require.NotNil(t, value, name)
		n, err := strconv.Atoi(strings.TrimSuffix(*value, "MiB"))
		require.NoError(t, err)
		return n
	}
	number := func(flag string) int {
		return figure("internal/operate/settings/table.go", `"`+flag+`",.* initial: ([\d_]+),`)
	}

	closedOrder := figure("docs/reference/BOUNDS.md", `some (\d+) bytes each`)
	ref := figure("docs/reference/METRICS.md", `outcry_refs_in_memory.* each takes some (\d+) bytes`)
	openOrder := figure("docs/reference/METRICS.md", `outcry_open_orders.* each takes some (\d+) bytes`)
	account := figure("docs/reference/BENCHMARKS.md", `memory of an account \| 120 bytes \| (\d+) `)
	filter := figure("docs/decisions/0011-refs.md", `filter has (\d+) MB`) * 1_000_000
	connection := figure("docs/reference/BOUNDS.md", `connections take (\d+) GiB beside twice`) << 30 /
		figure("docs/reference/BOUNDS.md", `worst case ([\d,]+) hostile`)

	accounts := number("max-accounts")
	sum := 2*set("OUTCRY_MAX_MEMORY") + set("OUTCRY_MAX_CONNECTIONS")*connection +
		set("OUTCRY_MAX_LAG")*(closedOrder+ref) +
		2*number("closed-orders")*closedOrder + number("refs")*ref + filter + set("OUTCRY_MAX_OPEN_ORDERS")*openOrder +
		accounts*account
	limit := set("GOMEMLIMIT") << 20
	t.Logf("%d MiB of %d MiB", sum>>20, limit>>20)
	require.Less(t, sum, limit)
	require.Less(t, limit, int(s.Deploy.Resources.Limits.MemoryBytes)*9/10, "stacks, and what the runtime does not count")
	require.Equal(t, sum>>20, figure("docs/reference/CONTAINERS.md", `all of it, ([\d,]+) MiB`))
}
