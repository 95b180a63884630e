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

// readConfigFile reads a file of settings, none if path is "". Its errors name the
// file and the line; all that is wrong with the lines is said at once.
func readConfigFile(path string, f *flag.FlagSet) ([]given, error) {
	path, text, err := ReadOptional(path)
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
		if !isAct(fl.Name) {
			names = append(names, fl.Name)
		}
	})
	first := make(map[string]int) // line of a name
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
			lineErr = fmt.Errorf("%s is no setting%s", quoteName(name), Suggest(name, names))
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

// quoteName quotes what may be a misspelled name. Anything else may be a part of a
// secret, from a file or a line that was meant for something else.
func quoteName(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' && r != '_' }) {
		return "what stands there"
	}
	return strconv.Quote(name)
}

// appendSetting appends a line that ParseLine reads.
func appendSetting(dst []byte, name, value string) []byte {
	dst = append(append(dst, name...), " = "...)
	if _, plain, err := ParseLine("x = " + value); err == nil && plain == value && !strings.ContainsAny(value, "\r\n") {
		return append(dst, value...)
	}
	return strconv.AppendQuote(dst, value)
}

// holdsPassword reports whether the URL of a database, or its other form of words
// name=value, has a password in it.
func holdsPassword(database string) bool {
	if u, err := url.Parse(database); err == nil && u.Scheme != "" {
		_, in := u.User.Password()
		return in || u.Query().Has("password")
	}
	return strings.Contains(database, "password")
}
