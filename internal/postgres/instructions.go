package postgres

import (
	"errors"

	"github.com/jackc/pgx/v5/pgtype"

	"outcry/internal/exchange"
)

// Bits of the columns named instructions. The view orders reads them too, so they must never change.
const (
	tifBits       = 3
	postBit       = 4
	marketBit     = 8
	stpShift      = 4
	stpBits       = 3 << stpShift
	unsentShift   = 6
	unsentBits    = int16(exchange.UnsentLimit|exchange.UnsentSTP) << unsentShift
	codBit        = 256
	amendedBit    = 512
	renamedBit    = 1024 // used only in resting_orders
	knownBits     = tifBits | postBit | marketBit | stpBits | unsentBits | codBit | amendedBit | renamedBit
	unknownBits   = ^knownBits
	noTimeInForce = exchange.TimeInForce(tifBits)
)

// packInstructions packs an order's terms other than side, amount and limit, for the column instructions. It
// returns 0 for an order without instructions.
func packInstructions(t *exchange.Terms, unsent exchange.Unsent, cod, amended bool) int16 {
	v := int16(t.TIF)&tifBits | int16(t.STP)<<stpShift&stpBits | int16(unsent)<<unsentShift&unsentBits
	if t.Post {
		v |= postBit
	}
	if t.Type == exchange.Market {
		v |= marketBit
	}
	if cod {
		v |= codBit
	}
	if amended {
		v |= amendedBit
	}
	return v
}

// unpackInstructions reverses packInstructions; it leaves t's side and limit unchanged. A value with unknown
// bits gets a time in force that no order has.
func unpackInstructions(v int16, t *exchange.Terms) (unsent exchange.Unsent, cod, amended bool) {
	t.TIF, t.Post, t.Type = exchange.TimeInForce(v&tifBits), v&postBit != 0, exchange.Limited
	if t.STP = exchange.SelfTrade(v & stpBits >> stpShift); v&marketBit != 0 {
		t.Type = exchange.Market
	}
	if v&unknownBits != 0 {
		t.TIF = noTimeInForce
	}
	return exchange.Unsent(v & unsentBits >> unsentShift), v&codBit != 0, v&amendedBit != 0
}

// The columns of accounts and symbols with their rules, which people read. NULL means that a rule is not set.
// The statements in write.go write these columns.
var (
	accountRules = []column[accountRow]{
		readOnly("blocked_at", "bigint", func(a *accountRow) any {
			return intScan(func(v pgtype.Int8) {
				if a.rules.Block = nil; v.Valid {
					a.rules.Block = &exchange.Halt{Since: v.Int64 * exchange.Second}
				}
			})
		}).mayBeNull(),
		readOnly("blocked_nanos", "integer", func(a *accountRow) any {
			return intScan(func(v pgtype.Int8) {
				if a.rules.Block != nil { // set by blocked_at, which is scanned first
					a.rules.Block.Since += v.Int64
				}
			})
		}).mayBeNull(),
		readOnly("block_reason", "text", func(a *accountRow) any {
			return textScan(func(v pgtype.Text) {
				if a.rules.Block != nil {
					a.rules.Block.Reason = v.String
				}
			})
		}).mayBeNull(),
		readOnly("stp", "text", func(a *accountRow) any {
			return textErrScan(func(v pgtype.Text) (err error) {
				if a.rules.STP = exchange.TradeWithSelf; v.Valid {
					a.rules.STP, err = exchange.ParseSelfTrade(v.String)
				}
				return err
			})
		}).mayBeNull(),
		units("shares_max", func(a *accountRow) *exchange.Shares { return &a.rules.SharesMax }),
		readOnly("notional_max", "numeric", func(a *accountRow) any {
			return numericScan(func(v pgtype.Numeric) (err error) {
				if a.rules.NotionalMax = (exchange.Cash{}); v.Valid {
					err = (*cashColumn)(&a.rules.NotionalMax).ScanNumeric(v)
				}
				return err
			})
		}).mayBeNull(),
		readOnly("open_max", "bigint", func(a *accountRow) any {
			return intScan(func(v pgtype.Int8) { a.rules.OpenMax = v.Int64 })
		}).mayBeNull(),
		readOnly("cancel_at_ns", "bigint", func(a *accountRow) any {
			return intScan(func(v pgtype.Int8) { a.Due = v.Int64 })
		}).mayBeNull(),
	}
	symbolRules = []column[symbolRow]{
		units("tick", func(s *symbolRow) *exchange.Price { return &s.Rules.Tick }),
		units("lot", func(s *symbolRow) *exchange.Shares { return &s.Rules.Lot }),
		units("protect", func(s *symbolRow) *exchange.Fraction { return &s.Rules.Protect }),
		units("band", func(s *symbolRow) *exchange.Fraction { return &s.Rules.Band }),
	}
)

// errOutOfRange: a decimal is outside the range of its column.
var errOutOfRange = errors.New("postgres: a decimal is out of range")

// units makes a column with a decimal that is in units of 10^-8 in memory. It is NULL for 0, and COPY never
// writes it.
func units[R any, T ~int64 | ~uint32](name string, field func(*R) *T) column[R] {
	return readOnly(name, "numeric", func(r *R) any {
		return numericScan(func(v pgtype.Numeric) error {
			if *field(r) = 0; !v.Valid {
				return nil
			}
			n, err := int128(v, scaleShares)
			if *field(r) = T(n.Lo); err == nil && n != exchange.Int128(exchange.Shares(*field(r)).Position()) {
				err = errOutOfRange
			}
			return err
		})
	}).mayBeNull()
}

// amendment, accountRules and symbolRules return a part of the record that only some kinds have, after making
// it if it is nil.
func (r *record) amendment() *exchange.Amendment { return made(&r.Amend) }

