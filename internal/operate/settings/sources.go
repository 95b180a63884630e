package settings

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is a place that settings come from. A higher one takes precedence.
type source int

const (
	fromDefault source = iota
	fromFile
	fromEnvironment
	fromFlag
)

// setting is the value of a flag and where it comes from.
type setting struct {
	value  string // in the form that the flag prints
	source source
	origin string // origin for messages: "default", "/etc/outcryd.conf:3", "OUTCRY_DATA" or "--data"

	derived bool // computed from another setting, which is shown instead
}

// given is a flag's value from one source.
type given struct {
	flag, value, origin string
}

// foreign lists variables with our prefix that are not settings: they belong to other programs of this
// module.
var foreign = []string{AgainVariable, "OUTCRY_ADDR", "OUTCRY_HTTP_ADDR", "OUTCRY_CLIENT_CERT", "OUTCRY_CLIENT_KEY",
	"OUTCRY_INSECURE_TOKEN", "OUTCRY_TLS_CA", "OUTCRY_TOKEN", "OUTCRY_TOKEN_FILE"}

// variable returns the name of a flag's environment variable.
func variable(flag string) string {
	return "OUTCRY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// LineError means that the command line itself is wrong, so that its usage should be shown.
type LineError struct{ err error }

// Error says what is wrong with the command line.
func (e *LineError) Error() string { return e.err.Error() }

// Unwrap returns the cause, such as flag.ErrHelp.
func (e *LineError) Unwrap() error { return e.err }

// Parse reads the settings from the file, the environment and the arguments. The error names the flag, the
// variable, or the file and its line, and quotes the value unless it may be a secret. It is a *LineError if
// the command line is wrong; if that wraps flag.ErrHelp, help was requested and has been printed.
func Parse(args []string, help io.Writer) (*Config, error) {
	// Parse the command line first, because it may name the file.
	line := new(Config)
	flags := line.flags()
	words, err := ParseFlags(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		printUsage(help)
	}
	if err == nil && len(words) > 0 {
		// Do not quote them: one may be a token, or a database's address with its password.
		err = fmt.Errorf("unexpected arguments (%d): every setting is a flag", len(words))
	}
	if err != nil {
		return nil, &LineError{err}
	}
	if line.ShowVersion {
		return line, nil
	}
	c := &Config{args: args, settings: make(map[string]setting)}
	all := c.flags()
	environment, unknown := readEnvironment(all, os.Environ())
	c.Warnings = unknown
	file := line.file
	for _, g := range environment {
		if g.flag == "config" && !isGiven(flags, "config") {
			file = g.value
		}
	}
	lines, err := readConfigFile(file, all)
	if err == nil {
		err = c.set(all, fromFile, lines)
	}
	if err == nil {
		err = c.set(all, fromEnvironment, environment)
	}
	if err != nil {
		return nil, err
	}
	if _, err := ParseFlags(all, args); err != nil {
		return nil, err
	}
	flags.Visit(func(f *flag.Flag) { c.settings[f.Name] = setting{source: fromFlag, origin: "--" + f.Name} })
	if err := c.complete(); err != nil {
		return nil, err
	}
	c.storeValues(all)
	return c, nil
}

// isGiven reports whether a flag was on the command line.
func isGiven(f *flag.FlagSet, name string) (given bool) {
	f.Visit(func(fl *flag.Flag) { given = given || fl.Name == name })
	return given
}

// readEnvironment returns the flags that the environment sets. It returns a warning for each other variable
// with our prefix. This is not an error, because programs that start services add variables, such as
// OUTCRY_PORT for a service named outcry.
func readEnvironment(f *flag.FlagSet, environ []string) (all []given, warnings []string) {
	flags := make(map[string]string) // by variable
	f.VisitAll(func(fl *flag.Flag) {
		if fl.Name == "config" || !isAct(fl.Name) {
			flags[variable(fl.Name)] = fl.Name
		}
	})
	names := slices.Sorted(maps.Keys(flags))
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch fl, known := flags[name]; {
		case known:
			all = append(all, given{fl, value, name})
		case name == "DATABASE_URL" && value != "":
			all = append(all, given{"database-url", value, name})
		case name == "DATABASE_URL_FILE" && value != "":
			all = append(all, given{"database-url-file", value, name})
		case strings.HasPrefix(name, "OUTCRY_") && !slices.Contains(foreign, name):
			warnings = append(warnings, fmt.Sprintf("%s is not a setting%s", name, Suggest(name, names)))
		}
	}
	// Variables without our prefix sort first, so that ours take precedence.
	slices.SortStableFunc(all, func(a, b given) int { return strings.Compare(a.origin, b.origin) })
	slices.Sort(warnings)
	return all, warnings
}

