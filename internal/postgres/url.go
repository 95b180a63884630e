package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// CheckURL returns why database cannot be the URL of a database, without connecting to it: it is malformed, or
// a file that it names cannot be read. The error does not contain a password from the URL.
func CheckURL(database string) error {
	if _, err := pgx.ParseConfig(database); err != nil {
		return fmt.Errorf("postgres: %w", WithoutURL(err))
	}
	u, err := url.Parse(database)
	if err != nil || !u.Query().Has("passfile") {
		return nil // keyword/value form
	}
	// The driver treats a missing password file as no password.
	file, err := os.Open(u.Query().Get("passfile"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("postgres: passfile: %w", err)
	}
	if err == nil {
		err = file.Close()
	}
	return err
}

// WithoutURL removes the URL from a driver's error about a malformed URL, since it is unclear which part of it
// is the password. The driver's description and the error of a file are kept. Other errors are returned
// unchanged.
func WithoutURL(err error) error {
	wrong, ok := errors.AsType[*pgconn.ParseConfigError](err)
	if !ok {
		return err
	}
	text := wrong.Error()
	text = text[strings.LastIndex(text, "`: ")+len("`: "):] // the URL comes before this mark
	text, _, _ = strings.Cut(text, " (")                    // details that quote the URL
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("cannot parse the URL of the database: %s: %w", text, file)
	}
	return fmt.Errorf("cannot parse the URL of the database: %s", text)
}
