package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"outcry/internal/postgres"
)

// checkTimeout bounds how long --check-config waits for names to be resolved.
const checkTimeout = 10 * time.Second

// printConfig is --check-config: it prints what the server would run with, as a file of
// settings but for secrets, then warnings and what is wrong. It returns the exit status.
func printConfig(ctx context.Context, c *config, stdout, stderr io.Writer) int {
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(c.settings)) {
		s := c.settings[name]
		if slices.Contains(acts, name) || s.derived {
			continue
		}
		fmt.Fprintf(table, "%s\t# %s\n", appendSetting(nil, name, shown(name, s.value)), s.origin)
	}
	if err := table.Flush(); err != nil {
		return exitUsage
	}
	for _, warning := range c.warnings {
		fmt.Fprintf(stderr, "outcryd: warning: %s\n", warning)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if err := c.inspect(ctx); err != nil {
		fmt.Fprintf(stderr, "outcryd: %s\n", strings.ReplaceAll(err.Error(), "\n", "\noutcryd: "))
		return exitUsage
	}
	return exitOK
}

// shown returns the value of a setting as people may see it.
func shown(name, value string) string {
	if value != "" && slices.Contains(secrets, name) {
		return "…"
	}
	return value
}

// inspect looks whether the settings fit the machine, and changes nothing. The error
// has a line for each that does not. It does not say that a start will do: an address
// may be in use, and a database away.
func (c *config) inspect(ctx context.Context) error {
	return errors.Join(
		inspectAddress(ctx, "listen", c.listen),
		inspectAddress(ctx, "http", c.http),
		c.inspectBothAddresses(),
		inspectDirectory("data", c.data),
		c.inspectDatabase(),
	)
}

// inspectAddress returns why an address cannot be listened on: it is none, or its name
// cannot be resolved.
func inspectAddress(ctx context.Context, flag, address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	if err == nil && host != "" {
		_, err = net.DefaultResolver.LookupHost(ctx, host)
	}
	if err != nil {
		return fmt.Errorf("--%s %q: %w", flag, address, err)
	}
	return nil
}

// inspectBothAddresses refuses one address for two listeners.
func (c *config) inspectBothAddresses() error {
	if _, port, err := net.SplitHostPort(c.listen); err == nil && port != "0" && c.listen == c.http {
		return fmt.Errorf("--http %q: is the address of --listen too", c.http)
	}
	return nil
}

// inspectDirectory returns why a directory cannot be written to, or made.
func inspectDirectory(flag, path string) error {
	there, err := os.Stat(path)
	parent := path
	for errors.Is(err, os.ErrNotExist) && parent != filepath.Dir(parent) {
		parent = filepath.Dir(parent)
		there, err = os.Stat(parent)
	}
	switch {
	case err != nil:
		return fmt.Errorf("--%s %q: %w", flag, path, err)
	case !there.IsDir():
		return fmt.Errorf("--%s %q: %s is not a directory", flag, path, parent)
	}
	if err := unix.Access(parent, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("--%s %q: %s cannot be written to: %w", flag, path, parent, err)
	}
	return nil
}

// inspectDatabase returns why the URL of the database is none. It does not connect.
func (c *config) inspectDatabase() error {
	if c.databaseURL == "" {
		return nil
	}
	if err := postgres.CheckURL(c.databaseURL); err != nil {
		return fmt.Errorf("--database-url: %w", err)
	}
	return nil
}
