package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"time"

	"outcry/internal/admin"
)

// config is what the flags, the environment and the file of settings say.
type config struct {
	listen      string
	http        string
	data        string
	databaseURL string
	ack         string

	frameBytesMax  int
	replyBytesMax  int
	memoryMax      int
	connectionsMax int
	idleTimeout    time.Duration
	frameTimeout   time.Duration
	writeTimeout   time.Duration
	stopTimeout    time.Duration
	bareReplies    bool
	readersMax     int

	httpConnectionsMax int

	security
	bounds

	closedOrdersMax int
	refsMax         int
	lagMax          int
	segmentBytes    int64

	acceptJournalLoss bool
	logLevel          slog.Level
	showVersion       bool
	askHealth         bool

	configFile      string
	checkConfig     bool
	databaseURLFile string

	args     []string           // the command line, so that all can be read again
	settings map[string]setting // by the flag's name
	warnings []string           // about what is allowed, and likely a mistake
}

// ackJournal and ackPostgres are the values of --ack.
const (
	ackJournal  = "journal"
	ackPostgres = "postgres"
)

const usage = `outcryd runs the exchange.

Usage: outcryd [flags]

Each setting can be given as a flag, --max-frame 65536, in the environment,
OUTCRY_MAX_FRAME=65536, and in the file that --config names, max-frame = 65536. A
flag wins over the environment, which wins over the file. SIGHUP has the file read
again: the log says what changed, and what needs a restart.

Flags:
`

// flags declares every flag, with its default, on a new flag set.
func (c *config) flags(stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("outcryd", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&c.listen, "listen", "127.0.0.1:12345", "`address` of the XML protocol over TCP")
	f.StringVar(&c.http, "http", "127.0.0.1:8080", "`address` of the HTTP side: the market page, /api/v1/, /metrics, /healthz, /readyz, /loglevel, POST /xml; empty for none")
	f.StringVar(&c.data, "data", "outcry-data", "`directory` of the journal and of the local Postgres cluster")
	f.StringVar(&c.databaseURL, "database-url", "", "`URL` of an existing Postgres database; empty for a local cluster below the data directory (default $DATABASE_URL)")
	f.StringVar(&c.databaseURLFile, "database-url-file", "", "`file` that holds the URL of the database, so that its password is nowhere else (default $DATABASE_URL_FILE)")
	f.StringVar(&c.ack, "ack", ackJournal, "what a reply waits for: \"journal\", or \"postgres\" as well")
	f.IntVar(&c.frameBytesMax, "max-frame", 4<<20, "largest frame, in `bytes`")
	f.IntVar(&c.replyBytesMax, "max-reply", 16<<20, "most `bytes` of a reply that tells executions; queries beyond are refused")
	f.IntVar(&c.memoryMax, "max-memory", 512<<20, "`bytes` of memory that large frames and large replies of all connections take together")
	f.IntVar(&c.connectionsMax, "max-connections", 16384, "most TCP `connections` at a time")
	f.DurationVar(&c.idleTimeout, "idle-timeout", 10*time.Minute, "how long a connection may send nothing")
	f.DurationVar(&c.frameTimeout, "frame-timeout", 30*time.Second, "how long a frame may take to arrive once it has begun")
	f.DurationVar(&c.writeTimeout, "write-timeout", 30*time.Second, "how long a client may leave replies untaken")
	f.DurationVar(&c.stopTimeout, "stop-timeout", 30*time.Second, "how long a stop may take to finish frames and bring Postgres up to date")
	f.BoolVar(&c.bareReplies, "bare-replies", false, "leave the length line out of replies, for clients of that habit")
	f.IntVar(&c.httpConnectionsMax, "max-http-connections", 4096, "most HTTP `connections` at a time; idle ones give way to new ones, and operators have some of their own")
	f.IntVar(&c.readersMax, "max-stream-readers", 1000, "most `readers` of the market data stream at a time")
	c.bounds.flags(f)
	f.IntVar(&c.closedOrdersMax, "closed-orders", 100_000, "closed `orders` kept in memory once they are in Postgres; up to twice as many of the newest")
	f.IntVar(&c.refsMax, "refs", 200_000, "`refs` of clients kept in memory once they are in Postgres, roughly; older ones are looked up there")
	f.IntVar(&c.lagMax, "max-lag", 4_000_000, "`records` that Postgres may be behind before orders are refused; bounds memory while it is away")
	f.Int64Var(&c.segmentBytes, "segment", 64<<20, "size of a journal segment, in `bytes`")
	f.BoolVar(&c.acceptJournalLoss, "accept-journal-loss", false, "start although the journal does not reach the database's last record: what was answered after it and is not in the database is lost")
	f.TextVar(&c.logLevel, "log-level", slog.LevelInfo, "lowest `level` that is logged: DEBUG, INFO, WARN, ERROR; PUT /loglevel changes it")
	f.BoolVar(&c.showVersion, "version", false, "print the version and exit")
	f.BoolVar(&c.askHealth, "health", false, "ask the server at --http whether it takes orders, print its answer and exit, with status 0 where it does")
	f.StringVar(&c.configFile, "config", "", "`file` with settings, a line \"name = value\" for each; read again at SIGHUP. With a - before its name it need not be there")
	f.BoolVar(&c.checkConfig, "check-config", false, "check all settings, print them and where each comes from, and exit, with status 0 where nothing is wrong, else 2; starts and changes nothing")
	c.security.flags(f)
	f.Usage = func() {
		fmt.Fprint(stderr, usage)
		f.PrintDefaults()
	}
	return f
}

