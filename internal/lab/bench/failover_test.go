package bench

import (
	"fmt"
	"maps"
	"slices"

	"outcry/internal/lab/load"
	"outcry/internal/lab/torture"
)

const failoverFile = "reliability/cluster.json"

// failoverTable returns the table of a run of loadtest torture -cluster.
func failoverTable(r *torture.Report) string {
	faults, count := 0, func(n int64) string { return grouped(float64(n)) }
	about := torture.Cluster.Faults()
	t := load.Table{{"fault", "rounds", "without an answer: median", "longest"}}
	for _, name := range slices.Sorted(maps.Keys(r.Rounds)) {
		faults += r.Rounds[name]
		median, longest := "-", "-"
		if all := slices.Sorted(slices.Values(r.Gaps[name])); len(all) > 0 {
			median = fmt.Sprintf("%.2f s", all[len(all)/2])
			longest = fmt.Sprintf("%.2f s", all[len(all)-1])
		}
		t.Add(about[name], r.Rounds[name], median, longest)
	}
	return fmt.Sprintf(
		"%s, revision %s, %s, %.0f minutes: %s. %d faults, %s orders answered, %s without an answer, of which "+
			"%s had been placed, each once; %s executions done again from the tables; %s commands proved linearizable; all "+
			"nodes of one digest after each of %d rounds.\n\n    %s\n\n%s",
		r.Began.Format("2006-01-02"),
		r.Revision,
		r.Machine,
		r.Seconds/60,
		r.Verdict,
		faults,
		count(r.Orders.Answered),
		count(r.Orders.UnknownHappened+r.Orders.UnknownNever),
		count(r.Orders.UnknownHappened),
		count(r.Executions),
		count(r.LinearOps),
		r.Agreed,
		r.Command,
		t.Markdown(),
	)
}
