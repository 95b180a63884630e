package bench

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"outcry/internal/lab/anchors"
	"outcry/internal/lab/guard"
	"outcry/internal/lab/load"
	"outcry/internal/lab/load/scenario"
	"outcry/internal/lab/torture"
)

// Names of data files in the directory of documents, besides those in generate_test.go.
const (
	goalsAgainFile = "performance/again.json"
	soakAgainFile  = "performance/again-soak.json"
	growthFile     = "reliability/growth.json"
	tortureFile    = "reliability/torture.json"
	guardFile      = "performance/guard.json"
)

// csvTables are tables printed by other commands, with the titles of their sections.
var csvTables = []struct{ title, file, about string }{
	{"Parts", "performance/parts.csv", "Printed by the benchmarks of single parts, on the machine of the goals. " +
		"[Decision 16](../decisions/0016-what-the-book-costs.md) says why 25 million a second are out of reach.\n\n" +
		"    go test -run '^$' -bench 'Book|OrderPath|Ladder' ./internal/exchange\n" +
		"    go test -run '^$' -bench Memory -benchtime 1x ./internal/engine ./internal/exchange\n" +
		"    go test -run '^$' -bench Feed ./internal/view/market\n" +
		"    go test -run '^$' -bench ObserveBatch ./internal/door\n"},
	{"Restarts", "reliability/restarts.csv", "The longest time within which no client had an answer, 12 clients; " +
		"2026-11-21.\n\n    go run ./loadtest torture -plan restart=10 -down 1s\n"},
	{"Clients that do harm", "reliability/abuse.csv", "What it cost to reach a bound, and the 99th percentile of other " +
		"traders' frames meanwhile, which is 23 to 26 ms without an attack; 12 clients, 2026-11-22.\n\n" +
		"    go run ./loadtest torture -plan abuse=1 -large\n"},
	{"Overload", "reliability/overload.csv", "    go test ./internal/door -run Overload -overload -v\n"},
}

// measured has all data from which the pages are generated. Data that was not measured is nil.
type measured struct {
	full, soak, goals, goalsAgain, soakAgain, growth *Data

	torture  *tortureRun
	failover *torture.Report
	anchors  *anchors.Report
	guard    *guard.Report
	csv      []load.Table // in the order of csvTables
}

// loadMeasured reads all data in docs. It returns an error if data cannot be read, or if a run of the
// goals has failed.
func loadMeasured(docs string) (*measured, error) {
	m := new(measured)
	for name, into := range map[string]**Data{fullFile: &m.full, soakFile: &m.soak, goalsFile: &m.goals,
		goalsAgainFile: &m.goalsAgain, soakAgainFile: &m.soakAgain, growthFile: &m.growth} {
		d, err := loadIfThere(docs, name)
		if err != nil {
			return nil, err
		}
		*into = d
	}
	var err error
	if m.anchors, err = loadAnchors(docs); err != nil {
		return nil, err
	}
	if m.goals != nil && len(m.goals.Failures()) > 0 {
		return nil, fmt.Errorf("bench: %s: a run has failed: %s", goalsFile, m.goals.Failures()[0])
	}
	for _, c := range csvTables {
		t, err := readCSV(filepath.Join(docs, c.file))
		if err != nil {
			return nil, err
		}
		m.csv = append(m.csv, t)
	}
	if err := readReport(docs, tortureFile, &m.torture); err != nil {
		return nil, err
	}
	return m, errors.Join(readReport(docs, failoverFile, &m.failover), readReport(docs, guardFile, &m.guard))
}

// readReport reads a report into a new value. Without a file it leaves into nil.
func readReport[T any](docs, name string, into **T) error {
	b, err := os.ReadFile(filepath.Join(docs, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		*into = new(T)
		err = json.Unmarshal(b, *into)
	}
	if err != nil {
		return fmt.Errorf("bench: %s: %w", name, err)
	}
	return nil
}

// readCSV reads a CSV file. It returns nil if the file does not exist.
func readCSV(path string) (load.Table, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("bench: %s: %w", path, err)
	}
	return rows, nil
}