// set sets flags to the values from a source. Its error covers all invalid values.
func (c *Config) set(f *flag.FlagSet, from source, all []given) (err error) {
	for _, g := range all {
		if wrong := f.Set(g.flag, g.value); wrong != nil {
			what := fmt.Sprintf("%s=%q", g.origin, g.value)
			if from == fromFile {
				what = fmt.Sprintf("%s: %s = %q", g.origin, g.flag, g.value)
			}
			err = errors.Join(err, fmt.Errorf("%s: %w", what, explain(f.Lookup(g.flag), wrong)))
		}
		c.settings[g.flag] = setting{source: from, origin: g.origin}
	}
	return err
}

// complete computes settings that depend on others, and checks all settings.
func (c *Config) complete() (err error) {
	if err := c.findDatabase(); err != nil {
		return err
	}
	data, err := filepath.Abs(c.Data)
	if err != nil {
		return fmt.Errorf("--data %q: %w", c.Data, err)
	}
	c.Data = data
	if err = c.completeAddresses(); err == nil {
		err = c.check()
	}
	if wrong, ok := errors.AsType[*settingError](err); ok {
		if s := c.settings[wrong.flag]; s.source == fromFile || s.source == fromEnvironment {
			return fmt.Errorf("%s: %w", s.origin, err)
		}
	}
	return err
}

// completeAddresses adds the default port to addresses without a port. It leaves an empty address unchanged. The error
// is a *settingError.
func (c *Config) completeAddresses() error {
	for _, a := range []struct {
		flag, port string
		at         *string
	}{
		{"listen", PortXML, &c.Listen}, {"http", PortHTTP, &c.HTTP},
		{"advertise-listen", PortXML, &c.AdvertiseListen}, {"advertise-http", PortHTTP, &c.AdvertiseHTTP},
	} {
		if *a.at == "" {
			continue
		}
		whole, err := Address(*a.at, a.port)
		if err != nil {
			return wrong(a.flag, "%q: %v", *a.at, err)
		}
		*a.at = whole
	}
	return nil
}

// findDatabase sets DatabaseURL from whichever of its two settings has the higher source, and ignores the
// other one.
func (c *Config) findDatabase() error {
	url, file := c.settings["database-url"], c.settings["database-url-file"]
	switch {
	case c.databaseURLFile == "":
		if url.source == fromFile && holdsPassword(c.DatabaseURL) {
			c.warnReadable(strings.TrimPrefix(c.file, OptionalMark))
		}
		return nil
	case url.source > file.source:
		c.databaseURLFile = ""
		return nil
	case url.source == file.source:
		return fmt.Errorf("%s and %s: only one of them can be given", url.origin, file.origin)
	}
	secret, err := ReadSecret(c.databaseURLFile)
	if err != nil {
		return fmt.Errorf("%s: --database-url-file: %w", file.origin, err)
	}
	c.warnReadable(c.databaseURLFile)
	c.DatabaseURL = secret
	c.settings["database-url"] = setting{source: file.source, origin: file.origin, derived: true}
	return nil
}

// warnReadable adds a warning if everyone on the machine can read a file with a secret.
func (c *Config) warnReadable(path string) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
		c.Warnings = append(c.Warnings,
			fmt.Sprintf("%s holds a password, and everyone on this machine can read it: chmod o-r", path))
	}
}

// storeValues stores the value of each flag, for output and for comparison by a reload.
func (c *Config) storeValues(f *flag.FlagSet) {
	f.VisitAll(func(fl *flag.Flag) {
		s, ok := c.settings[fl.Name]
		if !ok {
			s.origin = "default"
		}
		s.value = fl.Value.String()
		c.settings[fl.Name] = s
	})
}

// Suggest returns the end of a sentence with the known name that is most similar to an unknown one, "" if
// none is similar.
func Suggest(name string, known []string) string {
	nearest, distance := "", len(name)/3+2
	for _, k := range known {
		if d := editDistance(name, k); d < distance {
			nearest, distance = k, d
		}
	}
	if nearest == "" {
		return ""
	}
	return "; is " + nearest + " meant?"
}

// editDistance returns how many bytes must be changed, inserted or deleted to turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // distances from the part of a read so far to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if a[i] != b[j] {
				d = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}
