// Package settings reads the server's settings from flags, the environment and a file, checks them, and
// reloads them while the server runs. All settings are rows of one table, from which flags, --help, the
// file's format, bounds, --check-config and the reloadable settings are made. A file has lines of names and
// values:
//
//	# what limits clients
//	max-frame = 65536         # bytes
//	data      = "/srv/out # cry"
//
// The package also reads files with a secret, for the server and the client.
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

// Config has the settings from the flags, the environment and the file. Each field with a flag has a row in
// the table, which explains it. After Parse has returned a Config, it may be read from any goroutine.
type Config struct {
	Listen      string
	HTTP        string // "" for none
	Data        string // absolute
	DatabaseURL string // "" for a local cluster
	Ack         string // AckJournal or AckPostgres

	// Permissions and rates.
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
	Peers           Peers // empty, or all nodes including this one
	Join            bool
	PeerCert        string
	PeerKey         string
	PeerCA          string
	AdvertiseListen string // "" for the address of --listen
	AdvertiseHTTP   string // "" for the address of --http
	KeepForMembers  int64  // bytes

	// Limits on clients and memory.
	FrameBytesMax        int
	ReplyBytesMax        int
	MemoryMax            int // bytes, for large frames and replies
	ConnectionsMax       int
	HTTPConnectionsMax   int
	ReadersMax           int // of the market data stream
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

	// Actions other than running the exchange.
	ShowVersion bool
	AskHealth   bool
	CheckConfig bool

	// Warnings are about settings that are valid but probably a mistake.
	Warnings []string

	file            string // the file of settings
	databaseURLFile string
	args            []string           // the command line, for a reload
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
overrides the environment, which overrides the file. SIGHUP reloads the file: the log says
what has changed, and what needs a restart.

Sizes are in bytes, or in KiB, MiB, GiB or TiB; durations are numbers with ms, s, m or h.

Flags:
`

// printUsage prints --help.
func printUsage(w io.Writer) {
	io.WriteString(w, usage)
	PrintFlags(w, new(Config).flags(), nil)
}

// Flags returns every flag of the server with its default, for generated pages and shell completion.
func Flags() *flag.FlagSet { return new(Config).flags() }

// flags declares every flag with its default on a new flag set.
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

// frameCost is the most memory that decoding a frame may need, as a multiple of the frame's size. A frame
// that consists of short attributes needs most.
const frameCost = 64

// settingError means that a setting has an invalid value.
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
			"%d: must be at least %d, %d times --max-frame: a frame may need that much while it is decoded",
			c.MemoryMax, least, frameCost)
	}
	return nil
}
