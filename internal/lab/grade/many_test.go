package grade

import (
	"context"
	"encoding/csv"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/grade/faulty"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/grade/target"
)

// init makes this program the server of a folder, if a folder's script has started it.
func init() { faulty.Child() }

// class returns options for a class: a folder that any user can enter, with a subfolder for each key of scripts.
// The key's value is the subfolder's script; "" means that it has none.
func class(t *testing.T, scripts map[string]string) ManyOptions {
	dir, err := os.MkdirTemp("/tmp", "many-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "class"), 0o755))
	for name, text := range scripts {
		folder := filepath.Join(dir, "class", name)
		require.NoError(t, os.Mkdir(folder, 0o755))
		if text != "" {
			require.NoError(t, os.WriteFile(filepath.Join(folder, startScript), []byte(text), 0o755))
		}
	}
	c, err := script.Parse("create/account", []byte("case create/account\nrule 3\ntell An account is created.\n"+
		"> <create><account id=\"{a}\" balance=\"100\"/></create>\n< <created/>\n"))
	require.NoError(t, err)
	return ManyOptions{Dir: filepath.Join(dir, "class"), CSV: filepath.Join(dir, "class.csv"),
		Server: target.Options{Limits: target.Limits{Memory: 1 << 50}}, // the race detector needs much memory
		Run:    Options{Cases: []*script.Case{c}}}
}

// program returns the path of a copy of this program that any user can execute.
func program(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "many-program-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	in, err := os.Open(os.Args[0])
	require.NoError(t, err)
	defer in.Close()
	path := filepath.Join(dir, "server")
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, errors.Join(err, out.Close()))
	return path
}

// rowsOf returns the rows of a table, without the seconds.
func rowsOf(t *testing.T, path string) (rows [][]string) {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	rows, err = csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	for i := range rows {
		rows[i] = append(rows[i][:4:4], rows[i][5])
	}
	return rows
}

