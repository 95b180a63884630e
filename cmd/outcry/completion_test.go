package main

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/operate/settings"
)

// update makes the tests write the files generated from the table of commands.
var update = flag.Bool("update", false, "write the reference and the completions")

// TestReferenceOfCommands compares the reference and the completions with the table of commands.
func TestReferenceOfCommands(t *testing.T) {
	t.Setenv("OUTCRY_CONFIG", "")
	var page strings.Builder
	cli.PrintReference(&page, newOutcry(), true)
	files := map[string]string{"docs/reference/CLI.md": page.String()}
	for shell, file := range map[string]string{"bash": "outcry.bash", "zsh": "_outcry", "fish": "outcry.fish"} {
		text, _, status := outcry("", "completion", shell)
		require.Equal(t, cli.ExitOK, status)
		files["deploy/completion/"+file] = text
	}
	for file, text := range files {
		if *update {
			require.NoError(t, os.WriteFile("../../"+file, []byte(text), 0o644))
		}
		got, err := os.ReadFile("../../" + file)
		require.NoError(t, err)
		require.Equal(t, text, string(got), "%s is out of date: run make reference", file)
	}
}

// TestBashCompletesALine lets a real bash complete lines. Spaces separate words as bash splits them, and | stands
// for an empty last word.
func TestBashCompletesALine(t *testing.T) {
	script, _, _ := outcry("", "completion", "bash")
	for line, want := range map[string]string{
		"tok":                                  "token",
		"que":                                  "query",
		"token |":                              "add list revoke",
		"token add --sc":                       "--scope",
		"--addr = localhost : 1 token add --n": "--note",
		"--addr localhost token re":            "revoke",
		"buy --ref x 1 --s":                    "--stp --sym",
		"buy --ref |":                          "",
		"buy 1 |":                              "",
		"completion |":                         "bash zsh fish",
		"help cancel-":                         "cancel-after cancel-all",
		"verify /etc/passw":                    "/etc/passwd",
		"symbol --tls-ca = /etc/passw":         "/etc/passwd",
		"nothing --he":                         "",
	} {
		words := strings.Fields(strings.ReplaceAll(line, "|", "''"))
		cmd := exec.Command("bash", "--norc", "-c", script+"\nCOMP_WORDS=(outcry "+strings.Join(words, " ")+
			"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _outcry; echo ${COMPREPLY[*]}")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		got := strings.Fields(string(out))
		if strings.HasPrefix(want, "/") {
			require.Contains(t, got, want, line)
			continue
		}
		require.Equal(t, want, strings.Join(got, " "), line)
	}
}

// TestFlagsOfOneNameAreOfOneForm: a line is read before its command is known, so flags with one name must have
// one form.
func TestFlagsOfOneNameAreOfOneForm(t *testing.T) {
	forms := map[string]bool{}
	for _, c := range newOutcry().Commands() {
		f, _ := c.FlagSet(new(cli.Client))
		f.VisitAll(func(fl *flag.Flag) {
			is, known := forms[fl.Name]
			require.True(t, !known || is == settings.IsSwitch(fl), "--%s of %s", fl.Name, c.Name)
			forms[fl.Name] = settings.IsSwitch(fl)
			require.NotContains(t, []string{"", "value"}, fl.Usage)
		})
	}
}

// TestEachExampleIsALine parses each command's examples and expects that very command.
func TestEachExampleIsALine(t *testing.T) {
	all := newOutcry().Commands()
	for _, c := range all {
		require.NotEmpty(t, c.Examples, c.Name)
		require.NotRegexp(t, `^[A-Z]|\.$`, c.Summary)
		for _, example := range c.Examples {
			in := &cli.Client{Stderr: &strings.Builder{}}
			l, err := newOutcry().Read(in, strings.Fields(example))
			require.NoError(t, err, example)
			require.Equal(t, c.Name == "help", l.Help)
			if !l.Help {
				require.Equal(t, c.Name, l.Command.Name)
			}
		}
		if c.Name == "help" {
			continue // help --help prints the help of all commands
		}
		for _, help := range [][]string{{"help", c.Name}, append(strings.Fields(c.Name), "--help"), {"-h", c.Name}} {
			stdout, stderr, status := outcry("", strings.Fields(strings.Join(help, " "))...)
			require.Equal(t, cli.ExitOK, status, stderr)
			require.Contains(t, stdout, "Usage: "+c.Usage()+"\nExample: outcry "+c.Examples[0])
			for _, a := range c.Arguments {
				require.Contains(t, stdout, "\n  "+a.Name)
			}
		}
	}
}

