package failover

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"outcry/internal/lab/audit"
	"outcry/internal/lab/books"
	"outcry/internal/lab/load"
)

// Report is the result of a run, as it is written as JSON.
type Report struct {
	Verdict  string         `json:"verdict"` // "pass" or what is wrong
	Seed     uint64         `json:"seed"`
	Command  string         `json:"command"` // repeats the run
	Began    time.Time      `json:"began"`
	Seconds  float64        `json:"seconds"`
	Revision string         `json:"revision"`
	Machine  string         `json:"machine"`
	Rounds   map[string]int `json:"rounds"` // completed rounds, by fault

	Orders audit.Counts `json:"orders"`
	audit.Checked
	Agreed   int `json:"rounds_after_which_all_nodes_had_one_digest"`
	Verified int `json:"nodes_verified_after_an_orderly_stop"`

	Books *books.Counts `json:"books,omitempty"` // what readers of books and feeds have received

	// The longest time without an answer in each round, in seconds, by fault.
	Gaps map[string][]float64 `json:"seconds_without_an_answer"`
}

func newReport(o Options) *Report {
	var plan []string
	for _, name := range slices.Sorted(maps.Keys(o.Plan)) {
		plan = append(plan, fmt.Sprintf("%s=%d", name, o.Plan[name]))
	}
	return &Report{Seed: o.Seed, Began: time.Now().UTC(), Rounds: map[string]int{}, Gaps: map[string][]float64{},
		Machine: load.Machine(),
		Command: fmt.Sprintf("go run ./loadtest torture -cluster -seed %d -clients %d -load %s -down %s -books=%t -plan %s",
			o.Seed, o.Clients, o.Load, o.DownMax, o.Books, strings.Join(plan, ","))}
}

// gap records the longest time without an answer and judges it.
func (r *Report) gap(run *runner, name string) error {
	silence := run.LongestSilence()
	r.Gaps[name] = append(r.Gaps[name], silence.Seconds())
	if faults[name].judged && run.DownMax > 0 && silence > run.DownMax {
		return fmt.Errorf("%.3f s without an answer, %s are allowed", silence.Seconds(), run.DownMax)
	}
	return nil
}

// lastGap returns the newest gap of a fault.
func (r *Report) lastGap(name string) float64 {
	if all := r.Gaps[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return 0
}

// finish sets the fields that depend on the whole run.
func (r *Report) finish(run *runner, err error) {
	r.Verdict = "pass"
	if err != nil {
		r.Verdict = err.Error()
	}
	r.Seconds = time.Since(r.Began).Seconds()
	r.Orders, r.Checked = run.Counts(), run.Checked()
}

// WriteJSON writes the report. It returns w's error.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Line returns the verdict in one line.
func (r *Report) Line() string {
	rounds := 0
	for _, n := range r.Rounds {
		rounds += n
	}
	word := "PASS"
	if r.Verdict != "pass" {
		word = "FAIL"
	}
	read := ""
	if r.Books != nil {
		read = "; readers: " + r.Books.String()
	}
	return fmt.Sprintf("%s: %d faults of a cluster, %d orders answered, %d without an answer of which %d happened, "+
		"%d executions, one digest after %d rounds%s; seed %d, %.0f s",
		word, rounds, r.Orders.Answered, r.Orders.UnknownHappened+r.Orders.UnknownNever, r.Orders.UnknownHappened,
		r.Executions, r.Agreed, read, r.Seed, r.Seconds)
}

// GapsTable returns a table of the faults with their rounds and their median and longest time without an
// answer.
func (r *Report) GapsTable() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Gaps)) {
		all := slices.Sorted(slices.Values(r.Gaps[name]))
		fmt.Fprintf(&b, "%-16s %4d rounds  without an answer: median %.3f s, longest %.3f s\n",
			name, len(all), all[len(all)/2], all[len(all)-1])
	}
	return b.String()
}