func (r *record) accountRules() *exchange.AccountRules { return made(&r.AccountRules) }

func (r *record) symbolRules() *exchange.SymbolRules { return made(&r.SymbolRules) }

// made returns *p, after making it if it is nil.
func made[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}

// unshare replaces all that the record points to by copies.
func (r *record) unshare() {
	copied(&r.Amend)
	copied(&r.SymbolRules)
	if copied(&r.AccountRules); r.AccountRules != nil {
		copied(&r.AccountRules.Block)
	}
}

func copied[T any](p **T) {
	if *p != nil {
		one := **p
		*p = &one
	}
}

func moment(name string) column[record] {
	return bigint(name, func(r *record) *int64 { return &r.Time })
}

var amendLog = &table[record]{"amend_log", []column[record]{
	bigint("seq", func(r *record) *uint64 { return &r.seq }),
	bigint("order_id", func(r *record) *exchange.OrderID { return &r.Order }),
	bigint("old_id", func(r *record) *exchange.OrderID { return &r.amendment().Old.Order }).orNull(),
	bigint("first_id", func(r *record) *exchange.OrderID { return &r.amendment().First }),
	bigint("amount", func(r *record) *exchange.Shares { return &r.amendment().Amount }),
	bigint("limit_price", func(r *record) *exchange.Price { return &r.amendment().Limit }),
	bigint("executed", func(r *record) *exchange.Shares { return &r.amendment().Executed }),
	bigint("open", func(r *record) *exchange.Shares { return &r.amendment().Open }),
	bigintOf("reduced",
		func(r *record) int64 {
			if r.Kind == exchange.OrderReduced {
				return int64(r.Shares)
			}
			return 0 // Shares are then those of the new order
		},
		func(r *record, v int64) { r.Shares = exchange.Shares(v) }),
	moment("time_ns"),
	text("ref", func(r *record) *exchange.Ref { return &r.called }),
}}

var holdLog = &table[record]{"hold_log", []column[record]{
	bigint("seq", func(r *record) *uint64 { return &r.seq }),
	cash("hold", func(r *record) *exchange.Cash { return &r.Hold }),
}}

var causeLog = &table[record]{"cause_log", []column[record]{
	bigint("seq", func(r *record) *uint64 { return &r.seq }),
	text("account", func(r *record) *exchange.AccountID { return &r.Account }),
	smallintOf("cause", func(r *record) int16 { return int16(r.Cause) },
		func(r *record, v int16) { r.Cause = exchange.CancelCause(v) }),
	moment("time_ns"),
}}

var accountLog = &table[record]{"account_log", []column[record]{
	bigint("seq", func(r *record) *uint64 { return &r.seq }),
	text("account", func(r *record) *exchange.AccountID { return &r.Account }),
	{name: "blocked_ns", typ: "bigint", null: true,
		put: func(b []byte, r *record) []byte {
			if r.accountRules().Block == nil {
				return appendNull(b)
			}
			return appendBigint(b, r.AccountRules.Block.Since)
		},
		scan: func(r *record) any {
			return intScan(func(v pgtype.Int8) {
				if r.accountRules().Block = nil; v.Valid {
					r.AccountRules.Block = &exchange.Halt{Since: v.Int64}
				}
			})
		}},
	{name: "block_reason", typ: "text", null: true,
		put: func(b []byte, r *record) []byte {
			if r.accountRules().Block == nil {
				return appendNull(b)
			}
			return appendText(b, r.AccountRules.Block.Reason)
		},
		scan: func(r *record) any {
			return textScan(func(v pgtype.Text) {
				if r.AccountRules.Block != nil { // set by blocked_ns, which is scanned first
					r.AccountRules.Block.Reason = v.String
				}
			})
		}},
	smallintOf("stp", func(r *record) int16 { return int16(r.accountRules().STP) },
		func(r *record, v int16) { r.accountRules().STP = exchange.SelfTrade(v) }),
	bigint("shares_max", func(r *record) *exchange.Shares { return &r.accountRules().SharesMax }),
	cash("notional_max", func(r *record) *exchange.Cash { return &r.accountRules().NotionalMax }),
	bigint("open_max", func(r *record) *int64 { return &r.accountRules().OpenMax }),
	moment("time_ns"),
}}

var symbolLog = &table[record]{"symbol_log", []column[record]{
	bigint("seq", func(r *record) *uint64 { return &r.seq }),
	text("sym", func(r *record) *exchange.Symbol { return &r.Symbol }),
	bigint("tick", func(r *record) *exchange.Price { return &r.symbolRules().Tick }),
	bigint("lot", func(r *record) *exchange.Shares { return &r.symbolRules().Lot }),
	bigintOf("protect", func(r *record) int64 { return int64(r.symbolRules().Protect) },
		func(r *record, v int64) { r.symbolRules().Protect = exchange.Fraction(v) }),
	bigintOf("band", func(r *record) int64 { return int64(r.symbolRules().Band) },
		func(r *record, v int64) { r.symbolRules().Band = exchange.Fraction(v) }),
	bigintOf("time_ns",
		func(r *record) int64 {
			if r.Kind == exchange.SymbolMade {
				return 0 // the symbol's row has no such time either
			}
			return r.Time
		},
		func(r *record, v int64) { r.Time = v }),
}}

var switchLog = &table[record]{"switch_log", []column[record]{
	bigint("seq", func(r *record) *uint64 { return &r.seq }),
	text("account", func(r *record) *exchange.AccountID { return &r.Account }),
	bigint("due_ns", func(r *record) *int64 { return &r.Due }),
	moment("time_ns"),
}}
