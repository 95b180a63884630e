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

// CheckURL returns why url cannot be that of a database, without connecting to it: it
// is not one, or a file that it names cannot be read. The error does not show a
// password that is in url.
func CheckURL(database string) error {
	if _, err := pgx.ParseConfig(database); err != nil {
		return fmt.Errorf("postgres: %w", WithoutURL(err))
	}
	u, err := url.Parse(database)
	if err != nil || !u.Query().Has("passfile") {
		return nil // the other form, of words
	}
	// The driver takes a missing one for no password.
	file, err := os.Open(u.Query().Get("passfile"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("postgres: passfile: %w", err)
	}
	if err == nil {
		err = file.Close()
	}
	return err
}

// WithoutURL returns an error of the driver's for a URL that it cannot read, without the
// URL: which part of a wrong one is the password, nobody can tell. It keeps what the
// driver calls the mistake, and the error of a file. Other errors are returned as they
// are.
func WithoutURL(err error) error {
	wrong, ok := errors.AsType[*pgconn.ParseConfigError](err)
	if !ok {
		return err
	}
	text := wrong.Error()
	text = text[strings.LastIndex(text, "`: ")+len("`: "):] // the URL is before it
	text, _, _ = strings.Cut(text, " (")                    // of what is in the URL
	if file, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("cannot parse the URL of the database: %s: %w", text, file)
	}
	return fmt.Errorf("cannot parse the URL of the database: %s", text)
}
