package postgres

import (
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"outcry/internal/exchange"
)

// This file describes every table of the schema except the one with its version. A new column needs a
// migration, a line here, and the field that holds it. The writer, loads, the history, the reader of records
// and backups then include it. Code that reads or writes a column by its own SQL expression (write.go) must be
// changed by hand.

// stateRow is the row of exchange_state.
type stateRow struct {
	Position
	one          bool
	epoch        uint64
	historyAfter uint64
	exactAfter   uint64
	// numberedAfter is the last record from before schema 10: executions up to it have no numbers, cancels no
	// reason, and orders no ref.
	numberedAfter uint64
	time          int64 // the latest time of all records
}

var exchangeState = &table[stateRow]{"exchange_state", []column[stateRow]{
	boolean("one", func(s *stateRow) *bool { return &s.one }),
	bigint("applied_seq", func(s *stateRow) *uint64 { return &s.Applied }),
	bigint("epoch", func(s *stateRow) *uint64 { return &s.epoch }),
	readOnly("journal_id", "uuid", func(s *stateRow) any {
		return uuidScan(func(v pgtype.UUID) { s.Journal = v.Bytes })
	}).mayBeNull(),
	text("ack", func(s *stateRow) *string { return &s.Ack }),
	bigint("history_after", func(s *stateRow) *uint64 { return &s.historyAfter }),
	bigint("orders_after", func(s *stateRow) *uint64 { return &s.OrdersAfter }),
	bigint("exact_after", func(s *stateRow) *uint64 { return &s.exactAfter }),
	bigint("numbered_after", func(s *stateRow) *uint64 { return &s.numberedAfter }),
	bigint("time_ns", func(s *stateRow) *int64 { return &s.time }),
}}

// accountRow is a row of accounts.
type accountRow struct {
	exchange.AccountState
	seq   uint64
	rules exchange.AccountRules
}

// state returns the account as a snapshot holds it.
func (a *accountRow) state() exchange.AccountState {
	s := a.AccountState
	if s.Rules = nil; a.rules != (exchange.AccountRules{}) {
		rules := a.rules
		s.Rules = &rules
	}
	return s
}

var accountTable = &table[accountRow]{"accounts", slices.Concat([]column[accountRow]{
	text("id", func(a *accountRow) *exchange.AccountID { return &a.ID }),
	cash("opened", func(a *accountRow) *exchange.Cash { return &a.Opened }),
	cash("balance", func(a *accountRow) *exchange.Cash { return &a.Balance }),
	cash("held", func(a *accountRow) *exchange.Cash { return &a.Held }),
	bigint("seq", func(a *accountRow) *uint64 { return &a.seq }).orNull(),
	bigint("fills", func(a *accountRow) *uint64 { return &a.Fills }),
}, accountRules, []column[accountRow]{
	bigint("n", func(a *accountRow) *uint64 { return &a.Events }),
})}

// newAccounts has the columns that are written when an account is opened.
var newAccounts = accountTable.pick("id", "opened", "balance", "held", "seq", "fills", "n")

// symbolRow is a row of symbols.
type symbolRow struct {
	exchange.SymbolState
	seq uint64
}

var symbolTable = &table[symbolRow]{"symbols", append([]column[symbolRow]{
	text("sym", func(s *symbolRow) *exchange.Symbol { return &s.Symbol }),
	position("placed", func(s *symbolRow) *exchange.Position { return &s.Deposited }),
	bigint("seq", func(s *symbolRow) *uint64 { return &s.seq }).orNull(),
	readOnly("halted_at", "bigint", func(s *symbolRow) any {
		return intScan(func(v pgtype.Int8) {
			if s.Halt = nil; v.Valid {
				s.Halt = &exchange.Halt{Since: v.Int64 * exchange.Second}
			}
		})
	}).mayBeNull(),
	readOnly("halt_reason", "text", func(s *symbolRow) any {
		return textScan(func(v pgtype.Text) {
			if s.Halt != nil { // set by halted_at, which is scanned first
				s.Halt.Reason = v.String
			}
		})
	}).mayBeNull(),
	readOnly("halted_nanos", "integer", func(s *symbolRow) any {
		return intScan(func(v pgtype.Int8) {
			if s.Halt != nil {
				s.Halt.Since += v.Int64
			}
		})
	}).mayBeNull(),
}, symbolRules...)}

