package engine

import (
	"context"
	"time"

	"outcry/internal/exchange"
	"outcry/internal/journal/trail"
)

// Options configure an Engine. A limit of 0 means its default.
type Options struct {
	Journal Log
	State   *exchange.State // the state after the journal's last record; New takes ownership
	// Standby replaces State: it holds the state and the other data of a standby. It must have applied the
	// journal's last record. New takes ownership of its contents and closes the Standby.
	Standby *Standby
	// Projection and History access the database. Without a Projection there is no lag, and no closed order and no
	// ref leaves memory. Without a History, orders and refs that memory does not hold are unknown.
	Projection Projection
	History    History
	Now        func() int64 // nanoseconds since the Unix epoch; nil means the system clock
	// OnStages is called for one in 16 calls of Execute, in the caller's goroutine. waited is the time that the commands
	// spent on the way to the owners of their symbols and back, including pacing; worked is the time that the owners
	// worked on them. nil disables the measurement.
	OnStages func(waited, worked time.Duration)

	// Readers returns nil if every voting node of the cluster can read version 4 of events, otherwise an error
	// that says why not; commands that need a record of that version are then rejected. It is called for each
	// such command and must not block. nil means that all nodes can.
	Readers func() error

	// Trail passes events to the followers of the journal; nil if nothing follows it. It must be the Journal's trail.
	Trail *trail.Trail[exchange.KeptEvent]

	// OrdersAfter, if it is above the state's last order id, is the id after which new order ids start.
	OrdersAfter uint64

	AckPostgres bool // Durable waits for the Projection as well as for the journal
	InboxLen    int  // tasks that may wait at a shard before sessions block; default 256
	SymbolsMax  int  // symbols; default 100,000
	// ClosedOrdersMax is how many projected closed orders are kept in memory, or up to twice
	// as many if they closed recently; default 100,000.
	ClosedOrdersMax int
	RefsMax         int // approximate number of projected refs kept in memory; default 200,000
	BacklogMax      int // records that the projection may lag before orders are rejected; default 4,000,000

	AccountsMax          int           // accounts; default 1,000,000
	OpenOrdersMax        int           // open orders of all accounts together; default 4,000,000
	AccountOpenOrdersMax int           // open orders of one account; default 100,000
	OrderValueMin        exchange.Cash // minimum amount × limit of an order; default 0
}

func (o *Options) setDefaults() {
	if o.Now == nil {
		o.Now = func() int64 { return time.Now().UnixNano() }
	}
	for _, limit := range []struct {
		value    *int
		standard int
	}{
		{&o.InboxLen, 256},
		{&o.ClosedOrdersMax, 100_000},
		{&o.RefsMax, 200_000},
		{&o.BacklogMax, 4_000_000},
	} {
		if *limit.value == 0 {
			*limit.value = limit.standard
		}
	}
}

// notBefore makes the clock return at least last, the latest time of any record so far. The records may
// be from another machine whose clock was ahead, or this machine's clock may have been set back.
func (o *Options) notBefore(last int64) {
	if clock := o.Now; last > 0 {
		o.Now = func() int64 { return max(clock(), last) }
	}
}

// History looks up orders and refs that memory no longer holds.
type History interface {
	// Order returns an order that is closed and projected, with up to most of its
	// executions after skipping the first after. found is false if there is no such order. An
	// error means that the lookup failed.
	Order(ctx context.Context, id exchange.OrderID, after, most int) (o exchange.ClosedOrder, found bool, err error)
	// Refs returns the uses of those keys that are used and projected; the others are missing from the map. An error
	// means that the lookup failed.
	Refs(ctx context.Context, keys []exchange.RefKey) (map[exchange.RefKey]exchange.RefUse, error)
	// OrderAtFirst returns an order as it was right after its own records, without later changes, with up to
	// most of its executions as a taker. found and the error are those of Order.
	OrderAtFirst(ctx context.Context, id exchange.OrderID, most int) (o exchange.ClosedOrder, found bool, err error)
	// Newest returns the newest order of the chain that begins with first; that is first itself if nothing has
	// replaced it. An error means that the lookup failed.
	Newest(ctx context.Context, first exchange.OrderID) (exchange.OrderID, error)
	// EachRef calls f for every ref that is projected, in any order, until f returns
	// false. After an error some refs may be missing.
	EachRef(ctx context.Context, f func(exchange.RefKey) bool) error
}

// Projection is the database tables that follow the journal.
type Projection interface {
	// Applied returns the seq up to which all records are committed.
	Applied() uint64
	// WaitApplied returns nil once seq is committed, or an error that says why it will not be, which may be ctx's.
	WaitApplied(ctx context.Context, seq uint64) error
}
