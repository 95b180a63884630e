package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/printable"
)

// gradescope is the results.json of a Gradescope autograder. All its formats are "text", so that nothing
// that a server sent is read as Markdown or HTML.
type gradescope struct {
	Score            float64          `json:"score"`
	ExecutionTime    float64          `json:"execution_time"`
	Output           string           `json:"output"`
	OutputFormat     string           `json:"output_format"`
	TestOutputFormat string           `json:"test_output_format"`
	TestNameFormat   string           `json:"test_name_format"`
	StdoutVisibility string           `json:"stdout_visibility"`
	Tests            []gradescopeTest `json:"tests"`
	ExtraData        gradescopeExtra  `json:"extra_data"`
}

type gradescopeTest struct {
	Name       string   `json:"name"`
	Number     string   `json:"number"`
	Score      float64  `json:"score"`
	MaxScore   float64  `json:"max_score"`
	Status     string   `json:"status"`
	Output     string   `json:"output"`
	Visibility string   `json:"visibility"`
	Tags       []string `json:"tags"`
}

type gradescopeExtra struct {
	Seed     uint64         `json:"seed"`
	Salt     string         `json:"salt"`
	Habits   dialect.Habits `json:"habits"`
	Restarts int            `json:"restarts"`
}

// WriteGradescope writes r as the results.json of a Gradescope autograder. A hidden case becomes visible
// when the grades are published; nothing else in the file mentions it. A skipped case is written as passed,
// worth 0 of 0 points.
func WriteGradescope(w io.Writer, r *grade.Result) error {
	g := gradescope{Score: r.Score, ExecutionTime: math.Round(r.Seconds), Output: overview(r),
		OutputFormat: "text", TestOutputFormat: "text", TestNameFormat: "text", StdoutVisibility: "hidden",
		Tests:     []gradescopeTest{},
		ExtraData: gradescopeExtra{r.Seed, r.Salt, r.Habits, r.Restarts}}
	for i, group := range grouped(r) {
		for k, c := range group.cases {
			t := gradescopeTest{Name: c.Name, Number: fmt.Sprintf("%d.%d", i+1, k+1), Score: cents(c.Points),
				MaxScore: cents(c.Max), Status: "passed", Visibility: "visible", Tags: []string{c.Group}}
			if c.Hidden {
				t.Visibility = "after_published"
			}
			switch c.Status {
			case script.Fail, script.Part:
				t.Status, t.Output = "failed", explained(c)
			case script.Skip:
				t.Output = printable.Text("not played: " + c.Message)
			case script.Pass:
				t.Output = printable.Text(c.Tell)
			}
			g.Tests = append(g.Tests, t)
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(g)
}

// cents rounds points to four decimals.
func cents(f float64) float64 { return math.Round(f*10_000) / 10_000 }

// overview returns the text above all cases: the score, and the habits that cost only their own case. It
// omits the groups, whose points would reveal hidden cases.
func overview(r *grade.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "score %s of %s", figure(r.Score), figure(r.Best))
	if got, most, scaled := sum(r); scaled {
		fmt.Fprintf(&b, ": the cases have %s of %s points", figure(got), figure(most))
	}
	b.WriteByte('\n')
	for _, h := range habits(r.Habits) {
		fmt.Fprintf(&b, "found: %s\n", h)
	}
	if r.Restarts > 0 {
		fmt.Fprintf(&b, "the server was restarted %d times, since it did not answer\n", r.Restarts)
	}
	// The log is shown only if no case was played: a server may print the frames it gets, hidden cases included.
	if !slices.ContainsFunc(r.Cases, func(c grade.CaseResult) bool { return c.Tries > 0 }) {
		writeLog(&b, r)
	}
	return b.String()
}

// habits returns a sentence for each habit of a server.
func habits(h dialect.Habits) (all []string) {
	for _, each := range []struct {
		has  bool
		tell string
	}{
		{h.AccountAttribute, "the account of <transactions> is in the attribute account, not id"},
		{h.CRLF, "a length line must end with a carriage return and a line feed"},
		{h.Bare, "replies have no length line"},
		{h.WrongLength, "replies have a wrong length"},
		{h.OneFrame, "a connection is closed after each reply"},
		{h.ResultRoot, "the root of replies is <result>, not <results>"},
		{h.Whole, "only whole numbers are accepted"},
		{h.ErrorCloses, "a connection is closed after an error"},
	} {
		if each.has {
			all = append(all, each.tell)
		}
	}
	return all
}
