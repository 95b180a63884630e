package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/lab/grade/faulty"
)

// TestAResultIsWrittenWhereALinkLed: the result goes to the file that the link led to when the command began. If links
// were followed later, a graded server or another user could make root write to any file.
func TestAResultIsWrittenWhereALinkLed(t *testing.T) {
	t.Parallel()
	addr, stop, err := faulty.Start(faulty.Options{})
	require.NoError(t, err)
	defer stop()
	cases, profile := someCases(t)
	dir := t.TempDir()
	file, link := filepath.Join(dir, "result.json"), filepath.Join(dir, "link")
	require.NoError(t, os.Symlink("result.json", link))
	args := []string{"grade", "--addr", addr, "--cases", cases, "--profile", profile, "--json", link,
		"--junit", os.DevNull}
	_, stderr, status := lab("", args...)
	require.Equal(t, cli.ExitOK, status, stderr)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), `"version"`)
	to, err := os.Readlink(link)
	require.NoError(t, err)
	require.Equal(t, "result.json", to, "it stays")

	_, stderr, status = lab("", append(args, "--html", filepath.Join(dir, "none", "x"))...)
	require.Equal(t, cli.ExitUsage, status, "before anything is played: %s", stderr)
	require.Contains(t, stderr, "--html: ")
	if os.Getuid() != 0 {
		return
	}
	require.NoError(t, os.Lchown(link, 12345, 12345))
	_, stderr, status = lab("", args...)
	require.Equal(t, cli.ExitUsage, status, stderr)
	require.Contains(t, stderr, "--json: grade: "+link+" leads to a link of another user, 12345")
}

// TestAFolderThatNobodyCanEnterIsAMistakeOfTheCaller: if root grades, a server runs as the user nobody, which must
// have access to its folder.
func TestAFolderThatNobodyCanEnterIsAMistakeOfTheCaller(t *testing.T) {
	if os.Getuid() != 0 {
		return // then the server runs as this user
	}
	t.Parallel()
	dir := t.TempDir()
	folder, table := filepath.Join(dir, "class", "ada"), filepath.Join(dir, "grades.csv")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.Chmod(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "grade.sh"), []byte("exit 1\n"), 0o644))
	stdout, stderr, status := lab("", "grade", "--many", filepath.Dir(folder), "--csv", table)
	require.Equal(t, cli.ExitUsage, status, stderr)
	require.Contains(t, stderr, "user nobody cannot enter "+folder)
	require.Empty(t, stdout)
	text, err := os.ReadFile(table)
	require.NoError(t, err)
	require.Empty(t, text)
}
