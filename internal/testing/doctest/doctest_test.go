package doctest

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const patience = time.Minute

// shell starts a bash that ends with the test.
func shell(t *testing.T, patience time.Duration) *Shell {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc")
	cmd.Dir = t.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s, err := NewShell(cmd, patience)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// page makes a page from lines; ~~~ in a line becomes a code fence.
func page(t *testing.T, lines ...string) *Page {
	t.Helper()
	p, err := Parse("page.md", fenced(lines...))
	require.NoError(t, err)
	return p
}

func fenced(lines ...string) string {
	return strings.ReplaceAll(strings.Join(lines, "\n"), "~~~", "```")
}

func TestAPageIsReadIntoSectionsBlocksAndCommands(t *testing.T) {
	p := page(t, "# Page", "## One", "text $ no", "~~~console", "$ a", "b", "", "$ c \\", "  d", "e", "~~~",
		"### Below", "~~~xml", "$ <x/>", "~~~", "<!-- walk: skip: no such machine -->", "~~~", "$ docker", "~~~",
		"## Two", "- item", "  <!-- walk: fails -->", "  ~~~console", "  $ f", "  ~~~",
		"<!-- walk: meanwhile somebody sings -->")
	require.Equal(t, []string{"One", "Two"}, p.Titles(2))
	one, err := p.Section("One")
	require.NoError(t, err)
	require.Equal(t, []Part{
		{Line: 4, Steps: []Step{{5, "a", []string{"b", ""}}, {8, "c \\\n  d", []string{"e"}}}},
		{Line: 17, Mode: Skip, About: "no such machine"},
	}, one)
	two, err := p.Section("Two")
	require.NoError(t, err)
	require.Equal(t, []Part{{Line: 23, Mode: Fails, Steps: []Step{{24, "f", nil}}},
		{Line: 26, Mode: Meanwhile, About: "somebody sings"}}, two)
	all, err := p.Section("Page")
	require.NoError(t, err)
	require.Equal(t, p.Parts, all)
	_, err = p.Section("Three")
	require.ErrorContains(t, err, `page.md: there is no heading "Three"`)
	_, err = page(t, "## A", "## A").Section("A")
	require.ErrorContains(t, err, `two headings "A"`)
}

func TestABlockThatNobodyRunsHasToSaySo(t *testing.T) {
	for text, want := range map[string]string{
		"~~~\nls\n~~~":                               "page.md:1: this block is neither of a language nor skipped",
		"\n~~~console\n$ ls":                         "page.md:2: this block does not end",
		"~~~console\nls\n~~~":                        `page.md:2: the block begins with output: "ls"`,
		"<!-- walk: often -->":                       `page.md:1: unknown directive "often"`,
		"<!-- walk: skip -->":                        "page.md:1: skip needs to say what",
		"<!-- walk: fails twice -->":                 `page.md:1: fails takes nothing more, not "twice"`,
		"<!-- walk: fails -->\ntext":                 "page.md:2: the directive before this line has no block",
		"<!-- walk: fails -->\n<!-- walk: fails -->": "page.md:2: two directives",
		"<!-- walk: fails -->":                       "page.md: the last directive has no block",
		"<!-- walk: fails":                           "page.md:1: a directive is one line",
		"<!-- walk: fails -->\n~~~xml\n~~~":          `page.md:2: a block of "xml" has no commands to be run`,
	} {
		_, err := Parse("page.md", fenced(text))
		require.ErrorContains(t, err, want)
	}
}

func TestWhatIsShownStandsForWhatIsPrinted(t *testing.T) {
	digest := strings.Repeat("0123456789abcdef", 4)
	for _, c := range []struct {
		shows, printed string
		same           bool
	}{
		{"", "anything\nat all\n", true},
		{"ready", "ready\n", true},
		{"ready", "ready  \n\n", true},
		{"ready", "not ready\n", false},
		{"ready", "ready\nand more\n", false},
		{"ready", "", false},
		{"a.c", "abc", false},
		{"a … c", "a b c", true},
		{"a … c", "a b d", false},
		{"a\n…\nc", "a\nc\n", true},
		{"a\n…\nc", "a\nb\n\nb\nc\n", true},
		{"a\n…\nc", "a\nb\n", false},
		{"at 2026-11-21T06:58:31Z it", "at 2031-01-02T00:00:00Z it", true},
		{"at 2026-11-21T06:58:31Z it", "at 2031-01-02 00:00:00 it", false},
		{`time="1795244311"`, `time="1899999999"`, true},
		{"1795244311", "179524431", false},
		{"digest " + digest, "digest " + strings.Repeat("f", 64), true},
		{"digest " + digest, "digest " + digest[1:], false},
	} {
		err := Match(strings.Split(c.shows, "\n"), c.printed)
		require.Equal(t, c.same, err == nil, "%q %q: %v", c.shows, c.printed, err)
	}
}

func TestCommandsRunInOrderInOneShell(t *testing.T) {
	p := page(t, "~~~console", "$ mkdir below && cd below && x=it\\''s'",
		"$ basename $PWD; echo $x; echo no >&2", "below", "it's", "no", "~~~",
		"<!-- walk: fails -->", "~~~console", "$ true", "$ (exit 3)", "~~~",
		"<!-- walk: skip: it would end the shell -->", "~~~console", "$ exit", "~~~",
		"~~~console", "$ cat", "$ printf half", "half", "~~~")
	require.NoError(t, shell(t, patience).Walk(t.Context(), p, p.Parts, nil))
}

func TestWhatAPageGetsWrongIsNamedWithItsLine(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{[]string{"~~~console", "$ echo a", "b", "~~~"}, "page.md:2: echo a: it prints\na\nwhere the page shows\nb"},
		{[]string{"~~~console", "$ echo why; false", "~~~"}, "it ends with status 1, and prints\nwhy"},
		{[]string{"<!-- walk: fails -->", "~~~console", "$ true", "~~~"}, "it ends with status 0"},
		{[]string{"<!-- walk: fails -->", "~~~console", "$ false", "$ false", "~~~"}, "page.md:3: false"},
		{[]string{"<!-- walk: meanwhile a friend comes -->"}, `page.md:1: no function for "a friend comes"`},
	} {
		p := page(t, c.lines...)
		require.ErrorContains(t, shell(t, patience).Walk(t.Context(), p, p.Parts, nil), c.want)
	}
}

