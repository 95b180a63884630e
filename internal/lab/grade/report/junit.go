package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"outcry/internal/lab/grade"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/printable"
)

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Name    string       `xml:"name,attr"`
	Suites  []junitSuite `xml:"testsuite"`
	junitCounts
}

type junitCounts struct {
	Tests    int    `xml:"tests,attr"`
	Failures int    `xml:"failures,attr"`
	Skipped  int    `xml:"skipped,attr"`
	Time     string `xml:"time,attr"`
}

type junitSuite struct {
	Name  string      `xml:"name,attr"`
	Cases []junitCase `xml:"testcase"`
	junitCounts
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
	Skipped *junitSkipped `xml:"skipped"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

// WriteJUnit writes r as JUnit XML, with a suite for each group. A case that passed only in part counts as a
// failure.
func WriteJUnit(w io.Writer, r *grade.Result) error {
	all := junitSuites{Name: "outcry-lab grade", junitCounts: junitCounts{Time: seconds(r.Seconds)}}
	for _, g := range grouped(r) {
		s := junitSuite{Name: g.Name}
		took := 0.0
		for _, c := range g.cases {
			s.Cases = append(s.Cases, junit(c, &s.junitCounts))
			took += c.Seconds
		}
		s.Time = seconds(took)
		all.Tests, all.Failures, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Skipped+s.Skipped
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", " ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junit(c grade.CaseResult, counts *junitCounts) junitCase {
	_, name, _ := strings.Cut(c.Name, "/")
	j := junitCase{Class: c.Group, Name: name, Time: seconds(c.Seconds)}
	counts.Tests++
	switch c.Status {
	case script.Pass:
	case script.Skip:
		counts.Skipped++
		j.Skipped = &junitSkipped{printable.Text(c.Message)}
	case script.Part, script.Fail:
		counts.Failures++
		j.Failure = &junitFailure{printable.Text(c.Message), string(c.Status), explained(c)}
	}
	return j
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }

// explained returns why a case failed, as lines of text: the rule, what must hold, what was expected, the
// conversation.
func explained(c grade.CaseResult) string {
	text := fmt.Sprintf("PROTOCOL, %s: %s\n", c.Rule, c.Tell)
	if c.Message != "" {
		text += c.Message + "\n"
	}
	for _, line := range c.Conversation {
		text += line + "\n"
	}
	return printable.Text(text)
}
