package torture

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"outcry/internal/lab/audit"
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
	Verified       int     `json:"digests_of_memory_and_tables_compared"`
	KilledStarting int     `json:"kills_while_starting"`
	Starts         int     `json:"starts"`
	StartMedian    float64 `json:"start_seconds_median"`
	StartMax       float64 `json:"start_seconds_max"`

	Restarts []Restart `json:"restarts,omitempty"` // restarts during which clients stayed

	Abuse []Abuse `json:"abuse,omitempty"` // rounds with a malicious client

	starts []time.Duration
}

// Restart is a restart during which clients traded. Times are in seconds.
type Restart struct {
	Down  float64 `json:"down_seconds"`  // longest time without an answer to any client
	Stop  float64 `json:"stop_seconds"`  // from the signal to the end of the process
	Start float64 `json:"start_seconds"` // from the end of the process until the server accepts orders
}

func newReport(o Options) *Report {
	var plan []string
	for _, name := range slices.Sorted(maps.Keys(o.Plan)) {
		plan = append(plan, fmt.Sprintf("%s=%d", name, o.Plan[name]))
	}
	return &Report{Seed: o.Seed, Began: time.Now().UTC(), Rounds: map[string]int{},
		Machine: load.Machine(),
		Command: fmt.Sprintf("go run ./loadtest "+
			"torture -seed %d -clients %d -load %s -large=%t -resting %d -down %s -plan %s",
			o.Seed, o.Clients, o.Load, o.Large, o.Resting, o.DownMax, strings.Join(plan, ","))}
}

// finish sets the fields that depend on the whole run.
func (r *Report) finish(run *runner, err error) {
	r.Verdict = "pass"
	if err != nil {
		r.Verdict = err.Error()
	}
	r.Seconds = time.Since(r.Began).Seconds()
	r.take(run)
	r.Orders.Errors = run.Counts().Errors // only of the exchange that is not attacked
	r.Starts = len(r.starts)
	if r.Starts > 0 {
		slices.Sort(r.starts)
		r.StartMedian, r.StartMax = r.starts[r.Starts/2].Seconds(), r.starts[r.Starts-1].Seconds()
	}
}

// take adds the counts of a session.
func (r *Report) take(run *runner) {
	r.Orders.Add(run.Counts())
	r.Checked.Add(run.Checked())
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
	return fmt.Sprintf("%s: %d faults, %d orders answered, %d without an answer of which %d happened, %d executions, "+
		"0 cents off; seed %d, %.0f s",
		word, rounds, r.Orders.Answered, r.Orders.UnknownHappened+r.Orders.UnknownNever, r.Orders.UnknownHappened,
		r.Executions, r.Seed, r.Seconds)
}
