package grade

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"outcry/internal/lab/grade/target"
	"outcry/internal/lab/printable"
)

// startScript is the file in a folder that starts the folder's server.
const startScript = "grade.sh"

// total is the group column of the row with a folder's score.
const total = "total"

// manyColumns are the columns of the file that Many writes. Each folder has a row for each group, then
// one with its score.
var manyColumns = []string{"directory", "group", "points", "max", "seconds", "note"}

// Bounds of the file that Many reads and writes.
const (
	manyBytesMax = 64 << 20
	noteMax      = 1000 // bytes
)

// ManyOptions specify which servers Many grades, and how.
type ManyOptions struct {
	Dir    string         // folder whose subfolders with a grade.sh are graded
	CSV    string         // file of the results; folders that it already contains are skipped
	Server target.Options // Many sets Command and Dir, and adds to Results and Reads
	Run    Options        // Many sets Target
	// Begin is called before a folder is graded, with its place among all folders. Each is called afterwards with
	// the result, and with a note that says why if the server could not be graded. Both may be nil. An error from
	// Each ends Many.
	Begin func(folder string, n, of int)
	Each  func(folder string, r *Result, note string) error
}

// Summary is what Many did.
type Summary struct {
	Graded, Before int      // folders graded by this call, and by earlier ones
	Without        []string // folders that have no grade.sh
}

// Many grades the servers of all subfolders of a folder, one after another, and writes each result before it begins
// the next. Called again with the same file, it continues with the folders that are missing there. A server that never
// accepts a connection gets score 0 and a note. The error names a folder or file that cannot be used, says that
// processes of a server do not end, wraps target.ErrNotTried, or says that ctx ended. If it wraps ErrNotTried or ctx
// ended, the folder being graded gets no rows. The file is always complete.
func Many(ctx context.Context, o ManyOptions) (s Summary, err error) {
	folders, without, err := foldersOf(o.Dir)
	s.Without = without
	if err != nil {
		return s, err
	}
	if err := target.CheckResults(o.Server.User, o.CSV); err != nil { // before its contents are trusted
		return s, err
	}
	table, err := readTable(o.CSV)
	if err != nil {
		return s, err
	}
	for n, folder := range folders {
		if table.has(folder) {
			s.Before++
			continue
		}
		if ctx.Err() != nil {
			return s, fmt.Errorf("grade: %w", context.Cause(ctx))
		}
		if o.Begin != nil {
			o.Begin(folder, n+1, len(folders))
		}
		if err := o.grade(ctx, folder, table); err != nil {
			return s, fmt.Errorf("grade: %s: %w", folder, err)
		}
		s.Graded++
	}
	return s, nil
}

// grade grades one folder, and adds its result to the table.
func (o ManyOptions) grade(ctx context.Context, folder string, t *table) error {
	server, run := o.Server, o.Run
	server.Dir = filepath.Join(o.Dir, folder)
	path, err := filepath.Abs(filepath.Join(server.Dir, startScript))
	if err != nil {
		return err
	}
	server.Command = "exec sh ./" + startScript
	if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
		server.Command = "exec ./" + startScript // the script may name another interpreter
		if info.Mode()&0o111 != 0o111 {          // not every user can execute it
			server.Command = "[ ! -x " + startScript + " ] || " + server.Command + "; exec sh ./" + startScript
		}
	}
	server.Results = append(slices.Clone(server.Results), o.CSV)
	server.Reads = append(slices.Clone(server.Reads), path)
	if run.Target, err = target.Command(server); err != nil {
		return err
	}
	result, err := Run(ctx, run)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if result == nil {
		return err
	}
	note := ""
	if err != nil {
		note = err.Error()
	}
	if err := t.add(folder, result, note); err != nil {
		return err
	}
	if o.Each != nil {
		if err := o.Each(folder, result, note); err != nil {
			return err
		}
	}
	if errors.Is(err, ErrNothingAccepts) {
		return nil
	}
	return err
}

// foldersOf returns the names of the subfolders of dir with a startScript, and of those without.
func foldersOf(dir string) (with, without []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("grade: %w", err)
	}
	cells := map[string]string{}
	for _, e := range entries {
		name := e.Name()
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !info.IsDir() { // os.Stat follows links
			continue
		}
		if info, err := os.Stat(filepath.Join(dir, name, startScript)); err != nil || !info.Mode().IsRegular() {
			without = append(without, name)
			continue
		}
		if other, ok := cells[printable.Cell(name)]; ok {
			return nil, nil, fmt.Errorf("grade: folders %q and %q look the same in a table: rename one", other, name)
		}
		cells[printable.Cell(name)] = name
		with = append(with, name)
	}
	if len(with) == 0 {
		return nil, without, fmt.Errorf("grade: no folder in %s has a file %s", dir, startScript)
	}
	return with, without, nil
}

// table is the file of results. It has either all rows of a folder or none.
type table struct {
	path string
	rows [][]string
	done map[string]bool // by folder, as in the table's first column
}

// readTable reads the file of an earlier run; if there is no file, the table is empty. It returns an error if the
// file is not a table of Many.
func readTable(path string) (*table, error) {
	t := &table{path: path, done: map[string]bool{}}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, fmt.Errorf("grade: %w", err)
	}
	defer f.Close()
	r := csv.NewReader(io.LimitReader(f, manyBytesMax))
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("grade: read %s: %w", path, err)
	}
	if len(rows) == 0 { // CheckResults creates an empty file first, to prevent other users from creating it
		return t, nil
	}
	if !slices.Equal(rows[0], manyColumns) {
		return nil, fmt.Errorf("grade: %s was not written by this program: its columns are not %v", path, manyColumns)
	}
	t.rows = rows[1:]
	for _, row := range t.rows {
		t.done[row[0]] = true
	}
	return t, nil
}

// has reports whether the table has the rows of a folder.
func (t *table) has(folder string) bool { return t.done[printable.Cell(folder)] }

// add adds the result of a folder, and writes the file. If the error is not nil, file and table are unchanged.
func (t *table) add(folder string, r *Result, note string) error {
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	rows := slices.Clone(t.rows)
	for _, g := range r.Groups {
		seconds := 0.0
		for _, c := range r.Cases {
			if c.Group == g.Name {
				seconds += c.Seconds
			}
		}
		rows = append(rows, []string{printable.Cell(folder), g.Name, number(g.Points), number(g.Max),
			number(rounded(seconds, 3)), ""})
	}
	rows = append(rows, []string{printable.Cell(folder), total, number(r.Score), number(r.Best), number(r.Seconds),
		printable.Cell(note[:min(len(note), noteMax)])})
	if err := writeTable(t.path, rows); err != nil {
		return err
	}
	t.rows, t.done[printable.Cell(folder)] = rows, true
	return nil
}

// writeTable writes a temporary file beside path and renames it, so that path is complete at any moment.
func writeTable(path string, rows [][]string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // readable by its owner only
	if err != nil {
		return fmt.Errorf("grade: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("grade: write %s: %w", path, errors.Join(err, f.Close()))
			_ = os.Remove(f.Name()) // it fails if the file is already renamed
		}
	}()
	if err := csv.NewWriter(f).WriteAll(append([][]string{manyColumns}, rows...)); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
