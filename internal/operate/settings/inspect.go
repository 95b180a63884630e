package settings

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
)

// checkTimeout bounds how long --check-config waits for names to be resolved.
const checkTimeout = 10 * time.Second

// Checks are the checks of --check-config that the server provides, because they need the journal, backups and
// Postgres. Both are required.
type Checks struct {
	// Data returns an error if a server must not start with the present contents of the data directory.
	Data func(*Config) error
	// DatabaseURL returns an error if a URL of a database is malformed. It does not connect.
	DatabaseURL func(url string) error
}

// Print does --check-config. It prints the settings in the format of a file, except for secrets, and then the
// warnings and errors. It reports whether there are no errors.
func (c *Config) Print(ctx context.Context, checks Checks, stdout, stderr io.Writer) bool {
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(c.settings)) {
		s := c.settings[name]
		if isAct(name) || s.derived {
			continue
		}
		fmt.Fprintf(table, "%s\t# %s\n", appendSetting(nil, name, shown(name, s.value)), s.origin)
	}
	if err := table.Flush(); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := c.inspect(ctx, checks)
	for _, warning := range c.Warnings {
		fmt.Fprintf(stderr, "outcryd: warning: %s\n", warning)
	}
	if err != nil {
		fmt.Fprintf(stderr, "outcryd: %s\n", strings.ReplaceAll(err.Error(), "\n", "\noutcryd: "))
		return false
	}
	return true
}

// shown returns the value of a setting, but hides a secret.
func shown(name, value string) string {
	if value != "" && rowOf(name).secret {
		return "…"
	}
	return value
}

// inspect checks whether the settings fit the machine, and adds warnings. It changes nothing else. The error
// has one line for each problem. Without an error a start may still fail: an address may be in use, or the
// database unavailable.
func (c *Config) inspect(ctx context.Context, checks Checks) error {
	data := inspectDirectory("data", c.Data)
	if data == nil {
		data = errors.Join(checks.Data(c), c.inspectTokens())
	}
	if b := c.Connections(); b.Lowered {
		c.Warnings = append(c.Warnings, fmt.Sprintf(
			"%s: of %d files, %d are reserved, so --max-connections is %d and --max-http-connections %d",
			ConnectionsLowered, b.Files, DescriptorReserve, b.XML, b.HTTP))
	}
	if excess := c.Excess(); excess != "" {
		c.Warnings = append(c.Warnings, excess)
	}
	return errors.Join(
		c.inspectExposure(ctx),
		inspectAddress(ctx, "listen", c.Listen),
		inspectAddress(ctx, "http", c.HTTP),
		c.inspectBothAddresses(),
		data,
		c.inspectCertificates(),
		c.inspectDatabase(checks),
	)
}

// inspectExposure returns the error with which a start would refuse to listen on the addresses, and adds warnings
// about unprotected ports.
func (c *Config) inspectExposure(ctx context.Context) error {
	xml, http := addressOf(ctx, c.Listen), addressOf(ctx, c.HTTP)
	if err := c.RefuseOpen(xml, http); err != nil {
		return err
	}
	for _, e := range c.Exposures(xml, http) {
		c.Warnings = append(c.Warnings, e.String())
	}
	return nil
}

// addressOf returns an address that a start would listen on and that other machines may reach. It returns nil if
// there is none, or if that is unknown.
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

// inspectAddress returns an error if an address is malformed or its name cannot be resolved.
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

// inspectBothAddresses returns an error if both listeners have the same address.
func (c *Config) inspectBothAddresses() error {
	if _, port, err := net.SplitHostPort(c.Listen); err == nil && port != "0" && c.Listen == c.HTTP {
		return fmt.Errorf("--http %q: same address as --listen", c.HTTP)
	}
	return nil
}

// inspectDirectory returns an error if a directory cannot be written to, or made.
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

// inspectCertificates returns an error if a start would refuse the files for TLS. It adds a warning if
// clients would refuse the certificate.
func (c *Config) inspectCertificates() error {
	if c.TLSCert == "" {
		return nil
	}
	certificates, err := auth.LoadCertificates(c.TLSCert, c.TLSKey, c.TLSClientCA, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	if err := certificates.Unfit(); err != nil {
		c.Warnings = append(c.Warnings, fmt.Sprintf("--tls-cert: %s: clients are likely to refuse it", err))
	}
	return nil
}

// inspectTokens returns an error if a start would refuse the file of tokens. It adds a warning if there is no
// valid token.
func (c *Config) inspectTokens() error {
	if !c.Auth {
		return nil
	}
	all, err := auth.List(c.Data)
	if err != nil {
		return fmt.Errorf("--auth: %w", err)
	}
	now := time.Now()
	if !slices.ContainsFunc(all, func(e auth.Entry) bool { return e.Expires.IsZero() || now.Before(e.Expires) }) {
		c.Warnings = append(c.Warnings, NoTokenYet)
	}
	return nil
}

// NoTokenYet is the warning of a server that requires tokens if there are none.
const NoTokenYet = "there is no token yet, so no client can connect; " +
	"`outcry token add` makes one, even while the exchange runs"

// inspectDatabase returns an error if the URL of the database is malformed. It does not connect.
func (c *Config) inspectDatabase(checks Checks) error {
	if c.DatabaseURL == "" {
		return nil
	}
	if err := checks.DatabaseURL(c.DatabaseURL); err != nil {
		return fmt.Errorf("--database-url: %w", err)
	}
	return nil
}