var positionTable = &table[exchange.PositionState]{"positions", []column[exchange.PositionState]{
	text("sym", func(p *exchange.PositionState) *exchange.Symbol { return &p.Symbol }),
	text("account", func(p *exchange.PositionState) *exchange.AccountID { return &p.Account }),
	position("shares", func(p *exchange.PositionState) *exchange.Position { return &p.Shares }),
	position("held", func(p *exchange.PositionState) *exchange.Position { return &p.Held }),
}}

var marketTable = &table[exchange.TradedState]{"market", []column[exchange.TradedState]{
	text("sym", func(t *exchange.TradedState) *exchange.Symbol { return &t.Symbol }),
	bigint("trades", func(t *exchange.TradedState) *uint64 { return &t.Trades }),
	position("shares", func(t *exchange.TradedState) *exchange.Position { return &t.Shares }),
	readOnly("notional", "numeric", func(t *exchange.TradedState) any { return (*notionalColumn)(&t.Notional) }),
	readOnly("last_price", "numeric", func(t *exchange.TradedState) any { return (*priceColumn)(&t.Last) }),
	seconds("last_time", func(t *exchange.TradedState) *int64 { return &t.Time }),
	nanos("last_nanos", func(t *exchange.TradedState) *int64 { return &t.Time }, nil),
}}

// restingRow is a row of resting_orders. A batch has one for each of its orders that rests, so it has no other fields.
type restingRow struct {
	ID      exchange.OrderID
	Account exchange.AccountID
	Symbol  exchange.Symbol
	exchange.Terms
	Shares, Open exchange.Shares
	OnDisconnect bool
	amended      bool // an amend changed the order
	renamed      bool // an amend only gave the order a ref

	exchange.Changes // number of shares by which amends reduced the order, and the time of the last one
}

// state returns the order as a snapshot holds it.
func (o *restingRow) state() exchange.OrderState {
	s := exchange.OrderState{ID: o.ID, Account: o.Account, Symbol: o.Symbol, Terms: o.Terms, Shares: o.Shares,
		Open: o.Open, OnDisconnect: o.OnDisconnect}
	if o.amended {
		s.Lineage = &exchange.Lineage{First: o.ID, Changes: o.Changes}
	}
	return s
}

// instructions returns what the column of that name has.
func (o *restingRow) instructions() int16 {
	v := packInstructions(&o.Terms, 0, o.OnDisconnect, o.amended)
	if o.renamed {
		v |= renamedBit
	}
	return v
}

var restingTable = &table[restingRow]{"resting_orders", []column[restingRow]{
	bigint("id", func(o *restingRow) *exchange.OrderID { return &o.ID }),
	text("account", func(o *restingRow) *exchange.AccountID { return &o.Account }),
	text("sym", func(o *restingRow) *exchange.Symbol { return &o.Symbol }),
	amount("amount", func(o *restingRow) (*exchange.Side, *exchange.Shares) { return &o.Side, &o.Shares }),
	bigint("limit_price", func(o *restingRow) *exchange.Price { return &o.Limit }),
	bigint("open", func(o *restingRow) *exchange.Shares { return &o.Open }),
	smallintOf("instructions",
		(*restingRow).instructions,
		func(o *restingRow, v int16) {
			_, o.OnDisconnect, o.amended = unpackInstructions(v, &o.Terms)
			o.renamed = v&renamedBit != 0
		}),
	bigint("reduced", func(o *restingRow) *exchange.Shares { return &o.Reduced }).orNull(),
	bigint("reduced_at_ns", func(o *restingRow) *int64 { return &o.ReducedAt }).orNull(),
}}

