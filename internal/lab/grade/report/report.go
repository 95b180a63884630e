// Package report writes the result of a grade, for people and for programs. Everything that a server sent
// may be hostile: each format escapes it.
package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"outcry/internal/lab/grade"
	"outcry/internal/lab/grade/script"
)

// Files are the paths of the files that a result is written to; "" means none.
type Files struct{ JSON, HTML, JUnit, Gradescope string }

// Names returns the paths that are not "".
func (f *Files) Names() (some []string) {
	for _, name := range []string{f.JSON, f.HTML, f.JUnit, f.Gradescope} {
		if name != "" {
			some = append(some, name)
		}
	}
	return some
}

// Write writes a result to each of the files. The error names those that could not be written.
func (f *Files) Write(r *grade.Result) error {
	var errs []error
	for _, file := range []struct {
		name  string
		write func(io.Writer, *grade.Result) error
	}{{f.JSON, WriteJSON}, {f.HTML, WriteHTML}, {f.JUnit, WriteJUnit}, {f.Gradescope, WriteGradescope}} {
		if file.name != "" {
			errs = append(errs, Save(file.name, func(w io.Writer) error { return file.write(w, r) }))
		}
	}
	return errors.Join(errs...)
}

// Save writes a temporary file beside path and renames it, so that a reader never sees half of it. Only the file's
// owner may read it: a graded server must not. On failure the file is unchanged. A terminal or a pipe is written
// directly. A link is an error: target.Resolve follows links before a server runs.
func Save(path string, write func(io.Writer) error) (err error) {
	if at, err := os.Lstat(path); err == nil && !at.Mode().IsRegular() {
		return into(path, write)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("report: write %s: %w", path, err)
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
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

// openFiles is where the kernel has links to the files that this process has open; no user can create one.
const openFiles = "/proc/*/fd/*"

// into writes to a terminal, a pipe, or a file that this process has open. It returns an error if path has become a
// link or a file.
func into(path string, write func(io.Writer) error) error {
	open, _ := filepath.Match(openFiles, path)
	flags := os.O_WRONLY
	if !open {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	if errors.Is(err, syscall.ELOOP) {
		return fmt.Errorf("report: %s is a link, but was not when the run began", path)
	}
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	at, err := f.Stat()
	switch {
	case err != nil || !at.Mode().IsRegular():
	case open:
		err = f.Truncate(0)
	default:
		err = fmt.Errorf("report: %s has become a file", path)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(write(f), f.Close())
}

// group is a group's result with the results of its cases.
type group struct {
	grade.GroupResult
	cases []grade.CaseResult
}

// grouped returns the groups that have cases, in the order of r.
func grouped(r *grade.Result) (all []group) {
	for _, g := range r.Groups {
		each := group{GroupResult: g}
		for _, c := range r.Cases {
			if c.Group == g.Name {
				each.cases = append(each.cases, c)
			}
		}
		if len(each.cases) > 0 {
			all = append(all, each)
		}
	}
	return all
}

// failures returns the failed cases, those that are worth points first.
func failures(r *grade.Result) []grade.CaseResult {
	var cost, free []grade.CaseResult
	for _, c := range r.Cases {
		switch {
		case c.Status != script.Fail && c.Status != script.Part:
		case c.Max > 0:
			cost = append(cost, c)
		default:
			free = append(free, c)
		}
	}
	return append(cost, free...)
}

// worth returns the points of a case, in words.
func worth(c *grade.CaseResult) string {
	if c.Max <= 0 {
		return "counts nothing"
	}
	return figure(c.Points) + " of " + figure(c.Max) + " points"
}

// sum returns the points of all groups. scaled reports whether the points possible differ from the best score:
// then the score is the share of the points, scaled to the best score.
func sum(r *grade.Result) (got, most float64, scaled bool) {
	for _, g := range r.Groups {
		got, most = got+g.Points, most+g.Max
	}
	return got, most, most > 0 && math.Abs(most-r.Best) >= 0.005
}

// figure formats points with at most two decimals.
func figure(f float64) string {
	s := strconv.FormatFloat(f, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
