package class

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"outcry/internal/auth"
	"outcry/internal/journal/durable"
	"outcry/internal/process/phrase"
)

// fileMax bounds the file of a class. A file for StudentsMax students is smaller.
const fileMax = 1 << 20

// fileHead is the first line of a class's file. The second line has the teacher's token.
var fileHead = []string{"account", "token"}

const teacher = "teacher"

// tokens returns the tokens of the class, the teacher's first. It reads them from the class's file, or, if
// there is none, makes new ones and writes the file; then isNew is true. It returns an error if the file is of
// another class or malformed, or cannot be written; then no file is written.
func (o *Options) tokens() (class []auth.Issued, isNew bool, err error) {
	class, err = readFile(o.CSV)
	if errors.Is(err, fs.ErrNotExist) {
		class, err = o.newTokens()
		return class, true, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s exists, but is not the file of a class: %w; choose another with --csv",
			o.CSV, err)
	}
	first, last := class[1].Note, class[len(class)-1].Note
	if ids := o.accounts(); len(ids) != len(class)-1 || ids[0] != first || ids[len(ids)-1] != last {
		return nil, false, fmt.Errorf("%s belongs to a class with %s, %s to %s: give the same numbers, or another --csv",
			o.CSV, phrase.Number(len(class)-1, "account"), first, last)
	}
	return class, false, nil
}

// newTokens generates tokens and writes the file.
func (o *Options) newTokens() ([]auth.Issued, error) {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	_ = w.Write(fileHead) // writing to a buffer cannot fail
	var class []auth.Issued
	for _, id := range append([]string{teacher}, o.accounts()...) {
		t, err := issued(id, auth.NewToken())
		if err != nil {
			return nil, err
		}
		class = append(class, t)
		_ = w.Write([]string{id, t.Token})
	}
	w.Flush()
	return class, writeSecret(o.CSV, text.Bytes())
}

// issued returns the token of an account or of the teacher. It returns an error if account is not a valid id.
func issued(account, token string) (t auth.Issued, err error) {
	scope := "admin"
	if account != teacher {
		scope = "account:" + account
	}
	t = auth.Issued{Token: token, Note: account}
	t.Scope, err = auth.ParseScope(scope)
	return t, err
}

// readFile reads the file of a class. The error is fs.ErrNotExist if there is none. Errors do not repeat the
// file's content.
func readFile(path string) (class []auth.Issued, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(io.LimitReader(f, fileMax)).ReadAll()
	if err != nil {
		return nil, errors.New("it cannot be read as CSV")
	}
	if len(lines) < 3 || strings.Join(lines[0], ",") != strings.Join(fileHead, ",") || lines[1][0] != teacher {
		return nil, fmt.Errorf("it does not begin with the header %s and the line of the %s", strings.Join(fileHead, ","),
			teacher)
	}
	for n, line := range lines[1:] {
		token, err := auth.CleanToken(line[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+2, err)
		}
		t, err := issued(line[0], token)
		if err != nil || n > 0 && t.Scope.IsAdmin() {
			return nil, fmt.Errorf("line %d does not begin with an account", n+2)
		}
		class = append(class, t)
	}
	return class, nil
}

// writeSecret writes a file that only its owner can read. It writes and syncs the content before the file gets
// its name.
func writeSecret(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = durable.File(f)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return durable.Dir(filepath.Dir(path))
}
