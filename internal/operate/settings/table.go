package settings

import (
	"encoding"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"outcry/internal/process/memlimit"
)

// Part is a part of the server that can apply a changed setting while it runs.
type Part string

// The parts. A setting without a part needs a restart, and so does one whose part is not registered.
const (
	Process  Part = "process" // always registered
	Memory   Part = "memory"
	HTTP     Part = "http"
	Engine   Part = "engine"
	Sessions Part = "sessions"
	Rates    Part = "rates"
)

// row describes one setting, for flags, --help, the file, the environment, --check-config and reloads.
type row struct {
	flag     string
	at       func(*Config) any // returns a pointer to the value; its type determines the text form
	initial  any               // the default, of that type
	min, max int64             // bounds of a number, or of a duration in nanoseconds; none if both are 0
	reload   Part              // "" if a change needs a restart
	help     string            // help text; the part in back quotes names the value

	act    bool // an action, or the place of the settings; not allowed in a file
	secret bool // the value is never shown
	bytes  bool // a size, parsed by memlimit.ParseBytes
}

// table has every setting. Values are checked in this order.
var table = []row{
	{flag: "listen", at: func(c *Config) any { return &c.Listen }, initial: "127.0.0.1:" + PortXML,
		help: "`address` of the XML protocol over TCP"},
	{flag: "http", at: func(c *Config) any { return &c.HTTP }, initial: "127.0.0.1:" + PortHTTP,
		help: "`address` of the HTTP side: the market page, /api/v1/, /metrics, /healthz, /readyz, /loglevel, POST /xml; " +
			"empty for none"},
	{flag: "data", at: func(c *Config) any { return &c.Data }, initial: "outcry-data",
		help: "`directory` of the journal and of the local Postgres cluster"},
	{flag: "database-url", at: func(c *Config) any { return &c.DatabaseURL }, initial: "", secret: true,
		help: "`URL` of an existing Postgres database, also as DATABASE_URL; empty for a local cluster below " +
			"the data directory"},
	{flag: "database-url-file", at: func(c *Config) any { return &c.databaseURLFile }, initial: "",
		help: "`file` with the URL of the database, which keeps its password out of the environment; also as " +
			"DATABASE_URL_FILE; URL and file from the same place are an error"},
	{flag: "ack", at: func(c *Config) any { return &c.Ack }, initial: AckJournal,
		help: "what a reply waits for: `journal` is the synced journal, postgres is the tables as well"},
	{flag: "bare-replies", at: func(c *Config) any { return &c.BareReplies }, initial: false,
		help: "send replies without their length line, for clients that expect none"},
	{flag: "accept-journal-loss", at: func(c *Config) any { return &c.AcceptJournalLoss }, initial: false,
		help: "start although the journal ends before the database's last record: commands that were answered after it " +
			"and are not in the database are lost"},
	{flag: "log-level", at: func(c *Config) any { return &c.LogLevel }, initial: slog.LevelInfo, reload: Process,
		help: "lowest `level` that is logged: DEBUG, INFO, WARN or ERROR; PUT /loglevel changes it"},

	// Permissions and rates.
	{flag: "auth", at: func(c *Config) any { return &c.Auth }, initial: false,
		help: "require tokens over XML and HTTP; \"outcry token add\" makes them"},
	{flag: "open", at: func(c *Config) any { return &c.Open }, initial: false,
		help: "listen beyond this machine without --auth and --tls-client-ca: anyone who reaches it can trade for anyone"},
	{flag: "probes-open", at: func(c *Config) any { return &c.ProbesOpen }, initial: false,
		help: "answer GET /readyz and /healthz without a token too, with their status and no text: for load balancers " +
			"and Kubernetes, which cannot send one"},
	{flag: "http-hosts", at: func(c *Config) any { return &c.HTTPHosts }, initial: "",
		help: "host `names`, separated by commas, by which clients reach the HTTP side, besides localhost; " +
			"without --auth, requests for other names are refused; IP addresses always work"},
	{flag: "cors-origins", at: func(c *Config) any { return &c.CORSOrigins }, initial: "",
		help: "`origins` such as https://desk.example, separated by commas, whose pages may use the HTTP side's data, XML, " +
			"WebSocket and Binance paths, each exactly as browsers send it; empty for the server's own pages only"},
	{flag: "tls-cert", at: func(c *Config) any { return &c.TLSCert }, initial: "",
		help: "`file` with the server's certificate in PEM, and any intermediate ones: " +
			"XML and HTTP are then served over TLS only"},
	{flag: "tls-key", at: func(c *Config) any { return &c.TLSKey }, initial: "",
		help: "`file` with the certificate's private key in PEM"},
	{flag: "tls-client-ca", at: func(c *Config) any { return &c.TLSClientCA }, initial: "",
		help: "`file` with certificate authorities in PEM: clients need a certificate of one of them; empty for none"},
	{flag: "rate-connection", at: func(c *Config) any { return &c.RateConnection }, initial: 0,
		max: rateMax, reload: Rates,
		help: "`commands` per second of a connection; above it, the connection is read more slowly; 0 for no limit"},
	{flag: "rate-account", at: func(c *Config) any { return &c.RateAccount }, initial: 0, max: rateMax, reload: Rates,
		help: "`orders` and creates per second of an account; above it, they are rejected; 0 for no limit"},

	// The cluster that this server is a node of, if any.
	{flag: "node", at: func(c *Config) any { return &c.Node }, initial: 0,
		help: "`number` of this node in its cluster; 0 for a server without a cluster"},
	{flag: "peers", at: func(c *Config) any { return &c.Peers }, initial: Peers(nil),
		help: "all `nodes` of the cluster as 1=HOST:PORT,2=HOST:PORT,…, the same list everywhere: where they reach each " +
			"other; 3 or 5 are best"},
	{flag: "join", at: func(c *Config) any { return &c.Join }, initial: false,
		help: "a new node waits until a cluster adds it, instead of founding one; no effect later"},
	{flag: "peer-cert", at: func(c *Config) any { return &c.PeerCert }, initial: "",
		help: "`file` with this node's certificate in PEM, for the other nodes; without it all must be on this machine"},
	{flag: "peer-key", at: func(c *Config) any { return &c.PeerKey }, initial: "",
		help: "`file` with the private key of --peer-cert in PEM"},
	{flag: "peer-ca", at: func(c *Config) any { return &c.PeerCA }, initial: "",
		help: "`file` with the certificate authorities in PEM that issue the certificates of nodes"},
	{flag: "advertise-listen", at: func(c *Config) any { return &c.AdvertiseListen }, initial: "",
		help: "`address` of the XML protocol that clients get while another node leads; empty for that of --listen"},
	{flag: "advertise-http", at: func(c *Config) any { return &c.AdvertiseHTTP }, initial: "",
		help: "`address` of the HTTP side that clients get while another node leads; empty for that of --http"},
	{flag: "keep-for-members", at: func(c *Config) any { return &c.KeepForMembers }, initial: int64(4 << 30),
		min: 64 << 20, max: 1 << 50, bytes: true,
		help: "how much of the journal is kept for nodes that lag, in `bytes`; one that lags more is restored"},

	// Limits of clients, and memory.
	{flag: "max-frame", at: func(c *Config) any { return &c.FrameBytesMax }, initial: 4 << 20, min: 64, max: 1 << 30,
		bytes: true,
		help:  "largest frame, in `bytes`"},
	{flag: "max-reply", at: func(c *Config) any { return &c.ReplyBytesMax }, initial: 16 << 20, min: 64, max: 1 << 32,
		bytes: true,
		help:  "largest reply with executions, in `bytes`; queries that need more are rejected"},
	{flag: "max-memory", at: func(c *Config) any { return &c.MemoryMax }, initial: 512 << 20, min: 1 << 20, max: 1 << 50,
		bytes: true,
		help:  "memory for large frames and large replies of all connections together, in `bytes`"},
	{flag: "max-connections", at: func(c *Config) any { return &c.ConnectionsMax }, initial: 16384,
		min: 1, max: 1 << 20, reload: Sessions,
		help: "most number of `connections` of the XML protocol and of WebSocket, together"},
	{flag: "max-http-connections", at: func(c *Config) any { return &c.HTTPConnectionsMax }, initial: 4096,
		min: 1, max: 1 << 20, reload: HTTP,
		help: "maximum HTTP `connections` at a time; idle ones give way to new ones, and a few are reserved for operators"},
	{flag: "max-stream-readers", at: func(c *Config) any { return &c.ReadersMax }, initial: 1000,
		max: 1 << 20, reload: HTTP,
		help: "maximum `readers` of the market data stream at a time"},
	{flag: "max-symbols", at: func(c *Config) any { return &c.SymbolsMax }, initial: 100_000,
		min: 1, max: 1 << 24, reload: Engine,
		help: "maximum `symbols`"},
	{flag: "max-accounts", at: func(c *Config) any { return &c.AccountsMax }, initial: 1_000_000,
		min: 1, max: 1 << 30, reload: Engine,
		help: "maximum `accounts`"},
	{flag: "max-open-orders", at: func(c *Config) any { return &c.OpenOrdersMax }, initial: 4_000_000,
		min: 1, max: 1 << 31, reload: Engine,
		help: "maximum open `orders` of all accounts together; above it, new ones are rejected"},
	{flag: "max-open-orders-account", at: func(c *Config) any { return &c.AccountOpenOrdersMax }, initial: 100_000,
		min: 1, max: 1 << 31, reload: Engine,
		help: "maximum open `orders` of an account; above it, new ones are rejected"},
	{flag: "min-order-value", at: func(c *Config) any { return &c.OrderValueMin }, initial: OrderValue{}, reload: Engine,
		help: "smallest notional (amount × limit) of an order, in `dollars`"},
	{flag: "memory-limit", at: func(c *Config) any { return &c.MemoryLimit }, initial: memlimit.Limit{}, reload: Memory,
		help: "memory near which the garbage collector works harder, in `bytes`; " +
			"auto is 4/5 of the control group's or the machine's, off is no limit. GOMEMLIMIT overrides it; " +
			"GOGC and GOMAXPROCS need no change"},
	{flag: "closed-orders", at: func(c *Config) any { return &c.ClosedOrdersMax }, initial: 100_000,
		min: 1, max: 1 << 32, reload: Engine,
		help: "how many closed `orders` stay in memory once they are in Postgres: the newest, at least this many and " +
			"at most twice as many"},
	{flag: "refs", at: func(c *Config) any { return &c.RefsMax }, initial: 200_000, min: 1, max: 1 << 32,
		help: "about how many `refs` stay in memory once they are in Postgres; older ones are looked up there"},
	{flag: "max-lag", at: func(c *Config) any { return &c.LagMax }, initial: 4_000_000,
		min: 1000, max: 1 << 32, reload: Engine,
		help: "how many `records` Postgres may be behind before orders are rejected; bounds memory while it is down"},
	{flag: "segment", at: func(c *Config) any { return &c.SegmentBytes }, initial: int64(64 << 20),
		min: 1 << 16, max: 1 << 36,
		bytes: true,
		help:  "size of a journal segment file, in `bytes`"},
	{flag: "idle-timeout", at: func(c *Config) any { return &c.IdleTimeout }, initial: 10 * time.Minute,
		min: 1, max: 1 << 62, reload: Sessions,
		help: "how long a connection may be idle"},
	{flag: "frame-timeout", at: func(c *Config) any { return &c.FrameTimeout }, initial: 30 * time.Second,
		min: 1, max: 1 << 62, reload: Sessions,
		help: "how long a frame may take to arrive after its first byte"},
	{flag: "write-timeout", at: func(c *Config) any { return &c.WriteTimeout }, initial: 30 * time.Second,
		min: 1, max: 1 << 62, reload: Sessions,
		help: "how long a client may take to read each 64 KiB of replies"},
	{flag: "stop-timeout", at: func(c *Config) any { return &c.StopTimeout }, initial: 30 * time.Second,
		min: 1, max: 1 << 62, reload: Process,
		help: "how long a stop may take to finish received frames and bring Postgres up to date; " +
			"a local Postgres gets 20 s more"},

	// Actions.
	{flag: "version", at: func(c *Config) any { return &c.ShowVersion }, initial: false, act: true,
		help: "print the version, and exit"},
	{flag: "health", at: func(c *Config) any { return &c.AskHealth }, initial: false, act: true,
		help: "ask the server at --http whether it accepts orders (with --peers: whether it leads or follows), print its " +
			"answer, and exit with status 0 if it does"},
	{flag: "config", at: func(c *Config) any { return &c.file }, initial: "", act: true,
		help: "`file` with settings, one \"name = value\" per line; reloaded on SIGHUP. " +
			"With a - in front of its name, it may be missing"},
	{flag: "check-config", at: func(c *Config) any { return &c.CheckConfig }, initial: false, act: true,
		help: "check all settings, print each with its source, and exit with status 0 if they are valid, else 2; " +
			"starts and changes nothing"},
}

