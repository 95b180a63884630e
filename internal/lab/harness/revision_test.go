package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestACommitIsBuiltBesideTheWorkingTree builds a program of a commit and the changed one of the working tree, and
// checks that the repository is unchanged.
func TestACommitIsBuiltBesideTheWorkingTree(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", root, "-c", "user.name=test", "-c", "user.email=test@test"},
			args...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(root, "says", "main.go"),
			[]byte("package main\n\nfunc main() { print(\""+text+"\") }\n"), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.org/says\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(root, "says"), 0o700))
	write("before")
	git("init", "--quiet")
	git("add", ".")
	git("commit", "--quiet", "--message", "before")
	write("after")
	status := git("status", "--porcelain")

	commit, err := Commit(t.Context(), root, "HEAD")
	require.NoError(t, err)
	require.Len(t, commit, 40)
	older, err := BuildCommit(t.Context(), root, commit, "./says", filepath.Join(dir, "older"))
	require.NoError(t, err)
	newer, err := Build(t.Context(), root, "./says", filepath.Join(dir, "newer"))
	require.NoError(t, err)
	for program, want := range map[string]string{older: "before", newer: "after"} {
		out, err := exec.Command(program).CombinedOutput()
		require.NoError(t, err)
		require.Equal(t, want, string(out))
	}
	require.Equal(t, status, git("status", "--porcelain"))

	_, err = Commit(t.Context(), root, "--all")
	require.ErrorContains(t, err, "find revision --all")
	_, err = Commit(t.Context(), dir, "HEAD")
	require.ErrorContains(t, err, "not a git repository")
	_, err = BuildCommit(t.Context(), root, "nothing", "./says", filepath.Join(dir, "none"))
	require.ErrorContains(t, err, "build nothing: git: ")
}