func TestACommandIsRepeatedUntilItPrintsWhatIsShown(t *testing.T) {
	p := page(t, "<!-- walk: repeat -->", "~~~console", "$ echo x >> file; wc -l < file", "3", "~~~")
	require.NoError(t, shell(t, patience).Walk(t.Context(), p, p.Parts, nil))
	p = page(t, "<!-- walk: repeat -->", "~~~console", "$ echo never", "3", "~~~")
	require.ErrorContains(t, shell(t, time.Second).Walk(t.Context(), p, p.Parts, nil), "it prints\nnever")
}

func TestACommandInTheBackgroundIsLeftOrInterrupted(t *testing.T) {
	p := page(t, "<!-- walk: stays -->", "~~~console", "$ echo up; sleep 60", "up", "~~~",
		"~~~console", "$ jobs -p | wc -l", "1", "~~~")
	s := shell(t, patience)
	require.NoError(t, s.Walk(t.Context(), p, p.Parts, nil))
	_, _, err := s.Run("kill -KILL -- -$walk_job")
	require.NoError(t, err)

	p = page(t, "<!-- walk: interrupt -->", "~~~console",
		"$ trap 'echo bye > bye; exit' INT; echo up; while :; do sleep 0.01; done", "up", "~~~",
		"~~~console", "$ cat bye", "bye", "~~~")
	require.NoError(t, shell(t, patience).Walk(t.Context(), p, p.Parts, nil))
}

func TestSomebodyDoesWhatIsToBeDoneMeanwhile(t *testing.T) {
	p := page(t, "<!-- walk: meanwhile a friend comes -->")
	came := 0
	friends := map[string]func() error{"a friend comes": func() error { came++; return nil }}
	require.NoError(t, shell(t, patience).Walk(t.Context(), p, p.Parts, friends))
	require.Equal(t, 1, came)
	friends["a friend comes"] = func() error { return errors.New("no bus") }
	require.ErrorContains(t, shell(t, patience).Walk(t.Context(), p, p.Parts, friends),
		"page.md:1: a friend comes: no bus")
}

func TestACommandThatTakesTooLongEndsTheShell(t *testing.T) {
	s := shell(t, 200*time.Millisecond)
	_, _, err := s.Run("echo before; sleep 2 & wait")
	require.ErrorContains(t, err, "longer than 200ms")
}
