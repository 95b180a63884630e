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
	"outcry/internal/lab/books"
	"outcry/internal/lab/load"
)

// Report is the result of a run, as it is written as JSON. The fields of each kind of run are in a separate struct,
// which is nil for other kinds.
type Report struct {
	Verdict  string         `json:"verdict"` // "pass" or what is wrong
	Seed     uint64         `json:"seed"`
	Command  string         `json:"command"` // repeats the run
	Began    time.Time      `json:"began"`
	Seconds  float64        `json:"seconds"`
	Revision string         `json:"revision"`
	Machine  string         `json:"machine"`
	Rounds   map[string]int `json:"rounds"` // completed rounds, by fault

	*Clients
	*ServerReport
	*ClusterReport
	*ReadersReport
}

// Clients counts what the clients of a Server or a Cluster did, and how much of it was checked.
type Clients struct {
	Orders audit.Counts `json:"orders"`
	audit.Checked
}

// ServerReport has the results of a Server.
type ServerReport struct {
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

// ClusterReport has the results of a Cluster.
type ClusterReport struct {
	Agreed        int `json:"rounds_after_which_all_nodes_had_one_digest"`
	NodesVerified int `json:"nodes_verified_after_an_orderly_stop"`

	Books *books.Counts `json:"books,omitempty"` // what the readers of books and feeds have received

	// Gaps has the longest time without an answer in each round, in seconds, by fault.
	Gaps map[string][]float64 `json:"seconds_without_an_answer"`
}

// ReadersReport has the results of Readers.
type ReadersReport struct {
	Requests uint64 `json:"requests"` // answered requests of clients
	Kills    int    `json:"kills"`
	books.Counts
}

func newReport(k *Kind, o Options) *Report {
	var plan []string
	for _, name := range slices.Sorted(maps.Keys(o.Plan)) {
		plan = append(plan, fmt.Sprintf("%s=%d", name, o.Plan[name]))
	}
	return &Report{Seed: o.Seed, Began: time.Now().UTC(), Rounds: map[string]int{}, Machine: load.Machine(),
		Command: "go run ./loadtest " + k.command(o, strings.Join(plan, ","))}
}

// finish sets the fields that depend on the whole run.
func (r *Report) finish(run *run, err error) {
	r.Verdict = "pass"
	if err != nil {
		r.Verdict = err.Error()
	}
	r.Seconds = time.Since(r.Began).Seconds()
	if run.Session != nil {
		r.add(run.Session)
		r.Orders.Errors = run.Counts().Errors // not of the exchanges under attack
	}
	if s := r.ServerReport; s != nil && len(s.starts) > 0 {
		slices.Sort(s.starts)
		s.Starts = len(s.starts)
		s.StartMedian, s.StartMax = s.starts[s.Starts/2].Seconds(), s.starts[s.Starts-1].Seconds()
	}
}

// add adds the counts of a session.
func (r *Report) add(s *audit.Session) {
	if r.Clients == nil {
		r.Clients = new(Clients)
	}
	r.Orders.Add(s.Counts())
	r.Checked.Add(s.Checked())
}

// lastGap returns the newest gap of a fault.
func (r *ClusterReport) lastGap(name string) float64 {
	if all := r.Gaps[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return 0
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
	of, also := "", "0 cents off"
	switch {
	case r.ReadersReport != nil:
		return fmt.Sprintf("%s: %d requests, %d kills; %s; seed %d, %.0f s", word, r.Requests, r.Kills, r.Counts, r.Seed,
			r.Seconds)
	case r.ClusterReport != nil:
		of, also = " of a cluster", fmt.Sprintf("one digest after %d rounds", r.Agreed)
		if r.Books != nil {
			also += "; readers: " + r.Books.String()
		}
	}
	return fmt.Sprintf("%s: %d faults%s, %d orders answered, %d without an answer of which %d happened, %d executions, "+
		"%s; seed %d, %.0f s",
		word, rounds, of, r.Orders.Answered, r.Orders.UnknownHappened+r.Orders.UnknownNever, r.Orders.UnknownHappened,
		r.Executions, also, r.Seed, r.Seconds)
}

// GapsTable returns a table of the faults with their rounds and their median and longest time without an
// answer. It is empty unless a Cluster was tortured.
func (r *Report) GapsTable() string {
	if r.ClusterReport == nil {
		return ""
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Gaps)) {
		all := slices.Sorted(slices.Values(r.Gaps[name]))
		fmt.Fprintf(&b, "%-16s %4d rounds  without an answer: median %.3f s, longest %.3f s\n",
			name, len(all), all[len(all)/2], all[len(all)-1])
	}
	return b.String()
}
