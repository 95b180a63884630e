package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/jackc/pgx/v5"
)

// CheckURL returns why url cannot be that of a database, without connecting to it: it
// is not one, or a file that it names cannot be read. The error does not show a
// password that is in url.
func CheckURL(database string) error {
	if _, err := pgx.ParseConfig(database); err != nil {
		return fmt.Errorf("postgres: %w", err)
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
