package report

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"
)

// Autograder specifies what the archive for Gradescope contains besides its scripts.
type Autograder struct {
	Program string   // path of an outcry-lab executable for Linux, where Gradescope grades
	Start   string   // the command that starts a submission's server, in its folder
	Profile string   // path of a profile; may be ""
	Cases   string   // path of a folder of cases; may be ""
	Options []string // more arguments of grade, each with its value: --seed=7
}

// The scripts that Gradescope runs: setup.sh once for a machine, run_autograder for each submission.
var (
	//go:embed setup.sh
	setupScript []byte
	//go:embed run_autograder.sh
	runScript []byte
)

// zipTime is the modification time of each file in an archive, so that the same files make the same archive. The
// zero time would have month 0 in a zip file, which some programs reject.
var zipTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// WriteGradescopeZip writes the archive that a teacher uploads as the autograder. The error names the missing or
// malformed part, or a program that is not for Linux. After an error, the output is unusable.
func WriteGradescopeZip(w io.Writer, a Autograder) error {
	if a.Start == "" {
		return errors.New("report: an autograder needs the command that starts a submission's server")
	}
	for _, o := range a.Options {
		if strings.ContainsAny(o, "\r\n") {
			return fmt.Errorf("report: an option of an autograder must be on one line: %q", o)
		}
	}
	program, err := os.ReadFile(a.Program)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if !bytes.HasPrefix(program, []byte("\x7fELF")) {
		return fmt.Errorf("report: %s is not a program for linux: an autograder runs there", a.Program)
	}
	z := zip.NewWriter(w)
	add := func(name string, mode fs.FileMode, text []byte) {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: zipTime}
		h.SetMode(mode)
		f, e := z.CreateHeader(h)
		if e == nil {
			_, e = f.Write(text)
		}
		err = errors.Join(err, e)
	}
	add("setup.sh", 0o755, setupScript)
	add("run_autograder", 0o755, runScript)
	add("outcry-lab", 0o755, program)
	add("start", 0o600, []byte(a.Start+"\n"))
	if len(a.Options) > 0 {
		add("options", 0o600, []byte(strings.Join(a.Options, "\n")+"\n"))
	}
	if a.Profile != "" {
		text, e := os.ReadFile(a.Profile)
		err = errors.Join(err, e)
		add("profile.toml", 0o600, text)
	}
	if a.Cases != "" {
		err = errors.Join(err, addCases(os.DirFS(a.Cases), add))
	}
	return errors.Join(err, z.Close())
}

// addCases adds the cases of a folder. The error says that there is none, or names one that cannot be read.
func addCases(folder fs.FS, add func(string, fs.FileMode, []byte)) error {
	n := 0
	err := fs.WalkDir(folder, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".case" {
			return err
		}
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return err
		}
		n++
		add(path.Join("cases", name), 0o600, text)
		return nil
	})
	if err == nil && n == 0 {
		err = errors.New("report: there is no case in the folder of cases")
	}
	return err
}