// rateMax bounds the rates. A higher rate would be no limit in practice.
const rateMax = 1_000_000_000

// rowOf returns the row of a flag, which must exist.
func rowOf(flag string) *row {
	return &table[slices.IndexFunc(table, func(r row) bool { return r.flag == flag })]
}

// isAct reports whether a name is the flag of an action, or of the place of the settings. Such a flag must
// not be in a file; only config may be in the environment.
func isAct(name string) bool {
	return slices.ContainsFunc(table, func(r row) bool { return r.act && r.flag == name })
}

// declare adds the flag of a row to f. The flag sets the field of c.
func (r *row) declare(f *flag.FlagSet, c *Config) {
	if r.bytes {
		r.declareBytes(f, c)
		return
	}
	switch at := r.at(c).(type) {
	case *string:
		f.StringVar(at, r.flag, r.initial.(string), r.help)
	case *bool:
		f.BoolVar(at, r.flag, r.initial.(bool), r.help)
	case *int:
		f.IntVar(at, r.flag, r.initial.(int), r.help)
	case *int64:
		f.Int64Var(at, r.flag, r.initial.(int64), r.help)
	case *time.Duration:
		f.DurationVar(at, r.flag, r.initial.(time.Duration), r.help)
	case encoding.TextUnmarshaler:
		f.TextVar(at, r.flag, r.initial.(encoding.TextMarshaler), r.help)
	default:
		panic(fmt.Sprintf("settings: --%s is a %T", r.flag, at))
	}
}

// declareBytes is declare for a size.
func (r *row) declareBytes(f *flag.FlagSet, c *Config) {
	switch at := r.at(c).(type) {
	case *int:
		memlimit.BytesVar(f, at, r.flag, r.initial.(int), r.help)
	case *int64:
		memlimit.BytesVar(f, at, r.flag, r.initial.(int64), r.help)
	default:
		panic(fmt.Sprintf("settings: --%s is a size and a %T", r.flag, at))
	}
}

// number returns the value that the row's bounds apply to.
func (r *row) number(c *Config) int64 {
	switch at := r.at(c).(type) {
	case *int:
		return int64(*at)
	case *int64:
		return *at
	case *time.Duration:
		return int64(*at)
	default:
		panic(fmt.Sprintf("settings: --%s has bounds and is a %T", r.flag, at))
	}
}

// checkBounds returns a *settingError for the first value that is out of bounds.
func (c *Config) checkBounds() error {
	for i := range table {
		r := &table[i]
		if r.min == 0 && r.max == 0 {
			continue
		}
		if value := r.number(c); value < r.min || value > r.max {
			return wrong(r.flag, "%d: must be from %d to %d", value, r.min, r.max)
		}
	}
	return nil
}
