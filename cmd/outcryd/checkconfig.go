package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"outcry/internal/auth"
	"outcry/internal/backup"
	"outcry/internal/journal"
	"outcry/internal/operate"
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
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := c.inspect(ctx)
	for _, warning := range c.warnings {
		fmt.Fprintf(stderr, "outcryd: warning: %s\n", warning)
	}
	if err != nil {
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

// inspect looks whether the settings fit the machine, and adds warnings. It changes
// nothing else. The error has a line for each that does not fit. It does not say that a
// start will do: an address may be in use, and a database away.
func (c *config) inspect(ctx context.Context) error {
	data := inspectDirectory("data", c.data)
	if data == nil {
		data = errors.Join(c.inspectData(), c.inspectTokens())
	}
	if b := c.connectionsWithin(openFilesMax()); b.lowered {
		c.warnings = append(c.warnings, fmt.Sprintf("%s: of %d, after a reserve of %d, --max-connections are %d and --max-http-connections %d",
			connectionsLowered, b.files, operate.DescriptorReserve, b.xml, b.http))
	}
	if excess := c.excess(); excess != "" {
		c.warnings = append(c.warnings, excess)
	}
	return errors.Join(
		c.inspectExposure(ctx),
		inspectAddress(ctx, "listen", c.listen),
		inspectAddress(ctx, "http", c.http),
		c.inspectBothAddresses(),
		data,
		c.inspectCertificates(),
		c.inspectDatabase(),
	)
}

// inspectExposure returns why a start would refuse the addresses, and warns of what is
// not protected.
func (c *config) inspectExposure(ctx context.Context) error {
	xml, http := addressOf(ctx, c.listen), addressOf(ctx, c.http)
	if err := c.refuseOpen(xml, http); err != nil {
		return err
	}
	for _, e := range c.exposures(xml, http) {
		c.warnings = append(c.warnings, e.String())
	}
	return nil
}

// addressOf returns what a start would listen on, nil where that is not known: one
// beyond this machine where a name has several.
func addressOf(ctx context.Context, address string) net.Addr {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	if host == "" {
		return &net.TCPAddr{IP: net.IPv4zero}
	}
	all, _ := net.DefaultResolver.LookupIPAddr(ctx, host)
	for _, a := range all {
		if !a.IP.IsLoopback() {
			return &net.TCPAddr{IP: a.IP}
		}
	}
	return nil
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

// inspectData returns why no server may start on what is in the data directory.
func (c *config) inspectData() error {
	if err := backup.Unfinished(c.data); err != nil {
		return err
	}
	return journal.CheckVersion(c.journalDir())
}

// inspectCertificates returns why a start would not take the files for TLS, and warns of
// a certificate that clients would not.
func (c *config) inspectCertificates() error {
	if c.tlsCert == "" {
		return nil
	}
	certificates, err := auth.LoadCertificates(c.tlsCert, c.tlsKey, c.tlsClientCA, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	if err := certificates.Unfit(); err != nil {
		c.warnings = append(c.warnings, fmt.Sprintf("--tls-cert: %s: clients are likely to refuse it", err))
	}
	return nil
}

// inspectTokens returns why a start would not take the file of tokens, and warns where
// there is no token.
func (c *config) inspectTokens() error {
	if !c.auth {
		return nil
	}
	all, err := auth.List(c.data)
	if err != nil {
		return fmt.Errorf("--auth: %w", err)
	}
	now := time.Now()
	if !slices.ContainsFunc(all, func(e auth.Entry) bool { return e.Expires.IsZero() || now.Before(e.Expires) }) {
		c.warnings = append(c.warnings, noTokenYet)
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
