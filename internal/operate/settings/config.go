// Package settings reads the server's settings from flags, the environment and a file,
// checks them, and reads them again while the server runs. One table has all of them:
// flags, --help, the file, bounds, --check-config and what a reload takes over are made
// from its rows. A file is lines of names and values:
//
//	# what limits clients
//	max-frame = 65536         # bytes
//	data      = "/srv/out # cry"
//
// Files with a secret are read here as well, for server and client.
package settings

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"outcry/internal/process/logging"
	"outcry/internal/process/memlimit"
)

// Config is what the flags, the environment and the file of settings say. Each field
// with a flag has a row in the table, which says what it is. Once Parse has returned it,
// it may be read from any goroutine.
type Config struct {
	Listen      string
	HTTP        string // "" for none
	Data        string // absolute
	DatabaseURL string // "" for a local cluster
	Ack         string // AckJournal or AckPostgres

	// Who may do what, and how often.
	Auth           bool
	Open           bool
	ProbesOpen     bool
	HTTPHosts      string
	CORSOrigins    string
	TLSCert        string
	TLSKey         string
	TLSClientCA    string
	RateConnection int
	RateAccount    int

	// The cluster that this server is a node of, if any.
	Node            int   // 0 for none
	Peers           Peers // none, or all nodes with this one
	Join            bool
	PeerCert        string
	PeerKey         string
	PeerCA          string
	AdvertiseListen string // "" for what --listen says
	AdvertiseHTTP   string // "" for what --http says
	KeepForMembers  int64  // bytes

	// What bounds clients, and the memory for them.
	FrameBytesMax        int
	ReplyBytesMax        int
	MemoryMax            int // bytes, of large frames and replies
	ConnectionsMax       int
	HTTPConnectionsMax   int
	ReadersMax           int // of the stream
	SymbolsMax           int
	AccountsMax          int
	OpenOrdersMax        int
	AccountOpenOrdersMax int
	OrderValueMin        OrderValue
	MemoryLimit          memlimit.Limit
	ClosedOrdersMax      int
	RefsMax              int
	LagMax               int // records
	SegmentBytes         int64
	IdleTimeout          time.Duration
	FrameTimeout         time.Duration
	WriteTimeout         time.Duration
	StopTimeout          time.Duration

	BareReplies       bool
	AcceptJournalLoss bool
	LogLevel          slog.Level

	// What to do now, instead of running the exchange.
	ShowVersion bool
	AskHealth   bool
	CheckConfig bool

	// Warnings are about what is allowed, and likely a mistake.
	Warnings []string

	file            string // with the settings
	databaseURLFile string
	args            []string           // the command line, so that all can be read again
	settings        map[string]setting // by the flag's name
}

// AckJournal and AckPostgres are the values of --ack.
const (
	AckJournal  = "journal"
	AckPostgres = "postgres"
)

const usage = `outcryd runs the exchange until SIGINT (Ctrl-C) or SIGTERM.

Usage: outcryd [flags]

Example: outcryd --data /srv/outcry --max-memory 1GiB

Each setting can be a flag, --max-frame 64KiB, a variable of the environment,
OUTCRY_MAX_FRAME=64KiB, or a line of the file that --config names, max-frame = 64KiB. A flag
wins over the environment, which wins over the file. SIGHUP reloads the file: the log says
what has changed, and what needs a restart.

Sizes are in bytes, or in KiB, MiB, GiB or TiB; durations are numbers with ms, s, m or h.

Flags:
`

// printUsage prints --help.
func printUsage(w io.Writer) {
	io.WriteString(w, usage)
	PrintFlags(w, new(Config).flags(), nil)
}

// Flags returns every flag of the server, with its default, for pages and completion.
func Flags() *flag.FlagSet { return new(Config).flags() }

// flags declares every flag, with its default, on a new flag set.
func (c *Config) flags() *flag.FlagSet {
	f := flag.NewFlagSet("outcryd", flag.ContinueOnError)
	for i := range table {
		table[i].declare(f, c)
	}
	return f
}

// JournalDir returns the directory of the journal.
func (c *Config) JournalDir() string { return filepath.Join(c.Data, "journal") }

// ClusterDir returns the directory of the local Postgres cluster.
func (c *Config) ClusterDir() string { return filepath.Join(c.Data, "postgres") }

// frameCost is how many times its bytes a frame may take while it is decoded: one
// that is nothing but short attributes.
const frameCost = 64

// settingError says that a setting has an invalid value.
type settingError struct {
	flag string
	text string // the value, and what is wrong with it
}

// Error names the setting as a flag.
func (e *settingError) Error() string { return "--" + e.flag + " " + e.text }

// wrong returns a *settingError.
func wrong(flag, format string, a ...any) error {
	return &settingError{flag, fmt.Sprintf(format, a...)}
}

// check returns a *settingError for the first setting whose value is invalid.
func (c *Config) check() error {
	if c.Ack != AckJournal && c.Ack != AckPostgres {
		return wrong("ack", "%q: must be %q or %q", c.Ack, AckJournal, AckPostgres)
	}
	if !logging.IsLevel(c.LogLevel) {
		return wrong("log-level", "%s: must be DEBUG, INFO, WARN or ERROR", c.LogLevel)
	}
	if c.Listen == "" {
		return wrong("listen", `"": an address is needed`)
	}
	if err := c.checkSecurity(); err != nil {
		return err
	}
	if err := c.checkBounds(); err != nil {
		return err
	}
	if err := c.checkCluster(); err != nil {
		return err
	}
	if least := frameCost * c.FrameBytesMax; c.MemoryMax < least {
		return wrong("max-memory",
			"%d: must be at least %d, %d times --max-frame: a frame may take so much while it is decoded",
			c.MemoryMax, least, frameCost)
	}
	return nil
}
