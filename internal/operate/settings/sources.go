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

// source is a place that settings come from. A higher one wins.
type source int

const (
	fromDefault source = iota
	fromFile
	fromEnvironment
	fromFlag
)

// setting is the value of a flag, and where it comes from.
type setting struct {
	value  string // as the flag prints it
	source source
	origin string // for people: "default", "/etc/outcryd.conf:3", "OUTCRY_DATA" or "--data"

	derived bool // from another setting, which is shown instead
}

// given is what a source says of one flag.
type given struct {
	flag, value, origin string
}

// foreign are variables that begin like ours and are for other programs of ours.
var foreign = []string{AgainVariable, "OUTCRY_ADDR", "OUTCRY_HTTP_ADDR", "OUTCRY_CLIENT_CERT", "OUTCRY_CLIENT_KEY",
	"OUTCRY_INSECURE_TOKEN", "OUTCRY_TLS_CA", "OUTCRY_TOKEN", "OUTCRY_TOKEN_FILE"}

// variable returns the name of a flag in the environment.
func variable(flag string) string {
	return "OUTCRY_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// LineError says that the command line itself is wrong, so that its usage helps.
type LineError struct{ err error }

// Error says what is wrong with it.
func (e *LineError) Error() string { return e.err.Error() }

// Unwrap returns flag.ErrHelp if help was asked for.
func (e *LineError) Unwrap() error { return e.err }

// Parse reads the file of settings, the environment and the arguments. The error
// names the flag, the variable, or the file and its line, and the value unless that may
// be a secret; it is a *LineError if the command line is wrong. flag.ErrHelp means that
// help was asked for, and has been printed.
func Parse(args []string, help io.Writer) (*Config, error) {
	// What the command line has is known first: it names the file.
	line := new(Config)
	flags := line.flags()
	words, err := ParseFlags(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		printUsage(help)
	}
	if err == nil && len(words) > 0 {
		// Not which: it may be a token, or a database's address with its password.
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
	c.note(all)
	return c, nil
}

// isGiven reports whether a flag was on the command line.
func isGiven(f *flag.FlagSet, name string) (given bool) {
	f.Visit(func(fl *flag.Flag) { given = given || fl.Name == name })
	return given
}

// readEnvironment returns what the environment says of flags, and a warning for each
// variable that begins like ours and is none. That is no error: those who start services
// give them variables of their own, OUTCRY_PORT for a service of this name.
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
			warnings = append(warnings, fmt.Sprintf("%s is no setting%s", name, Suggest(name, names)))
		}
	}
	// Names that others use as well come before our own, which win.
	slices.SortStableFunc(all, func(a, b given) int { return strings.Compare(a.origin, b.origin) })
	slices.Sort(warnings)
	return all, warnings
}

// set sets flags as a source says. It returns an error for each invalid value.
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

// complete works out what follows from other settings, and checks all of them.
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

// completeAddresses gives a port to the addresses that have none; an empty one stays. The
// error is a *settingError.
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

// findDatabase takes the URL of the database from the higher source of the two
// settings for it. The other one is as if it were not there.
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

// warnReadable warns of a file with a secret that everybody on the machine can read.
func (c *Config) warnReadable(path string) {
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o004 != 0 {
		c.Warnings = append(c.Warnings,
			fmt.Sprintf("%s holds a password, and everyone on this machine can read it: chmod o-r", path))
	}
}

// note keeps the value of each flag, as people and a later comparison see it.
func (c *Config) note(f *flag.FlagSet) {
	f.VisitAll(func(fl *flag.Flag) {
		s, ok := c.settings[fl.Name]
		if !ok {
			s.origin = "default"
		}
		s.value = fl.Value.String()
		c.settings[fl.Name] = s
	})
}

// Suggest returns the end of a sentence that names the known name nearest to an unknown
// one, "" if none is near.
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

// editDistance returns how many bytes have to be changed, put in or taken out to make
// b of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // distances of the part of a so far to each front of b
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
