package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade"
	"outcry/internal/lab/grade/script"
)

// nasty is text with which a server could attack the reader of its report.
const nasty = "</pre></title><script>alert(1)</script><img src=x onerror=alert(2)>" +
	"\"'&amp;]]>{{.Log}}\x1b[2J\x00\xff\u202e=1+1"

// result has every status, a habit, and nasty in each place that holds a server's text.
func result() *grade.Result {
	return &grade.Result{Version: 1, Score: 61.254, Best: 100,
		Seconds: 9.5, Seed: 1, Salt: "171935", Target: "127.0.0.1:1" + nasty,
		Habits: dialect.Habits{Bare: true}, Restarts: 2, Log: "panic: " + nasty,
		Groups: []grade.GroupResult{{Name: "create", Points: 4.5, Max: 9}, {Name: "matching", Points: 12.25, Max: 24},
			{Name: "durability"}, {Name: "load"}},
		Cases: []grade.CaseResult{
			{Name: "create/account", Group: "create", Rule: "create", Tell: "An account opens.", Status: script.Pass,
				Points: 4.5, Max: 4.5, Seconds: 0.25, Tries: 1},
			{Name: "create/empty", Group: "create", Rule: "create", Tell: "Nothing is answered with nothing.",
				Status: script.Fail, Max: 4.5, Message: "it answered " + nasty, Seconds: 3, Tries: 3,
				Conversation: []string{"> <create/>", "< " + nasty, "! <results/>"}},
			{Name: "matching/tape-1", Group: "matching", Rule: "Errors", Tell: "It matches.", Status: script.Part, Points: 12.25,
				Max: 24, Message: "two of four", Seconds: 1, Tries: 1, Hidden: true},
			{Name: "durability/orders", Group: "durability", Rule: "What a reply promises", Tell: "Orders stay.",
				Status: script.Skip, Message: "there is no server to kill", Hidden: true},
		}}
}

// written returns the output of one of the writers for result.
func written(t *testing.T, write func(io.Writer, *grade.Result) error) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, write(&b, result()))
	return b.String()
}

// keys returns the names of an object, sorted.
func keys(t *testing.T, object any) (names []string) {
	t.Helper()
	m, ok := object.(map[string]any)
	require.True(t, ok, "%T", object)
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestTheJSONIsTheResult(t *testing.T) {
	text := written(t, WriteJSON)
	var back grade.Result
	require.NoError(t, json.Unmarshal([]byte(text), &back))
	want := result()
	for _, s := range []*string{&want.Target, &want.Log, &want.Cases[1].Message, &want.Cases[1].Conversation[1]} {
		*s = strings.ToValidUTF8(*s, "\uFFFD")
	}
	require.Equal(t, want, &back)
	require.NotContains(t, text, "<", "a page that has it in a script stays whole")
	var loose map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &loose))
	require.Equal(t, []string{"best", "cases", "groups", "habits", "log", "restarts", "salt", "score", "seconds", "seed",
		"target",
		"version"}, keys(t, loose))
	require.Equal(t, []string{"conversation", "group", "hidden", "max", "message", "name", "points", "rule", "seconds",
		"status", "tell", "tries"}, keys(t, loose["cases"].([]any)[0]))
}

// elements parses a document as strict XML, and returns the names of its elements and its text.
func elements(t *testing.T, text string) (names []string, content string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return names, content
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			names = append(names, token.Name.Local)
			for _, a := range token.Attr {
				require.NotEqual(t, "src", a.Name.Local)
				require.False(t, strings.HasPrefix(a.Name.Local, "on"), a.Name.Local)
				require.NotContains(t, a.Value, "://")
			}
		case xml.CharData:
			content += string(token)
		}
	}
}

// shown is nasty as a reader must see it.
const shown = "</pre></title><script>alert(1)</script><img src=x onerror=alert(2)>" +
	"\"'&amp;]]>{{.Log}}\uFFFD[2J\uFFFD\uFFFD\uFFFD=1+1"

func TestThePageIsOneFileWithoutScripts(t *testing.T) {
	names, content := elements(t, written(t, WriteHTML))
	for _, name := range []string{"script", "img", "link", "iframe", "object", "embed", "form", "base", "svg"} {
		require.NotContains(t, names, name)
	}
	require.Equal(t, 1, count(names, "title"))
	require.Equal(t, 2, count(names, "pre"))
	for _, part := range []string{"Grade of 127.0.0.1:1" + shown, "61.25 of 100",
		"sum16.7533scaled to the score",
		"it answered " + shown, "< " + shown, "! <results/>",
		"panic: " + shown, "replies have no length line", "restarted 2 times", "PROTOCOL, Errors.", "12.25",
		"1 passed, 1 partly passed, 1 failed, 1 not counted", "there is no server to kill"} {
		require.Contains(t, content, part)
	}
}

func count(names []string, name string) (n int) {
	for _, each := range names {
		if each == name {
			n++
		}
	}
	return n
}

// The result has neither groups nor cases, since the server never accepted a connection.
func TestAPageOfNothingIsWhole(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, WriteHTML(&b, &grade.Result{}))
	elements(t, b.String())
	for _, write := range []func(io.Writer, *grade.Result) error{WriteJSON, WriteGradescope} {
		b.Reset()
		require.NoError(t, write(&b, &grade.Result{}))
		require.True(t, json.Valid(b.Bytes()))
	}
	b.Reset()
	require.NoError(t, WriteJUnit(&b, &grade.Result{}))
	elements(t, b.String())
}