// record is a row of a table that keeps the journal's records: an event with the fields that the table has. A
// read leaves Kind unset; the reader knows it from the table.
type record struct {
	exchange.Event
	seq uint64

	n     int32 // place of a cancel among several of its record; 0 for a single cancel
	last  int32 // last execution of a further part of an order
	whole bool  // the row's time is in whole seconds

	called exchange.Ref         // ref in order_log and amend_log; Event.Ref is the ref in the table refs
	why    exchange.WhyCanceled // reason of a cancel
}

var placementLog = &table[record]{"placement_log", []column[record]{
	bigint("seq", func(r *record) *uint64 { return &r.seq }),
	text("sym", func(r *record) *exchange.Symbol { return &r.Symbol }),
	text("account", func(r *record) *exchange.AccountID { return &r.Account }),
	position("shares", func(r *record) *exchange.Position { return &r.Deposited }),
}}

var orderLog = &table[record]{"order_log", []column[record]{
	bigint("id", func(r *record) *exchange.OrderID { return &r.Order }),
	text("account", func(r *record) *exchange.AccountID { return &r.Account }),
	text("sym", func(r *record) *exchange.Symbol { return &r.Symbol }),
	amount("amount", func(r *record) (*exchange.Side, *exchange.Shares) { return &r.Side, &r.Shares }),
	bigint("limit_price", func(r *record) *exchange.Price { return &r.Limit }),
	seconds("time", func(r *record) *int64 { return &r.Time }),
	bigint("seq", func(r *record) *uint64 { return &r.seq }).orNull(),
	recordNanos,
	smallintOf("instructions",
		func(r *record) int16 { return packInstructions(&r.Terms, r.Unsent, r.OnDisconnect, false) },
		func(r *record, v int16) { r.Unsent, r.OnDisconnect, _ = unpackInstructions(v, &r.Terms) }),
	text("ref", func(r *record) *exchange.Ref { return &r.called }),
}}

// recordNanos is the column with the nanoseconds of a record's time.
var recordNanos = nanos("nanos", func(r *record) *int64 { return &r.Time }, func(r *record) *bool { return &r.whole })

// orderTerms returns order_log with the given columns and those of an order's terms.
func orderTerms(columns ...string) *table[record] {
	t := orderLog.pick(append(columns, "amount", "limit_price")...)
	t.columns = append(t.columns, smallintOf("instructions", nil,
		func(r *record, v int16) { unpackInstructions(v, &r.Terms) }))
	return t
}

var partLog = &table[record]{"part_log", []column[record]{
	bigint("seq", func(r *record) *uint64 { return &r.seq }),
	bigint("order_id", func(r *record) *exchange.OrderID { return &r.Order }),
	integerOf("first_n", func(r *record) int32 { return int32(r.Before + 1) },
		func(r *record, v int32) { r.Before = int(v) - 1 }),
	integer("last_n", func(r *record) *int32 { return &r.last }),
	bigint("open", func(r *record) *exchange.Shares { return &r.Shares }),
	seconds("time", func(r *record) *int64 { return &r.Time }),
	recordNanos,
}}

var cancelLog = &table[record]{"cancel_log", []column[record]{
	bigint("order_id", func(r *record) *exchange.OrderID { return &r.Order }),
	bigint("shares", func(r *record) *exchange.Shares { return &r.Shares }),
	seconds("time", func(r *record) *int64 { return &r.Time }),
	bigint("seq", func(r *record) *uint64 { return &r.seq }).orNull(),
	integer("n", func(r *record) *int32 { return &r.n }).orNull(),
	recordNanos,
	smallintOf("why", func(r *record) int16 { return int16(r.why) },
		func(r *record, v int16) { r.why = exchange.WhyCanceled(v) }).orNull(),
}}

var haltLog = &table[record]{"halt_log", []column[record]{
	bigint("seq", func(r *record) *uint64 { return &r.seq }),
	text("sym", func(r *record) *exchange.Symbol { return &r.Symbol }),
	booleanOf("halted", func(r *record) bool { return r.Kind == exchange.SymbolHalted },
		func(r *record, halted bool) {
			if r.Kind = exchange.SymbolResumed; halted {
				r.Kind = exchange.SymbolHalted
			}
		}),
	text("reason", func(r *record) *string { return &r.Reason }),
	seconds("time", func(r *record) *int64 { return &r.Time }),
	recordNanos,
}}

