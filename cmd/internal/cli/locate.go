package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"outcry/internal/operate/settings"
)

// Located holds where the data and the database of a server are.
type Located struct {
	Data string
	URL  string // URL of the database; "" for the local cluster below Data
}

// locator finds a server's data and database as outcryd does. Flags override the environment, which overrides
// the server's settings file.
type locator struct {
	flags   *flag.FlagSet
	data    string
	url     string
	urlFile string
	config  string
}

// Locating declares the flags that locate the data and the database. The parameter what describes, in the flags'
// help, the database that is used if no flag names one.
func Locating(f *flag.FlagSet, what string) *locator {
	l := &locator{flags: f}
	f.StringVar(&l.data, "data", "outcry-data", "data `directory`, also as OUTCRY_DATA")
	// Secrets must not be the default value of a flag, because --help would print them.
	f.StringVar(&l.url, "database-url", "", "`URL` of the database; empty for "+what+"; also as DATABASE_URL")
	f.StringVar(&l.urlFile, "database-url-file", "", "`file` with that URL, also as DATABASE_URL_FILE")
	f.StringVar(&l.config, "config", "",
		"`file` with the server's settings, also as OUTCRY_CONFIG; with a - in front of its name, it may be missing")
	return l
}

// Find returns the locations. It must be called after the command line is parsed. Flags that the server also has,
// and that are not given, get their values from the environment or the settings file. The error is a *UsageError
// that repeats no value that may be a secret.
func (l *locator) Find() (at Located, err error) {
	given := map[string]bool{}
	l.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["config"] {
		l.config = os.Getenv("OUTCRY_CONFIG")
	}
	file, err := readSettings(l.config)
	if err != nil {
		return at, Usage("--config: " + err.Error())
	}
	if at.URL, err = l.database(given, file); err != nil {
		return at, err
	}
	for _, name := range []string{"data", "max-connections", "max-http-connections", "max-memory", "max-open-orders",
		"max-accounts", "max-symbols", "memory-limit", "segment"} {
		from := "OUTCRY_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		value := os.Getenv(from)
		if value == "" {
			value, from = file[name], l.config+": "+name
		}
		if value == "" || given[name] || l.flags.Lookup(name) == nil {
			continue
		}
		if err := l.flags.Set(name, value); err != nil {
			return at, Usage(fmt.Sprintf("%s = %q: %v", from, value, err))
		}
	}
	at.Data = l.data
	return at, nil
}

// database returns the URL of the database from the first source that has one, or "".
func (l *locator) database(given map[string]bool, file map[string]string) (string, error) {
	for _, source := range []struct {
		url, urlFile           string
		urlGiven, urlFileGiven bool
		names                  [2]string
	}{
		{l.url, l.urlFile, given["database-url"], given["database-url-file"],
			[2]string{"--database-url", "--database-url-file"}},
		{url: eitherOf("OUTCRY_DATABASE_URL", "DATABASE_URL"),
			urlFile: eitherOf("OUTCRY_DATABASE_URL_FILE", "DATABASE_URL_FILE"),
			names:   [2]string{"DATABASE_URL", "DATABASE_URL_FILE"}},
		{url: file["database-url"], urlFile: file["database-url-file"],
			names: [2]string{l.config + ": database-url", "database-url-file"}},
	} {
		hasURL, hasFile := source.urlGiven || source.url != "", source.urlFileGiven || source.urlFile != ""
		switch {
		case hasURL && hasFile:
			return "", Usage(fmt.Sprintf("%s and %s: only one of them can be given", source.names[0], source.names[1]))
		case hasFile:
			secret, err := settings.ReadSecret(source.urlFile)
			if err != nil {
				return "", Usage(fmt.Sprintf("%s: %v", source.names[1], err))
			}
			return secret, nil
		case hasURL:
			return source.url, nil
		}
	}
	return "", nil
}

// eitherOf returns the value of our own environment variable if it is set, even if it is empty, and otherwise the
// value of the common variable, which other programs use too.
func eitherOf(own, common string) string {
	if value, is := os.LookupEnv(own); is {
		return value
	}
	return os.Getenv(common)
}

// readSettings reads the server's settings file, or nothing if path is "". It does not check whether the
// server knows the names. An error names the line, and repeats none of its content.
func readSettings(path string) (map[string]string, error) {
	path, text, err := settings.ReadOptional(path)
	if err != nil {
		return nil, err
	}
	file, number := make(map[string]string), 0
	for line := range bytes.Lines(text) {
		number++
		name, value, err := settings.ParseLine(string(line))
		if _, twice := file[name]; err == nil && twice {
			err = errors.New("the name already has a value in an earlier line")
		}
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, number, err)
		}
		if name != "" {
			file[name] = value
		}
	}
	return file, nil
}

// DataFlag declares the flag --data. It returns a function that returns the flag's value, or that of OUTCRY_DATA if
// the flag is not given.
func DataFlag(f *flag.FlagSet) func() string {
	data := f.String("data", "outcry-data", "data `directory` of the exchange, also as OUTCRY_DATA")
	return func() string {
		if value := os.Getenv("OUTCRY_DATA"); value != "" && !IsGiven(f, "data") {
			return value
		}
		return *data
	}
}