const benchmarksHead = `# Benchmarks

All figures, made by ` + "`make reference`" + ` from the files named here. [RESULTS](../RESULTS.md) says what they mean.
Client, server and Postgres share each machine, over loopback. After each run the exchange and its tables are
compared with what clients were told: a fast wrong answer is a failed run.

    go run ./loadtest bench record -data docs/scalability/points.json    # what RESULTS shows; within 15 minutes
    go run ./loadtest bench full -data docs/scalability/points.json      # all scenarios; about 20 minutes
    go run ./loadtest bench goals -data docs/performance/goals.json      # the goals; about 10 minutes
    go run ./loadtest bench soak -data docs/scalability/soak.json        # ten minutes
    go run ./loadtest bench growth -data docs/reliability/growth.json -orders 1000000,2000000,5000000,10000000
    go run ./loadtest bench quick                                        # a part in two minutes
    go run ./loadtest bench market -h                                    # one scenario, and its parameters
    go run ./loadtest guard -data docs/performance/guard.json            # an order, in turns with an earlier revision
    make reference                                                       # this page and its plots

The first two go on where they were broken off: what the file has of the same revision is not measured again, and what
it has of others stays until it is.

Data goes below TMPDIR: on a file system in memory a sync costs nothing. Leave the machine alone meanwhile. The command
in front of a table is that of its revision, which may name commands that have other names now.
Revisions 915be8c25298 and 563097fd7756 are not in this history; their code is that of 5054e57 and a1569ad.

GOMAXPROCS is the server's, which may use no more processors than that (taskset), except in threads; with a mark (*) it
is more than the machine has. Scenarios of one repetition at one GOMAXPROCS share an exchange, each with accounts and
symbols of its own. A request is what the scenario says: in some it has two frames. A rate is the median of the
repetitions, with the least and the most. *Of echo* is the share of what an echo server does with frames of the same
size over the same connections in the same run; one *with a journal* appends each frame to a journal and answers once
that is durable. Latencies are what clients saw. *In Postgres/s* counts requests until the tables had everything;
*behind at the end* are the records that they lacked at the last reply.
`

// page returns docs/reference/BENCHMARKS.md, which is generated as a whole: its tables need no marks.
func (m *measured) page() string {
	page := benchmarksHead
	section := func(title, text string) { page += "\n## " + title + "\n\n" + text }
	if m.anchors != nil {
		section("Beside servers that people know", fromFile(anchorsFile)+anchorsSection(m.anchors))
	}
	if m.guard != nil {
		section("Beside an earlier revision", fromFile(guardFile)+guardSection(m.guard))
	}
	if m.goals != nil {
		t := m.goals.goalTables()
		section("Goals", fromFile(goalsFile)+t["about"]+"\n"+t["goals"]+"\nHalf of capacity is half of what 64 connections "+
			"reach with one request at a time. A goal is judged by the median of the rounds; ratios are worked out within a "+
			"round. [RESULTS](../RESULTS.md#goals-that-are-missed) and [decision "+
			"17](../decisions/0017-goals-that-are-missed.md) say why some are missed. The p50 of one client can be below an "+
			"echo and a sync since the sync is measured before the run, on an idle disk, which is slower.\n")
		section("Runs of the goals", t["runs"])
	}
	if m.goalsAgain != nil {
		t := m.goalsAgain.goalTables()
		section("Goals, on a slower machine of the same kind", fromFile(goalsAgainFile)+
			"[again.txt](../performance/again.txt) is what a run before it printed, [again.csv](../performance/again.csv) a "+
			"sweep of all scenarios.\n\n"+t["about"]+"\n"+t["goals"])
	}
	if m.full != nil {
		section("Scenarios", fromFile(fullFile)+"[points.csv](../scalability/points.csv) has a line for each run.\n\n"+
			about(m.full)+"\n"+plotLinks("cores", "cpu", "clients", "connect", "latency"))
		section("Compared with earlier servers", "What is not known is in no copy that we have. "+whyThose+"\n\n"+
			m.full.published(true))
		for _, x := range scenario.All() {
			if x.Name != soakScenario {
				section("`"+x.Name+"`: "+x.About, m.full.ofScenario(x))
			}
		}
	}
	if m.soak != nil {
		section("Ten minutes at half of capacity", fromFile(soakFile)+m.soak.Soak.page(m.soak)+
			"\n"+m.soak.Soak.longest()+"\n"+plotLinks("soak-latency", "soak-memory"))
	}
	if m.soakAgain != nil {
		section("The same on the slower machine", fromFile(soakAgainFile)+m.soakAgain.Soak.page(m.soakAgain)+
			"\n"+m.soakAgain.Soak.longest())
	}
	if m.growth != nil {
		section("Growing history", fromFile(growthFile)+m.growth.growthTable())
	}
	for i, t := range m.csv {
		if t != nil {
			section(csvTables[i].title, csvTables[i].about+"\n"+fromFile(csvTables[i].file)+t.Markdown())
		}
	}
	return page
}

// whyThose explains some figures of the comparison.
const whyThose = "`populate` sends 20,000 frames one after another, and each waits for a sync of the disk: more " +
	"processors have nothing to do. The rate of `accounts` is the same from 10,000 clients at once as from 5,000, so " +
	"each waits twice as long for the connections of the others. If they come faster than they are accepted the " +
	"kernel's queue overflows (net.core.somaxconn, 4,096 here), and the client's kernel tries again after a second: " +
	"the counter ListenOverflows tells, also of the echo server."

// fromFile returns a line that names a section's data file.
func fromFile(name string) string {
	return fmt.Sprintf("From [%s](../%s).\n\n", filepath.Base(name), name)
}

// plotLinks returns links to plots, given by their file names.
func plotLinks(names ...string) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "![%s](../scalability/%s.svg)\n", name, name)
	}
	return b.String()
}

