package settings

import (
	"math"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"outcry/internal/exchange"
	"outcry/internal/process/memlimit"
)

// OrderValue is a setting that is an amount of cash.
type OrderValue exchange.Cash

// UnmarshalText parses a decimal of 0 or more. The error says what is wrong with the text.
func (d *OrderValue) UnmarshalText(text []byte) error {
	cash, err := exchange.ParseBalance(text)
	if err != nil {
		return orderValueError(strings.TrimPrefix(err.Error(), "balance "))
	}
	*d = OrderValue(cash)
	return nil
}

// MarshalText returns the text that UnmarshalText parses.
func (d OrderValue) MarshalText() ([]byte, error) { return exchange.Cash(d).Append(nil), nil }

// orderValueError explains why a setting is not an amount of dollars.
type orderValueError string

func (e orderValueError) Error() string { return string(e) }

// needs returns the bounds that determine the memory that the server needs.
func (c *Config) needs() memlimit.Needs {
	return memlimit.Needs{
		OpenOrders: c.OpenOrdersMax, Accounts: c.AccountsMax, Symbols: c.SymbolsMax, Large: int64(c.MemoryMax),
	}
}

// Excess returns a message if the bounds need more memory than the server may use, otherwise "". GOMEMLIMIT
// takes precedence over --memory-limit, and is read by the runtime.
func (c *Config) Excess() string {
	limit, of := c.MemoryLimit.Bytes(os.ReadFile)
	if os.Getenv("GOMEMLIMIT") != "" {
		limit, of = debug.SetMemoryLimit(-1), "GOMEMLIMIT"
	}
	return c.needs().Excess(limit, of)
}

// ConnectionBounds are the limits of connections to the XML port and to the HTTP side: --max-connections and
// --max-http-connections, or less if the process may not open enough files.
type ConnectionBounds struct {
	XML, HTTP int
	Files     uint64 // number of files that the process may open
	Lowered   bool
}

// ConnectionsLowered is the warning if these limits are lower than the settings.
const ConnectionsLowered = "the limit of open files leaves room for fewer connections than the settings allow; " +
	"raise ulimit -n, or LimitNOFILE= of a unit"

// Connections returns the limits for this process.
func (c *Config) Connections() ConnectionBounds { return c.connectionsWithin(openFilesMax()) }

// connectionsWithin returns the limits for a process that may open the given number of files.
func (c *Config) connectionsWithin(files uint64) ConnectionBounds {
	asked := c.HTTPConnectionsMax
	if c.HTTP == "" {
		asked = 0
	}
	b := ConnectionBounds{Files: files}
	b.XML, b.HTTP = ConnectionsWithin(files, c.ConnectionsMax, asked)
	b.Lowered = b.XML != c.ConnectionsMax || b.HTTP != asked
	return b
}

// DescriptorReserve is the number of file descriptors that clients cannot use: 64 for the journal, Postgres
// and the watching of files, 32 for operators and health checks, and 64 for connections over the limit while
// they get their error.
const DescriptorReserve = 160

// ConnectionsWithin returns how many connections to the XML port and to the HTTP side a server may have that
// may open the given number of files. These are the requested numbers, or, so that DescriptorReserve is left,
// smaller ones in the same proportion. The result is at least 1 for each that was requested above 0.
func ConnectionsWithin(files uint64, xml, http int) (int, int) {
	left := uint64(0)
	if files > DescriptorReserve {
		left = files - DescriptorReserve
	}
	all := uint64(xml) + uint64(http)
	if all <= left {
		return xml, http
	}
	of := func(asked int) int { return max(min(asked, 1), int(uint64(asked)*left/all)) }
	return of(xml), of(http)
}

// openFilesMax returns how many files the process may open. The runtime has already raised the soft limit to
// the hard one.
func openFilesMax() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}
