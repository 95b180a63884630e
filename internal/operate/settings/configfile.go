package settings

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// readConfigFile reads a file of settings; it returns none if path is "". The errors name the file and the
// line, and cover all lines that are wrong.
func readConfigFile(path string, f *flag.FlagSet) ([]given, error) {
	path, text, err := ReadOptional(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	return parseConfigFile(path, text, f)
}

// parseConfigFile parses the text of the file path:
//
//	# what limits clients
//	max-frame = 65536         # bytes
//	data      = "/srv/out # cry"
//
// A name is that of a flag. A # at the start of a line or after a blank begins a comment. A value is written
// as it is, without the blanks around it, or in double quotes as in Go. The error covers every line that is
// wrong. It never quotes a value, which might be a secret under a misspelled name.
func parseConfigFile(path string, text []byte, f *flag.FlagSet) (all []given, err error) {
	var names []string
	f.VisitAll(func(fl *flag.Flag) {
		if !isAct(fl.Name) {
			names = append(names, fl.Name)
		}
	})
	first := make(map[string]int) // the line that sets each name
	number := 0
	for line := range bytes.Lines(text) {
		number++
		origin := fmt.Sprintf("%s:%d", path, number)
		name, value, lineErr := ParseLine(string(line))
		switch {
		case lineErr != nil:
		case name == "":
			continue
		case isAct(name):
			lineErr = fmt.Errorf("%s is only a flag, not a setting", name)
		case !slices.Contains(names, name):
			lineErr = fmt.Errorf("%s is not a setting%s", quoteName(name), Suggest(name, names))
		case first[name] > 0:
			lineErr = fmt.Errorf("%s already has a value in line %d", name, first[name])
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

// quoteName quotes a name that may be misspelled. It does not quote other text, which may be a part of a
// secret in a file or a line that was meant for something else.
func quoteName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' && r != '_' }) {
		return "the name, which is not shown,"
	}
	return strconv.Quote(name)
}

// appendSetting appends a line for ParseLine.
func appendSetting(dst []byte, name, value string) []byte {
	dst = append(append(dst, name...), " = "...)
	if _, plain, err := ParseLine("x = " + value); err == nil && plain == value && !strings.ContainsAny(value, "\r\n") {
		return append(dst, value...)
	}
	return strconv.AppendQuote(dst, value)
}

// holdsPassword reports whether the address of a database, as a URL or as words name=value, contains a
// password.
func holdsPassword(database string) bool {
	if u, err := url.Parse(database); err == nil && u.Scheme != "" {
		_, in := u.User.Password()
		return in || u.Query().Has("password")
	}
	return strings.Contains(database, "password")
}