// TestFlagsStandAnywhere parses one line with its flags in different places.
func TestFlagsStandAnywhere(t *testing.T) {
	for _, text := range []string{"--addr localhost buy --ref r 1 S 5 7", "buy 1 S 5 7 --ref=r --addr=localhost",
		"buy 1 -ref r --addr localhost S 5 7", "--ref r --addr localhost buy -- 1 S 5 7",
		"buy --sym S --ref r 1 5 7 --addr localhost"} {
		in := &cli.Client{Stderr: &strings.Builder{}}
		l, err := newOutcry().Read(in, strings.Fields(text))
		require.NoError(t, err, text)
		require.Equal(t, "buy", l.Command.Name)
		require.Equal(t, "localhost:12345", in.Access.Addr)
		f, _ := l.Command.FlagSet(&cli.Client{})
		words, err := settings.ParseFlags(f, strings.Fields(text))
		require.NoError(t, err)
		words, err = l.Command.Fit(f, words[1:])
		require.NoError(t, err)
		require.Equal(t, []string{"1", "S", "5", "7"}, words, text)
		require.Equal(t, "r", f.Lookup("ref").Value.String())
	}
}

// TestTheClientAndTheServerShareNoVariable: no variable of the client's is a setting of the server's.
func TestTheClientAndTheServerShareNoVariable(t *testing.T) {
	for _, variable := range append([]string{cli.TokenVariable, cli.InsecureVariable}, values(cli.AccessVariables)...) {
		t.Setenv(variable, "::malformed::")
	}
	t.Setenv("OUTCRY_CONFIG", "-"+t.TempDir()+"/none")
	c, err := settings.Parse(nil, &strings.Builder{})
	require.NoError(t, err)
	require.NotContains(t, strings.Join(c.Warnings, "\n"), "::malformed::")
	for _, variable := range append([]string{cli.TokenVariable, cli.InsecureVariable}, values(cli.AccessVariables)...) {
		require.NotContains(t, strings.Join(c.Warnings, "\n"), variable+" is not a setting")
	}
}

func values(m map[string]string) (all []string) {
	for _, v := range m {
		all = append(all, v)
	}
	return all
}

// TestTheServersVariableIsHeededOnceMore: the client still uses the server's variable, with a warning, if its
// own is not set.
func TestTheServersVariableIsHeededOnceMore(t *testing.T) {
	const warning = "outcry: warning: OUTCRY_HTTP is a setting of the server"
	for _, c := range []struct {
		own, old, line, want string
		warned               bool
	}{
		{"", "", "status", "127.0.0.1:8080", false},
		{"one", "two", "status", "one:8080", false},
		{"", "two:3", "status", "two:3", true},
		{"", "two:3", "doctor", "two:3", true},
		{"", "two:3", "status --http three", "three:8080", false},
		{"", "two:3", "query 1 1", "127.0.0.1:8080", false},
		{"", ":8080", "status", "127.0.0.1:8080", false}, // as in the container image; same as the default
		{"", "localhost", "status", "127.0.0.1:8080", false},
		{"", ":8080", "doctor", ":8080", true},
		{"", ":8081", "status", ":8081", true},
		{"https://one", "", "status", "https://one", false},
	} {
		t.Setenv(cli.HTTPVariable, c.own)
		t.Setenv(cli.OldHTTPVariable, c.old)
		var stderr strings.Builder
		in := &cli.Client{Stderr: &stderr, Access: cli.Access{Stderr: &stderr}}
		_, err := newOutcry().Read(in, strings.Fields(c.line))
		require.NoError(t, err)
		require.Equal(t, c.want, in.Access.HTTPAddr, "%+v", c)
		require.Equal(t, c.warned, strings.Contains(stderr.String(), warning), "%+v", c)
	}
}

func TestCommandsOfTheLabNameTheirProgram(t *testing.T) {
	for _, line := range []string{"grade --start ./server", "class new 3", "bench run --json", "demo", "help grade"} {
		stdout, stderr, status := outcry("", strings.Fields(line)...)
		first := strings.Fields(strings.TrimPrefix(line, "help "))[0]
		require.Equal(t, cli.ExitUsage, status, line)
		require.Empty(t, stdout, line)
		require.True(t, strings.HasPrefix(stderr, "outcry: "+first+" is a command of outcry-lab now\n"), stderr)
	}
}
