package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// OptionalMark before the name of a file of settings means that the file may be missing.
const OptionalMark = "-"

// bytesMax bounds a file of settings, and a file with a secret.
const bytesMax = 1 << 20

// ParseLine parses one line. A # at the start or after a blank begins a comment. A value is written as it is,
// without the blanks around it, or in double quotes as in Go. The name is "" if the line is blank or a
// comment. The error does not quote the line: any part of a malformed line may be a secret.
func ParseLine(line string) (name, value string, err error) {
	if !utf8.ValidString(line) || strings.ContainsRune(line, 0) {
		return "", "", errors.New("not text in UTF-8")
	}
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", "", nil
	}
	name, value, ok := strings.Cut(line, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" {
		return "", "", errors.New(`not "name = value"`)
	}
	if strings.HasPrefix(value, `"`) {
		quoted, err := strconv.QuotedPrefix(value)
		rest := strings.TrimSpace(value[len(quoted):])
		if err != nil || rest != "" && rest[0] != '#' {
			return "", "", errors.New("the value has no closing quote, or continues after it")
		}
		value, err = strconv.Unquote(quoted)
		return name, value, err
	}
	for i := range len(value) {
		if value[i] == '#' && (i == 0 || value[i-1] == ' ' || value[i-1] == '\t') {
			value = strings.TrimSpace(value[:i])
			break
		}
	}
	return name, value, nil
}

// secretForms matches the address of a database with its password. It hardly ever matches a file name.
var secretForms = regexp.MustCompile(`://|:[^/]+@|password\s*=`)

// ReadSecret returns the content of a file without the white space around it. The error names the file and
// says why it cannot be read, or that it is empty. If path is by mistake the secret itself, such as a
// database's URL with a password, the error says so without quoting it.
func ReadSecret(path string) (string, error) {
	if secretForms.MatchString(path) {
		return "", errors.New("that is not a file name, but what the file should contain")
	}
	text, err := ReadFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return secret, nil
}

// ReadOptional reads the file at a path that may begin with OptionalMark, as ReadFile does, and returns the
// path without the mark. It reads nothing if the path is "", or if an optional file does not exist.
func ReadOptional(marked string) (path string, text []byte, err error) {
	path, optional := strings.CutPrefix(marked, OptionalMark)
	if path == "" {
		return "", nil, nil
	}
	text, err = ReadFile(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return path, text, err
}

// ReadFile reads a file of up to 1 MiB. The error says why it cannot be read, or that it is larger.
func ReadFile(path string) ([]byte, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, bytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > bytesMax {
		return nil, fmt.Errorf("%s has more than %d bytes", path, bytesMax)
	}
	return text, nil
}