// longest describes the longest latency.
func (s *Soak) longest() string {
	above, most := 0, 0.0
	for _, x := range s.Samples {
		most = max(most, x.Max)
		if x.Max > 50 {
			above++
		}
	}
	return fmt.Sprintf("Of all %d samples, %d have a latency above 50 ms; the longest was %.0f ms.\n",
		len(s.Samples), above, most)
}

// growthTable returns the table of measurements at each number of orders.
func (d *Data) growthTable() string {
	t := load.Table{{"orders so far", "orders/s", "start after a kill", "records replayed", "start after a stop",
		"journal, largest", "Postgres behind, at most", "server's memory", "database"}}
	mib := func(bytes int64) string { return grouped(mega(bytes)) + " MiB" }
	for _, x := range d.Marks {
		t.Add(grouped(float64(x.Orders)), grouped(x.OrdersPerSecond), number(x.RestartKilled, 2)+" s",
			grouped(float64(x.Replayed)), number(x.RestartStopped, 2)+" s", mib(x.JournalBytes),
			grouped(float64(x.LagMax))+" records", mib(x.ServerBytes), mib(x.DatabaseBytes))
	}
	return fmt.Sprintf("%s, revision %s. The server is killed in full load and stopped at each mark.\n\n    %s\n\n%s",
		d.Began.Format("2006-01-02"), d.Revision, d.Command, t.Markdown())
}

// tortureRun is the part of a torture report that a page shows.
type tortureRun struct {
	Data
	Rounds map[string]int `json:"rounds"`
	Orders struct {
		Sent     int `json:"sent"`
		Answered int `json:"answered"`
		Refused  int `json:"refused"`
		CutOff   int `json:"cut_off"`
		Happened int `json:"unanswered_and_happened"`
		Never    int `json:"unanswered_and_never_happened"`
		Frames   int `json:"frames"`
		Cut      int `json:"frames_cut"`
		Gone     int `json:"connections_cut_before_the_reply"`
	} `json:"orders"`
	Executions   int     `json:"executions_checked"`
	Cancels      int     `json:"cancels_checked"`
	Checked      int     `json:"orders_checked"`
	Answers      int     `json:"answers_checked"`
	Linearizable int     `json:"commands_proved_linearizable"`
	Digests      int     `json:"digests_of_memory_and_tables_compared"`
	Starting     int     `json:"kills_while_starting"`
	Starts       int     `json:"starts"`
	StartMedian  float64 `json:"start_seconds_median"`
	StartMax     float64 `json:"start_seconds_max"`
	Verdict      string  `json:"verdict"`
}

// table returns the table of the run.
func (r *tortureRun) table() string {
	faults, kills := 0, r.Rounds["kill"]+r.Rounds["kill-behind"]
	for _, n := range r.Rounds {
		faults += n
	}
	others := faults - kills - r.Rounds["postgres-kill"] - r.Rounds["both-kill"] - r.Rounds["stop"]
	count := func(n int) string { return grouped(float64(n)) }
	t := load.Table{{"", "in one run"}}
	t.Add("verdict", r.Verdict)
	t.Add("faults", fmt.Sprintf("%d: %d kills of the server and %d more while it started, %d of Postgres, %d of both, "+
		"%d orderly stops in full load, %d others", faults, kills, r.Starting, r.Rounds["postgres-kill"],
		r.Rounds["both-kill"], r.Rounds["stop"], others))
	t.Add("orders sent", fmt.Sprintf("%s in %s frames; %s accepted, %s rejected for want of cash or shares",
		count(r.Orders.Sent), count(r.Orders.Frames), count(r.Orders.Answered), count(r.Orders.Refused)))
	t.Add("without a reply", fmt.Sprintf("%s, of which %s had been placed, each whole",
		count(r.Orders.Happened+r.Orders.Never), count(r.Orders.Happened)))
	t.Add("cut off by the client", fmt.Sprintf("%s frames in the middle, with %s orders, none of which was placed; %s "+
		"connections before a reply", count(r.Orders.Cut), count(r.Orders.CutOff), count(r.Orders.Gone)))
	t.Add("done again from the tables", fmt.Sprintf("%s orders, %s executions, %s cancels", count(r.Checked),
		count(r.Executions), count(r.Cancels)))
	t.Add("replies compared", count(r.Answers))
	t.Add("commands proved linearizable", count(r.Linearizable))
	t.Add("digests of memory and tables compared", r.Digests)
	t.Add("starts", fmt.Sprintf("%d: %.2f s in the median, %.1f s at most, Postgres' recovery included", r.Starts,
		r.StartMedian, r.StartMax))
	return fmt.Sprintf("%s, revision %s, %s, %.0f minutes.\n\n    %s\n\n%s", r.Began.Format("2006-01-02"), r.Revision,
		r.Machine, r.Seconds/60, r.Command, t.Markdown())
}