// frameCost is how many times its bytes a frame may take while it is decoded: one
// that is nothing but short attributes.
const frameCost = 64

// settingError says that a setting has a value that cannot be.
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

// check returns a *settingError for the first setting whose value cannot be.
func (c *config) check() error {
	if c.ack != ackJournal && c.ack != ackPostgres {
		return wrong("ack", "%q: must be %q or %q", c.ack, ackJournal, ackPostgres)
	}
	if !admin.IsLevel(c.logLevel) {
		return wrong("log-level", "%s: must be DEBUG, INFO, WARN or ERROR", c.logLevel)
	}
	if c.listen == "" {
		return wrong("listen", `"": an address is needed`)
	}
	if err := c.security.check(); err != nil {
		return err
	}
	for _, limit := range []struct {
		flag     string
		value    int64
		min, max int64
	}{
		{"max-frame", int64(c.frameBytesMax), 64, 1 << 30},
		{"max-reply", int64(c.replyBytesMax), 64, 1 << 32},
		{"max-memory", int64(c.memoryMax), 1 << 20, 1 << 50},
		{"max-connections", int64(c.connectionsMax), 1, 1 << 20},
		{"max-http-connections", int64(c.httpConnectionsMax), 1, 1 << 20},
		{"max-stream-readers", int64(c.readersMax), 0, 1 << 20},
		{"max-symbols", int64(c.symbolsMax), 1, 1 << 24},
		{"max-accounts", int64(c.accountsMax), 1, 1 << 30},
		{"max-open-orders", int64(c.openOrdersMax), 1, 1 << 31},
		{"max-open-orders-account", int64(c.accountOpenOrdersMax), 1, 1 << 31},
		{"closed-orders", int64(c.closedOrdersMax), 1, 1 << 32},
		{"refs", int64(c.refsMax), 1, 1 << 32},
		{"max-lag", int64(c.lagMax), 1000, 1 << 32},
		{"segment", c.segmentBytes, 1 << 16, 1 << 36},
		{"idle-timeout", int64(c.idleTimeout), 1, 1 << 62},
		{"frame-timeout", int64(c.frameTimeout), 1, 1 << 62},
		{"write-timeout", int64(c.writeTimeout), 1, 1 << 62},
		{"stop-timeout", int64(c.stopTimeout), 1, 1 << 62},
	} {
		if limit.value < limit.min || limit.value > limit.max {
			return wrong(limit.flag, "%d: must be from %d to %d", limit.value, limit.min, limit.max)
		}
	}
	if least := frameCost * c.frameBytesMax; c.memoryMax < least {
		return wrong("max-memory", "%d: must be at least %d, %d times --max-frame: a frame may take so much while it is decoded", c.memoryMax, least, frameCost)
	}
	return nil
}
