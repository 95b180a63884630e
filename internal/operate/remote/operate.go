// Package remote is how an operator changes and looks at a running exchange over HTTP:
// what it answers under /admin/, and a client that asks it. Shares are exact decimals,
// times are seconds since the Unix epoch, as in the protocol.
package remote

// Halt says since when and why a symbol takes no orders.
type Halt struct {
	Time   int64  `json:"time"`
	Reason string `json:"reason"`
}

// HaltAnswer is the answer to a halt and to its end.
type HaltAnswer struct {
	Sym     string `json:"sym"`
	Changed bool   `json:"changed"`          // false if the symbol was halted before, or took orders before
	Halted  *Halt  `json:"halted,omitempty"` // the halt that holds now, nil if the symbol takes orders
	Ended   *Halt  `json:"ended,omitempty"`  // the halt that was ended
}

// CancelAllAnswer is the answer to a cancel of all that an account has open.
type CancelAllAnswer struct {
	Account string       `json:"account"`
	Time    int64        `json:"time"`
	Orders  int          `json:"orders"`
	Symbols []CanceledIn `json:"symbols"` // in order of their names; none if nothing was open
}

// CanceledIn is what was canceled of one symbol.
type CanceledIn struct {
	Sym    string `json:"sym"`
	Orders int    `json:"orders"`
	Shares string `json:"shares"`
}

// ErrorAnswer is the answer if nothing was done, or if that is not known.
type ErrorAnswer struct {
	Error string `json:"error"`
}

// Status is what an operator wants to know first.
type Status struct {
	Version       string  `json:"version"`
	UptimeSeconds float64 `json:"uptime_seconds"`
	Ready         bool    `json:"ready"`         // takes orders
	Why           string  `json:"why,omitempty"` // why not
	// Disk is that of the data directory; nil if it cannot be asked.
	Disk *Disk `json:"disk,omitempty"`
	// MemoryBytes is what the process has of the system.
	MemoryBytes uint64 `json:"memory_bytes"`
	// Exchange is nil while it starts or stops.
	Exchange *Exchange `json:"exchange,omitempty"`
}

// Disk is a file system, in bytes.
type Disk struct {
	Available uint64 `json:"available_bytes"`
	Size      uint64 `json:"size_bytes"`
}

// Exchange is a Status' part of what is there only while the exchange runs.
type Exchange struct {
	Journal  Journal  `json:"journal"`
	Postgres Postgres `json:"postgres"`
	// Load is nil if it is not known: in the first second, or without market data.
	Load *Load `json:"load,omitempty"`

	Accounts      int64 `json:"accounts"`
	Symbols       int64 `json:"symbols"`
	OpenOrders    int64 `json:"open_orders"`
	HaltedSymbols int64 `json:"halted_symbols"`
	// Halted are these, in order of their names, HaltedMost at the most; none if they
	// may not be told yet, since they are not durable.
	Halted []HaltedSymbol `json:"halted,omitempty"`
	// MarketData says why there is none; empty if there is.
	MarketData string `json:"market_data,omitempty"`
}

// HaltedMost is how many halted symbols a Status names.
const HaltedMost = 100

// HaltedSymbol is a symbol that takes no orders.
type HaltedSymbol struct {
	Sym string `json:"sym"`
	Halt
}

// Journal tells how far the journal is, by the numbers of records.
type Journal struct {
	Appended  uint64 `json:"appended"`
	Synced    uint64 `json:"synced"`
	Segments  int    `json:"segments"`
	RoomBytes int64  `json:"room_bytes"`        // in segments that are ready
	NoRoom    string `json:"no_room,omitempty"` // why the next segment cannot be made
}

// Postgres tells how far the tables are behind.
type Postgres struct {
	Up         bool    `json:"up"`
	Applied    uint64  `json:"applied"`
	LagRecords uint64  `json:"lag_records"`
	LagSeconds float64 `json:"lag_seconds"`
}

// Load is what the exchange did in the last second or so.
type Load struct {
	OrdersPerSecond   float64 `json:"orders_per_second"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	P50Seconds        float64 `json:"p50_seconds"` // half of the requests took so long at the most
	P99Seconds        float64 `json:"p99_seconds"`
	Connections       int     `json:"connections"`
	// Limits are those that clients have run into since the start, the latest first.
	Limits []LimitHit `json:"limits,omitempty"`
}

// LimitHit is a limit that clients have run into, as outcry_limit_hits_total names it.
type LimitHit struct {
	Limit string `json:"limit"`
	Count uint64 `json:"count"` // since the start
	Last  int64  `json:"last"`  // when, to a second
}
