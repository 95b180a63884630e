// Package remote is the operators' interface to a running exchange over HTTP: the answers under /admin/, and
// a client. Numbers of shares are exact decimals, and times are seconds since the Unix epoch, as in the
// protocol.
package remote

// Halt says since when and why a symbol accepts no orders.
type Halt struct {
	Time   int64  `json:"time"`
	Reason string `json:"reason"`
}

// HaltAnswer is the answer to a halt and to a resume.
type HaltAnswer struct {
	Sym     string `json:"sym"`
	Changed bool   `json:"changed"`          // false if the symbol was already halted, or already accepted orders
	Halted  *Halt  `json:"halted,omitempty"` // the present halt, nil if the symbol accepts orders
	Ended   *Halt  `json:"ended,omitempty"`  // the halt that was ended
}

// CancelAllAnswer is the answer to a cancel of all open orders of an account.
type CancelAllAnswer struct {
	Account string       `json:"account"`
	Time    int64        `json:"time"`
	Orders  int          `json:"orders"`
	Symbols []CanceledIn `json:"symbols"` // by name; empty if no order was open
}

// CanceledIn is what was canceled in one symbol.
type CanceledIn struct {
	Sym    string `json:"sym"`
	Orders int    `json:"orders"`
	Shares string `json:"shares"`
}

// ErrorAnswer is the answer if a request was not executed, or if that is unknown.
type ErrorAnswer struct {
	Error string `json:"error"`
}

// Status is an overview for operators.
type Status struct {
	Version       string  `json:"version"`
	UptimeSeconds float64 `json:"uptime_seconds"`
	Ready         bool    `json:"ready"`         // the exchange accepts orders
	Why           string  `json:"why,omitempty"` // why it does not
	// Disk is that of the data directory; nil if unknown.
	Disk *Disk `json:"disk,omitempty"`
	// MemoryBytes is the memory that the process has obtained from the operating system.
	MemoryBytes uint64 `json:"memory_bytes"`
	// Exchange is nil while the exchange starts or stops.
	Exchange *Exchange `json:"exchange,omitempty"`
}

// Disk is a file system, in bytes.
type Disk struct {
	Available uint64 `json:"available_bytes"`
	Size      uint64 `json:"size_bytes"`
}

// Exchange is the part of a Status that exists only while the exchange runs.
type Exchange struct {
	Journal  Journal  `json:"journal"`
	Postgres Postgres `json:"postgres"`
	// Load is nil if it is unknown: in the first second, or without market data.
	Load *Load `json:"load,omitempty"`

	Accounts      int64 `json:"accounts"`
	Symbols       int64 `json:"symbols"`
	OpenOrders    int64 `json:"open_orders"`
	HaltedSymbols int64 `json:"halted_symbols"`
	// Halted lists the halted symbols by name, up to HaltedMost. It is empty while the halts are not durable and so
	// must not be shown.
	Halted []HaltedSymbol `json:"halted,omitempty"`
	// MarketData is the reason why there is no market data; empty if there is.
	MarketData string `json:"market_data,omitempty"`
}

// HaltedMost is the largest number of halted symbols that a Status lists.
const HaltedMost = 100

// HaltedSymbol is a symbol that accepts no orders.
type HaltedSymbol struct {
	Sym string `json:"sym"`
	Halt
}

// Journal is the state of the journal. Appended and Synced are numbers of records.
type Journal struct {
	Appended  uint64 `json:"appended"`
	Synced    uint64 `json:"synced"`
	Segments  int    `json:"segments"`
	RoomBytes int64  `json:"room_bytes"`        // room in segments that are ready
	NoRoom    string `json:"no_room,omitempty"` // why the next segment cannot be made
}

// Postgres is the state of the database and its lag behind the journal.
type Postgres struct {
	Up         bool    `json:"up"`
	Applied    uint64  `json:"applied"`
	LagRecords uint64  `json:"lag_records"`
	LagSeconds float64 `json:"lag_seconds"`
}

// Load is the load of about the last second.
type Load struct {
	OrdersPerSecond   float64 `json:"orders_per_second"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	P50Seconds        float64 `json:"p50_seconds"` // half of the requests took at most this long
	P99Seconds        float64 `json:"p99_seconds"`
	Connections       int     `json:"connections"`
	// Limits lists the limits that clients have run into since the start, the latest first.
	Limits []LimitHit `json:"limits,omitempty"`
}

// LimitHit is a limit that clients have run into, with the name that outcry_limit_hits_total uses.
type LimitHit struct {
	Limit string `json:"limit"`
	Count uint64 `json:"count"` // since the start
	Last  int64  `json:"last"`  // time of the last hit, to the second
}
