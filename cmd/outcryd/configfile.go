package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// optionalMark before the name of a file of settings says that it need not be there.
	optionalMark = "-"

	// configBytesMax bounds a file of settings, and one that holds a secret.
	configBytesMax = 1 << 20
)

// readConfigFile reads a file of settings, none where path is "". Its errors name the
// file and the line; all that is wrong with the lines is said at once.
func readConfigFile(path string, f *flag.FlagSet) ([]given, error) {
	path, optional := strings.CutPrefix(path, optionalMark)
	if path == "" {
		return nil, nil
	}
	text, err := readBounded(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	return parseConfigFile(path, text, f)
}

// parseConfigFile reads the text of the file path:
//
//	# what limits clients
//	max-frame = 65536         # bytes
//	data      = "/srv/out # cry"
//
// A name is that of a flag. A # at the front of a line or after a blank begins a
// comment. A value is as it stands, without the blanks around it, or in double quotes
// as in Go. An error tells of each line that is wrong, and nothing of a value that
// might be a secret under a wrong name.
func parseConfigFile(path string, text []byte, f *flag.FlagSet) (all []given, err error) {
	var names []string
	f.VisitAll(func(fl *flag.Flag) {
		if !slices.Contains(acts, fl.Name) {
			names = append(names, fl.Name)
		}
	})
	first := make(map[string]int) // line of a name
	number := 0
	for line := range bytes.Lines(text) {
		number++
		origin := fmt.Sprintf("%s:%d", path, number)
		name, value, lineErr := parseSetting(string(line))
		switch {
		case lineErr != nil:
		case name == "":
			continue
		case slices.Contains(acts, name):
			lineErr = fmt.Errorf("%s is a flag only, and no setting", name)
		case !slices.Contains(names, name):
			lineErr = fmt.Errorf("%s is no setting%s", quoteName(name), suggest(name, names))
		case first[name] > 0:
			lineErr = fmt.Errorf("%s has a value in line %d already", name, first[name])
		}
		if lineErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", origin, lineErr))
			continue
		}
		first[name] = number
		all = append(all, given{name, value, origin})
	}
	return all, err
}

// quoteName quotes what may be a misspelled name. Anything else may be a part of a
// secret, from a file or a line that was meant for something else.
func quoteName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' && r != '_' }) {
		return "what stands there"
	}
	return strconv.Quote(name)
}

// parseSetting reads one line. The name is "" where the line is blank or a comment.
func parseSetting(line string) (name, value string, err error) {
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
			return "", "", fmt.Errorf("the value of %s is not closed by a quote, or goes on after it", name)
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

// appendSetting appends a line that parseSetting reads.
func appendSetting(dst []byte, name, value string) []byte {
	dst = append(append(dst, name...), " = "...)
	if _, plain, err := parseSetting("x = " + value); err == nil && plain == value && !strings.ContainsAny(value, "\r\n") {
		return append(dst, value...)
	}
	return strconv.AppendQuote(dst, value)
}

// readSecret returns what a file holds, without the white space around it.
func readSecret(path string) (string, error) {
	text, err := readBounded(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" {
		return "", errors.New("the file is empty")
	}
	return secret, nil
}

// readBounded reads a file of up to configBytesMax bytes.
func readBounded(path string) ([]byte, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, configBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > configBytesMax {
		return nil, fmt.Errorf("%s has more than %d bytes", path, configBytesMax)
	}
	return text, nil
}

// holdsPassword tells whether the URL of a database, or its other form of words
// name=value, has a password in it.
func holdsPassword(database string) bool {
	if u, err := url.Parse(database); err == nil && u.Scheme != "" {
		_, in := u.User.Password()
		return in || u.Query().Has("password")
	}
	return strings.Contains(database, "password")
}
