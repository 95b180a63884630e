package settings

import (
	"math"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"outcry/internal/exchange"
	"outcry/internal/operate/remote"
	"outcry/internal/process/memlimit"
)

// OrderValue is an amount of cash as a setting.
type OrderValue exchange.Cash

// UnmarshalText reads a decimal of 0 or more. The error says why a text is none.
func (d *OrderValue) UnmarshalText(text []byte) error {
	cash, err := exchange.ParseBalance(text)
	if err != nil {
		return orderValueError(strings.TrimPrefix(err.Error(), "balance "))
	}
	*d = OrderValue(cash)
	return nil
}

// MarshalText returns what UnmarshalText reads.
func (d OrderValue) MarshalText() ([]byte, error) { return exchange.Cash(d).Append(nil), nil }

// orderValueError says why a setting is no amount of dollars.
type orderValueError string

func (e orderValueError) Error() string { return string(e) }

// needs returns the bounds of what takes memory.
func (c *Config) needs() memlimit.Needs {
	return memlimit.Needs{
		OpenOrders: c.OpenOrdersMax, Accounts: c.AccountsMax, Symbols: c.SymbolsMax, Large: int64(c.MemoryMax),
	}
}

// Excess says that the bounds do not fit the memory that the server is to use, "" if
// they do. GOMEMLIMIT, which wins over --memory-limit, is for the runtime to read.
func (c *Config) Excess() string {
	limit, of := c.MemoryLimit.Bytes(os.ReadFile)
	if os.Getenv("GOMEMLIMIT") != "" {
		limit, of = debug.SetMemoryLimit(-1), "GOMEMLIMIT"
	}
	return c.needs().Excess(limit, of)
}

// ConnectionBounds are how many connections there may be of the XML port and of the HTTP
// side: --max-connections and --max-http-connections, or less if the process may not
// have so many files open.
type ConnectionBounds struct {
	XML, HTTP int
	Files     uint64 // that the process may have open
	Lowered   bool
}

// ConnectionsLowered is the warning of bounds that are lower than what was asked for.
const ConnectionsLowered = "the limit of open files leaves room for fewer connections than the settings allow; " +
	"raise ulimit -n, or LimitNOFILE= of a unit"

// Connections returns the bounds for this process.
func (c *Config) Connections() ConnectionBounds { return c.connectionsWithin(openFilesMax()) }

// connectionsWithin returns the bounds for a process that may have so many files open.
func (c *Config) connectionsWithin(files uint64) ConnectionBounds {
	asked := c.HTTPConnectionsMax
	if c.HTTP == "" {
		asked = 0
	}
	b := ConnectionBounds{Files: files}
	b.XML, b.HTTP = remote.ConnectionsWithin(files, c.ConnectionsMax, asked)
	b.Lowered = b.XML != c.ConnectionsMax || b.HTTP != asked
	return b
}

// openFilesMax returns how many files the process may have open. It is what the limit
// allows at the most: the runtime has raised it.
func openFilesMax() uint64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return math.MaxUint64
	}
	return uint64(limit.Cur)
}
