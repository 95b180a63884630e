package report

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain makes the test program act as outcry-lab when an autograder's script calls it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "grade" {
		os.Exit(graded())
	}
	os.Exit(m.Run())
}

// seen is how an autograder's script called outcry-lab grade.
type seen struct {
	Arguments []string
	Folder    string
}

// graded acts as outcry-lab grade: it writes the call as the result, or fails if the profile is "bad".
func graded() int {
	folder, err := os.Getwd()
	value := map[string]string{} // by flag
	for i := 2; i+1 < len(os.Args); i += 2 {
		value[os.Args[i]] = os.Args[i+1]
		if strings.Contains(os.Args[i], "=") {
			i-- // the value was in the same argument
		}
	}
	if text, _ := os.ReadFile(value["--profile"]); string(text) == "bad" {
		return 2
	}
	b, _ := json.Marshal(seen{os.Args[1:], folder})
	err = errors.Join(err, os.WriteFile(value["--gradescope"], b, 0o600))
	if err != nil {
		return 2
	}
	return 1 // the exit status of a score below the required one
}

// elf replaces the program in an archive: a real program would take long to compress.
const elf = "\x7fELF and so on"

// elfFile returns the path of a file with elf.
func elfFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "outcry")
	require.NoError(t, os.WriteFile(path, []byte(elf), 0o755))
	return path
}

// unpacked unpacks an archive as Gradescope does, and runs its scripts. It returns the top folder, and the last
// script's error.
func unpacked(t *testing.T, a Autograder) (top string, ended error) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, WriteGradescopeZip(&b, a))
	z, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	require.NoError(t, err)
	top, err = filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, f := range z.File {
		in, err := f.Open()
		require.NoError(t, err)
		text, err := io.ReadAll(in)
		require.NoError(t, err)
		path := filepath.Join(top, "source", f.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, text, f.Mode()))
	}
	program := filepath.Join(top, "source/outcry-lab")
	at, err := os.Stat(program)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), at.Mode().Perm())
	require.Equal(t, elf, read(t, program))
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nexec '"+os.Args[0]+"' \"$@\"\n"), 0o755))
	require.NoError(t, exec.Command(filepath.Join(top, "source/setup.sh")).Run())
	require.NoError(t, os.Rename(filepath.Join(top, "source/run_autograder"), filepath.Join(top, "run_autograder")))
	for _, folder := range []string{"submission", "results"} {
		require.NoError(t, os.Mkdir(filepath.Join(top, folder), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(top, "submission/server.py"), []byte("pass"), 0o600))
	run := exec.Command(filepath.Join(top, "run_autograder"))
	run.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	out, ended := run.CombinedOutput()
	require.Empty(t, string(out))
	return top, ended
}

func TestAnAutograderGradesASubmission(t *testing.T) {
	folder := t.TempDir()
	profile, cases := filepath.Join(folder, "p.toml"), filepath.Join(folder, "cases")
	require.NoError(t, os.WriteFile(profile, []byte("[grade]\n"), 0o644))
	require.NoError(t, os.MkdirAll(filepath.Join(cases, "hidden"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(cases, "hidden/one.case"), []byte("case hidden/one\n"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(cases, "README"), []byte("not one"), 0o644))
	start := `exec python3 "server.py" --port=$PORT 'and' more`
	options := []string{"--seed=7", "--load=true", "--addr=127.0.0.1:9 'x' $HOME *"}
	top, err := unpacked(t, Autograder{Program: elfFile(t), Start: start, Profile: profile, Cases: cases,
		Options: options})
	require.NoError(t, err)
	var got seen
	require.NoError(t, json.Unmarshal([]byte(read(t, filepath.Join(top, "results/results.json"))), &got))
	require.Equal(t, seen{append([]string{"grade", "--start", start, "--gradescope",
		filepath.Join(top, "results/results.json"), "--profile", filepath.Join(top, "source/profile.toml"),
		"--cases", filepath.Join(top, "source/cases")}, options...),
		filepath.Join(top, "submission")}, got)
	require.Equal(t, "case hidden/one\n", read(t, filepath.Join(top, "source/cases/hidden/one.case")))
	require.NoFileExists(t, filepath.Join(top, "source/cases/README"))
	for _, hidden := range []string{"source", "source/cases",
		"source/cases/hidden/one.case", "results", "results/results.json"} {
		at, err := os.Stat(filepath.Join(top, hidden))
		require.NoError(t, err)
		require.Zero(t, at.Mode().Perm()&0o077, "%s is %s: the server that is graded reads it", hidden, at.Mode())
	}
	at, err := os.Stat(filepath.Join(top, "submission/server.py"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), at.Mode().Perm())
}

// The user named by an option owns the submission, so that its server can build and write there.
func TestTheUserThatIsNamedHasTheSubmission(t *testing.T) {
	if os.Getuid() != 0 {
		return // only root can give files away
	}
	for want, options := range map[uint32][]string{12345: {"--seed=1", "--user=12345"}, 65534: nil} {
		top, err := unpacked(t, Autograder{Program: elfFile(t), Start: "true", Options: options})
		require.NoError(t, err)
		at, err := os.Stat(filepath.Join(top, "submission/server.py"))
		require.NoError(t, err)
		require.Equal(t, want, at.Sys().(*syscall.Stat_t).Uid)
	}
}

// If there is no result, the script fails, so that Gradescope notices that the autograder failed.
func TestWhatWasNotGradedIsSeen(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "p.toml")
	require.NoError(t, os.WriteFile(profile, []byte("bad"), 0o644))
	top, err := unpacked(t, Autograder{Program: elfFile(t), Start: "true", Profile: profile})
	require.EqualError(t, err, "exit status 2")
	require.NoFileExists(t, filepath.Join(top, "results/results.json"))
}

func TestAnAutograderNeedsWhatItRuns(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755))
	for want, a := range map[string]Autograder{
		"needs the command":         {Program: elfFile(t)},
		"text is not a program":     {Program: text, Start: "true"},
		"no such file":              {Program: text + "s", Start: "true"},
		"nowhere: no such file":     {Program: elfFile(t), Start: "true", Profile: "nowhere"},
		"there is no case":          {Program: elfFile(t), Start: "true", Cases: filepath.Dir(text)},
		"must be on one line":       {Program: elfFile(t), Start: "true", Options: []string{"--user=a\nb"}},
		"no such file or directory": {Program: elfFile(t), Start: "true", Cases: text + "s"},
	} {
		require.ErrorContains(t, WriteGradescopeZip(io.Discard, a), want)
	}
}