// Folders are graded one after another, an interrupted run continues, and no name can become a formula.
func TestAClassIsGradedFolderByFolder(t *testing.T) {
	command, err := faulty.Command(program(t), faulty.Options{})
	require.NoError(t, err)
	o := class(t, map[string]string{"=1+1": "#!/bin/sh\n" + command, "alice": command, "bob": "echo no compiler; exit 1\n",
		"carol": ""})
	require.NoError(t, os.Chmod(filepath.Join(o.Dir, "alice", startScript), 0o644)) // not executable: sh must run it
	require.NoError(t, os.WriteFile(filepath.Join(o.Dir, "notes.txt"), nil, 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	o.Begin = func(folder string, n, of int) {
		require.Equal(t, 3, of)
		if n == 2 {
			require.Equal(t, "alice", folder)
			cancel()
		}
	}
	s, err := Many(ctx, o)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, Summary{Graded: 1, Without: []string{"carol"}}, s)
	first := [][]string{{"directory", "group", "points", "max", "note"},
		{"'=1+1", "create", "9", "9", ""}, {"'=1+1", "total", "100", "100", ""}}
	require.Equal(t, first, rowsOf(t, o.CSV))

	var graded []string
	o.Begin = nil
	o.Each = func(folder string, r *Result, _ string) error {
		graded = append(graded, folder)
		return nil
	}
	s, err = Many(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, Summary{Graded: 2, Before: 1, Without: []string{"carol"}}, s)
	require.Equal(t, []string{"alice", "bob"}, graded)
	rows := rowsOf(t, o.CSV)
	require.Equal(t, append(first, []string{"alice", "create", "9", "9", ""}, []string{"alice", "total", "100", "100", ""},
		[]string{"bob", "create", "0", "9", ""}), rows[:6])
	require.Equal(t, []string{"bob", "total", "0", "100"}, rows[6][:4])
	require.Contains(t, rows[6][4], "no compiler")

	before, err := os.ReadFile(o.CSV)
	require.NoError(t, err)
	s, err = Many(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, Summary{Before: 3, Without: []string{"carol"}}, s)
	after, err := os.ReadFile(o.CSV)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	left, err := os.ReadDir(filepath.Dir(o.CSV))
	require.NoError(t, err)
	require.Len(t, left, 2, "no file of a write is left")
}

func TestAClassThatCannotBeGraded(t *testing.T) {
	o := class(t, map[string]string{"a": ""})
	_, err := Many(t.Context(), o)
	require.ErrorContains(t, err, "no folder in "+o.Dir)
	o = class(t, map[string]string{"a b": "exit 1", "a  b": "exit 1"})
	_, err = Many(t.Context(), o)
	require.ErrorContains(t, err, `folders "a  b" and "a b"`)
	o = class(t, map[string]string{"a": "exit 1"})
	for text, want := range map[string]string{"name,points\n": "was not written by", "a\"b\n": "read " + o.CSV} {
		require.NoError(t, os.WriteFile(o.CSV, []byte(text), 0o600))
		_, err = Many(t.Context(), o)
		require.ErrorContains(t, err, want)
		still, err := os.ReadFile(o.CSV)
		require.NoError(t, err)
		require.Equal(t, text, string(still))
	}
	o.Dir = "/no/such/folder"
	_, err = Many(t.Context(), o)
	require.ErrorContains(t, err, o.Dir)
	o = class(t, map[string]string{"a": "exit 1"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	o.Server.Addr = l.Addr().String()
	_, err = Many(t.Context(), o)
	require.ErrorIs(t, err, target.ErrNotTried, "it is not the fault of this server")
	table, err := readTable(o.CSV)
	require.NoError(t, err)
	require.Empty(t, table.rows)
	o = class(t, map[string]string{"a": "exit 1"})
	o.Server.User = "no-such-user"
	_, err = Many(t.Context(), o)
	require.ErrorContains(t, err, "grade: there is no user")
	require.NoFileExists(t, o.CSV)
}

// A table that the server's user could write is not trusted: it could claim that folders are graded already.
func TestATableOfTheServersUserIsNotRead(t *testing.T) {
	if os.Getuid() != 0 {
		return // the server would run as this user
	}
	o := class(t, map[string]string{"a": "exit 1"})
	o.Server.User = "12345"
	require.NoError(t, os.Chmod(filepath.Dir(o.CSV), 0o777|os.ModeSticky))
	require.NoError(t, os.WriteFile(o.CSV, []byte("directory,group,points,max,seconds,note\na,total,100,100,1,\n"), 0o644))
	require.NoError(t, os.Chown(o.CSV, 12345, 12345))
	_, err := Many(t.Context(), o)
	require.ErrorIs(t, err, target.ErrNotTried)
	require.ErrorContains(t, err, o.CSV)
}

// A folder that the server's user cannot access is not the server's fault: it gets no row, and is graded once it is
// accessible.
func TestAFolderThatTheServersUserCannotUseIsNotGraded(t *testing.T) {
	if os.Getuid() != 0 {
		return // the server would run as this user
	}
	command, err := faulty.Command(program(t), faulty.Options{})
	require.NoError(t, err)
	o := class(t, map[string]string{"a": "#!/bin/sh\n" + command})
	folder := filepath.Join(o.Dir, "a")
	script := filepath.Join(folder, startScript)
	for _, c := range []struct {
		closed string
		mode   os.FileMode
		names  string
	}{{o.Dir, 0o700, folder}, {folder, 0o700, folder}, {script, 0o700, script}} {
		before, err := os.Stat(c.closed)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(c.closed, c.mode))
		_, err = Many(t.Context(), o)
		require.ErrorIs(t, err, target.ErrNotTried, c.closed)
		require.ErrorContains(t, err, c.names+": chmod")
		require.ErrorContains(t, err, "user nobody cannot ")
		table, err := readTable(o.CSV)
		require.NoError(t, err)
		require.Empty(t, table.rows)
		require.NoError(t, os.Chmod(c.closed, before.Mode()))
	}
	require.NoError(t, os.Chmod(script, 0o744), "its owner executes it, others read it")
	s, err := Many(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, 1, s.Graded)
	require.Equal(t, []string{"a", "total", "100", "100", ""}, rowsOf(t, o.CSV)[2])
}