func TestJUnitHasASuiteForEachGroup(t *testing.T) {
	text := written(t, WriteJUnit)
	var back struct {
		XMLName  xml.Name `xml:"testsuites"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Tests int    `xml:"tests,attr"`
			Time  string `xml:"time,attr"`
			Cases []struct {
				Class   string `xml:"classname,attr"`
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Text    string `xml:",chardata"`
				} `xml:"failure"`
				Skipped *struct {
					Message string `xml:"message,attr"`
				} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal([]byte(text), &back))
	require.Equal(t, [3]int{4, 2, 1}, [3]int{back.Tests, back.Failures, back.Skipped})
	require.Len(t, back.Suites, 3, "load has no case")
	create := back.Suites[0]
	require.Equal(t, []any{"create", 2, "3.250"}, []any{create.Name, create.Tests, create.Time})
	require.Equal(t, []string{"create", "empty"}, []string{create.Cases[1].Class, create.Cases[1].Name})
	require.Nil(t, create.Cases[0].Failure)
	require.Equal(t, "it answered "+shown, create.Cases[1].Failure.Message)
	require.Contains(t, create.Cases[1].Failure.Text, "< "+shown+"\n! <results/>\n")
	require.Equal(t, "two of four", back.Suites[1].Cases[0].Failure.Message)
	require.Equal(t, "there is no server to kill", back.Suites[2].Cases[0].Skipped.Message)
	names, _ := elements(t, text)
	require.NotContains(t, names, "script")
}

func TestGradescopeHasWhatItsAutogradersWrite(t *testing.T) {
	var back map[string]any
	require.NoError(t, json.Unmarshal([]byte(written(t, WriteGradescope)), &back))
	require.Equal(t, []string{"execution_time", "extra_data", "output", "output_format", "score", "stdout_visibility",
		"test_name_format", "test_output_format", "tests"}, keys(t, back))
	require.Equal(t, 61.254, back["score"])
	for _, format := range []string{"output_format", "test_name_format", "test_output_format"} {
		require.Equal(t, "text", back[format])
	}
	require.Equal(t, "score 61.25 of 100: the cases have 16.75 of 33 points\nfound: replies have no length line\n"+
		"the server was restarted 2 times, since it did not answer\n", back["output"])
	tests := back["tests"].([]any)
	require.Len(t, tests, 4)
	var seen []map[string]any
	for _, each := range tests {
		require.Equal(t, []string{"max_score", "name", "number", "output", "score", "status", "tags", "visibility"},
			keys(t, each))
		seen = append(seen, each.(map[string]any))
	}
	require.Equal(t, map[string]any{"name": "create/account", "number": "1.1", "score": 4.5, "max_score": 4.5,
		"status": "passed", "output": "An account opens.", "visibility": "visible", "tags": []any{"create"}}, seen[0])
	require.Equal(t, "failed", seen[1]["status"])
	require.Equal(t, "PROTOCOL, create: Nothing is answered with nothing.\nit answered "+shown+"\n> <create/>\n< "+shown+
		"\n! <results/>\n", seen[1]["output"])
	require.Equal(t, []any{"2.1", 12.25, 24.0, "failed", "after_published"},
		[]any{seen[2]["number"], seen[2]["score"], seen[2]["max_score"], seen[2]["status"], seen[2]["visibility"]})
	require.Equal(t, []any{0.0, "passed", "not played: there is no server to kill"},
		[]any{seen[3]["max_score"], seen[3]["status"], seen[3]["output"]})
}

// The server's output is shown only if the server was sent no case, since it could print hidden ones.
func TestGradescopeShowsWhyNothingWasPlayed(t *testing.T) {
	r := result()
	output := func() string {
		var b bytes.Buffer
		require.NoError(t, WriteGradescope(&b, r))
		var back struct{ Output string }
		require.NoError(t, json.Unmarshal(b.Bytes(), &back))
		return back.Output
	}
	require.NotContains(t, output(), "panic: ")
	for i := range r.Cases {
		r.Cases[i].Tries = 0
	}
	require.Contains(t, output(), "the server printed at the end:\n    panic: "+shown)
}

func TestAFileIsWholeOrWhatItWas(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "result.json")
	text := func(s string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, _ = io.WriteString(w, s)
			return err
		}
	}
	require.NoError(t, Save(path, text("one", nil)))
	at, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), at.Mode().Perm())
	require.ErrorContains(t, Save(path, text("half", errors.New("no"))), "no")
	require.Equal(t, "one", read(t, path))
	require.NoError(t, Save(path, text("2", nil)))
	require.Equal(t, "2", read(t, path))
	link := filepath.Join(folder, "link")
	require.NoError(t, os.Symlink(path, link))
	require.ErrorContains(t, Save(link, text("3", nil)), link+" is a link")
	require.Equal(t, "2", read(t, path), "a server may have planted the link since it was resolved")
	own := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), pipe(t))
	if runtime.GOOS == "linux" {
		require.NoError(t, Save(own, text("what is open is as it is", nil)))
	}
	require.NoError(t, Save(os.DevNull, text("", nil)))
	null, err := os.Lstat(os.DevNull)
	require.NoError(t, err)
	require.False(t, null.Mode().IsRegular())
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 2)
	require.ErrorContains(t, Save(filepath.Join(folder, "none", "x"), text("", nil)), "none")
}

// pipe returns the file descriptor of the writing end of a pipe.
func pipe(t *testing.T) uintptr {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, errors.Join(r.Close(), w.Close())) })
	return w.Fd()
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}