// refTable has the refs of records. order_id is set if the record made or amended an order.
var refTable = &table[record]{"refs", []column[record]{
	text("account", func(r *record) *exchange.AccountID { return &r.Account }),
	text("ref", func(r *record) *exchange.Ref { return &r.Ref }),
	bigint("seq", func(r *record) *uint64 { return &r.seq }),
	bigint("order_id", func(r *record) *exchange.OrderID { return &r.Order }).orNull(),
}}

// execution is a row of execution_log: one fill of an order's event.
type execution struct {
	exchange.Execution
	order, resting exchange.OrderID
	n              int
	symbol         exchange.Symbol
	buys           bool
	whole          bool // the time is in whole seconds
	numbers
}

// numbers of an execution: the trade's number for its symbol, and the execution's for each of the two
// accounts. They are 0 in rows of older programs.
type numbers struct{ trade, taker, maker uint64 }

var executionLog = &table[execution]{"execution_log", []column[execution]{
	bigint("order_id", func(x *execution) *exchange.OrderID { return &x.order }),
	integer("n", func(x *execution) *int { return &x.n }),
	bigint("resting_id", func(x *execution) *exchange.OrderID { return &x.resting }),
	text("sym", func(x *execution) *exchange.Symbol { return &x.symbol }),
	boolean("buys", func(x *execution) *bool { return &x.buys }),
	bigint("shares", func(x *execution) *exchange.Shares { return &x.Shares }),
	bigint("price", func(x *execution) *exchange.Price { return &x.Price }),
	seconds("time", func(x *execution) *int64 { return &x.Time }),
	nanos("nanos", func(x *execution) *int64 { return &x.Time }, func(x *execution) *bool { return &x.whole }),
	bigint("trade", func(x *execution) *uint64 { return &x.trade }).mayBeNull(),
	bigint("taker_fill", func(x *execution) *uint64 { return &x.taker }).mayBeNull(),
	bigint("resting_fill", func(x *execution) *uint64 { return &x.maker }).mayBeNull(),
}}

// executionSeen has the columns that both sides of an execution see.
var executionSeen = executionLog.pick("shares", "price", "time", "nanos")

// holdings are the tables that hold a state, except for the executions of orders.
type holdings struct {
	accounts  *table[accountRow]
	symbols   *table[symbolRow]
	positions *table[exchange.PositionState]
	orders    *table[restingRow]
	last      string // statement that selects each symbol, the price of its newest trade, and the number of its trades
}

// present is the current state. opening is the state at which history begins; only migrations have written its
// tables.
var (
	present = holdings{accountTable, symbolTable, positionTable, restingTable,
		`SELECT sym, last_price, trades FROM people.market`}
	opening = holdings{
		accountTable.opening("id", "opened", "balance", "held"),
		symbolTable.opening("sym", "placed", "halted_at", "halt_reason"),
		positionTable.opening("sym", "account", "shares", "held"),
		restingTable.opening("id", "account", "sym", "amount", "limit_price", "open"),
		`SELECT DISTINCT ON (x.sym) x.sym, x.price * 0.00000001, 0
		   FROM outcry.execution_log x JOIN outcry.order_log o ON o.id = x.order_id
		  WHERE o.seq IS NULL ORDER BY x.sym, x.order_id DESC, x.n DESC`,
	}
)

// described is a table of rows of any type.
type described interface {
	describe() (d Table, types []string, nulls []bool)
}

// allTables lists every table, in the order of a backup.
var allTables = []described{
	exchangeState, accountTable, symbolTable, positionTable, marketTable,
	placementLog, orderLog, executionLog, partLog, cancelLog, haltLog, refTable, restingTable,
	amendLog, holdLog, causeLog, accountLog, symbolLog, switchLog, fillLog, placedLog, candleTable,
	opening.accounts, opening.symbols, opening.positions, opening.orders,
}
