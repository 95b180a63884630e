package engine

import (
	"context"
	"time"

	"outcry/internal/exchange"
)

// History answers for orders that memory no longer holds.
type History interface {
	// Order returns an order that is closed and projected, with up to most of its
	// executions, those behind the first after. found is false where there is none. An
	// error means that it could not be asked.
	Order(ctx context.Context, id exchange.OrderID, after, most int) (o exchange.ClosedOrder, found bool, err error)
	// Refs returns what those refs were used for that are projected; the others are
	// missing. An error means that it could not be asked.
	Refs(ctx context.Context, keys []exchange.RefKey) (map[exchange.RefKey]exchange.RefUse, error)
	// OrderAtFirst returns an order as it was right after its own records, whatever became of it later, with up to
	// most of the executions that it took. found and the error are those of Order.
	OrderAtFirst(ctx context.Context, id exchange.OrderID, most int) (o exchange.ClosedOrder, found bool, err error)
	// Newest returns the newest order of the chain that one begins: that one if none has replaced it. An error means
	// that it could not be asked.
	Newest(ctx context.Context, first exchange.OrderID) (exchange.OrderID, error)
	// EachRef calls f for every ref that is projected, in any order, until f returns
	// false. An error means that it does not know whether those were all.
	EachRef(ctx context.Context, f func(exchange.RefKey) bool) error
}

// Projection is the database that follows the journal.
type Projection interface {
	// Applied returns the seq up to which everything is committed.
	Applied() uint64
	// WaitApplied returns once seq is committed, or with the reason why it will
	// not be, ctx's end among them.
	WaitApplied(ctx context.Context, seq uint64) error
}

// Options are what an Engine needs. The zero value of a limit means its default.
type Options struct {
	Journal Log
	State   *exchange.State // the state after the journal's last record; the engine takes it over
	// Standby has State instead, and what else a standby has gathered. It has applied the
	// journal's last record. The engine takes everything over, and the Standby is closed.
	Standby *Standby
	// Projection and History are the database. Without a Projection nothing
	// lags and nothing leaves memory; without a History what memory does not
	// hold is unknown.
	Projection Projection
	History    History
	Now        func() int64 // nanoseconds since the Unix epoch; nil means the clock
	// OnStages is called for one in 16 calls of Execute, by its caller, with how long its
	// commands were on their way to the owners of their symbols and back, pacing
	// included, and how long those worked on them; nil means that it is not measured.
	OnStages func(waited, worked time.Duration)

	// Readers returns nil if every node of the cluster that takes part in its decisions reads version 4
	// of events, or why not: then what would write such a record is refused. nil means that all do. It is
	// called for each such command, and does not wait.
	Readers func() error

	// OrdersAfter is an id above which order ids go on, where it is above the state's.
	OrdersAfter uint64

	AckPostgres bool // Durable waits for the Projection as well as for the journal
	InboxLen    int  // tasks that wait at a shard before a session has to wait; 256
	SymbolsMax  int  // symbols; 100,000
	// ClosedOrdersMax is how many closed orders are kept in memory once they are projected,
	// up to twice as many of the newest; 100,000.
	ClosedOrdersMax int
	RefsMax         int // refs kept in memory, roughly, once the projection has them; 200,000
	BacklogMax      int // records that the projection may lag before orders are refused; 4,000,000

	AccountsMax          int           // 1,000,000
	OpenOrdersMax        int           // of all accounts; 4,000,000
	AccountOpenOrdersMax int           // 100,000
	OrderValueMin        exchange.Cash // amount × limit of an order; 0
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

// neverBefore keeps the clock from showing a time before the latest of all records so far: another
// machine's clock, or this one's before it was set back, may have been ahead.
func (o *Options) neverBefore(last int64) {
	if clock := o.Now; last > 0 {
		o.Now = func() int64 { return max(clock(), last) }
	}
}
