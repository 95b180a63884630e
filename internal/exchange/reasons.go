package exchange

import (
	"cmp"
	"strconv"
	"time"
)

// RejectReason is why a command was rejected. A reject is part of the normal result, not an error of the exchange.
// Each reason has an entry in reasons: its name, its text, and whether it is a refusal. Every protocol uses these
// entries.
type RejectReason uint8

// The reasons.
const (
	OK                    RejectReason = iota
	AccountExists                      // an account with this id exists
	BalanceTotalExceeded               // the sum of all balances ever opened would reach CashTotalMax
	UnknownAccount                     // no such account
	SymbolLimitExceeded                // the exchange is at its limit of symbols
	PositionTotalExceeded              // the symbol's shares would reach PositionTotalMax
	UnknownSymbol                      // the symbol was never made
	InsufficientFunds                  // a buy costs more than the account can spend
	InsufficientShares                 // a sell has more shares than the account can sell
	UnknownOrder                       // no order has that id
	ForeignOrder                       // the order belongs to another account
	AlreadyExecuted                    // the order has no open shares: it is executed
	AlreadyCanceled                    // the order has no open shares: it was canceled
	NoRoom                             // the disk has no room for the journal
	NoRoomToCancel                     // the disk has no room for a cancel either: the reserve is used up
	TooManyFills                       // the order would match more orders than fit into one record of the journal
	DatabaseBehind                     // Postgres lags too far, or has been unreachable for too long
	HistoryUnavailable                 // the order is only in Postgres, which is unreachable
	RefUsed                            // the account has used the ref for something else
	RefUnavailable                     // only Postgres knows whether the ref was used, and it is unreachable
	Halted                             // the symbol is halted
	RateExceeded                       // the account exceeds its rate limit
	TooManyCancels                     // the account has more open orders than fit into one record of the journal
	AccountLimitExceeded               // the exchange is at its limit of accounts
	AccountOrdersExceeded              // the account is at its limit of open orders
	OpenOrdersExceeded                 // the exchange is at its limit of open orders
	OrderTooSmall                      // amount × limit is below the minimum of an order
	CannotFill                         // an FOK cannot be filled completely at once
	WouldExecute                       // a post-only order would execute at once
	NobodyOpposite                     // there is no order on the other side for a market order
	OffTick                            // the limit is not a multiple of the tick
	OffLot                             // the amount is not a multiple of the lot
	OutsideBand                        // the limit is too far from the last trade's price
	OrderTooLarge                      // the order has more shares than the account may place in one order
	NotionalExceeded                   // amount × limit is more than the account may place in one order
	Blocked                            // an operator has blocked the account
	AmountExecuted                     // the new total of an amend is not above the amount already executed
	AmountSide                         // the new total of an amend has the wrong sign
	RulesDiffer                        // the symbol exists with another tick or lot
	TooManyCancelAlls                  // the account exceeds the rate limit of cancel-all
	NotReadYet                         // a node of the cluster cannot read the record that this would write
	ViewUnavailable                    // the view of accounts failed
	FillsForgotten                     // the requested fills are older than the fills that are kept
	Unresumed                          // cancels that became due while the exchange was down are not done yet

	// The reasons below come from a session; the engine never returns them.
	NotAllowed   // the client's token does not allow the command
	ReplyTooLong // the reply to the frame would be too long
	NoMemory     // not enough memory is free for the reply

	rejectReasons // the number of reasons
)

// String returns the reason's stable name, which metrics and programs use.
func (r RejectReason) String() string {
	if r < rejectReasons {
		return reasons[r].name
	}
	return "unknown"
}

// OfSession reports whether the reason comes from a session: the command was not executed, or
// its result was not sent.
func (r RejectReason) OfSession() bool { return r >= NotAllowed && r < rejectReasons }

// IsRefusal reports whether the command was valid but the exchange cannot do it now, so that
// the same command may be accepted later. All other reasons are mistakes of the client.
func (r RejectReason) IsRefusal() bool { return r < rejectReasons && reasons[r].refusal }

// Text explains in one line, for people, why c was rejected with result r, including the relevant values.
// The reason must not be OK. For operators' requests c has no kind, only an account and a symbol.
func (r *Result) Text(c *Command) string {
	if r.Reason >= rejectReasons {
		return "refused: " + r.Reason.String()
	}
	if asked := r.details().Asked; asked != nil {
		c = asked
	}
	return reasons[r.Reason].text(c, r)
}

// Refusal is sent by a session instead of a result. The zero value means no refusal.
type Refusal struct {
	Reason RejectReason
	Text   string // explanation for people, one line; more precise than the text of the reason
}

// reason has the properties of a RejectReason.
type reason struct {
	name    string
	refusal bool // see RejectReason.IsRefusal
	text    func(c *Command, r *Result) string
}

// reasons has all reasons. The names and texts are documented in docs/PROTOCOL.md.
var reasons = [rejectReasons]reason{
	OK: {name: "ok", text: func(*Command, *Result) string {
		panic("exchange: a command that was done has no reason")
	}},
	AccountExists: {name: "account_exists", text: func(c *Command, _ *Result) string {
		return "account " + string(c.Account) + " already exists"
	}},
	BalanceTotalExceeded: {name: "balance_total_exceeded", text: func(c *Command, _ *Result) string {
		return "a balance of " + c.Balance.String() + " would bring all balances to " + CashTotalMax.String() + " or more"
	}},
	UnknownAccount: {name: "unknown_account", text: func(c *Command, _ *Result) string {
		return "there is no account " + string(c.Account)
	}},
	SymbolLimitExceeded: {name: "symbol_limit_exceeded", refusal: true, text: func(c *Command, r *Result) string {
		return "symbol " + string(c.Symbol) + " cannot be made: the exchange is at its limit of symbols" +
			bound(r, "max-symbols")
	}},
	PositionTotalExceeded: {name: "position_total_exceeded", text: func(c *Command, _ *Result) string {
		return c.Deposited.String() + " more would bring all shares of " + string(c.Symbol) + " to " +
			PositionTotalMax.String() + " or more"
	}},
	UnknownSymbol: {name: "unknown_symbol", text: func(c *Command, _ *Result) string {
		return "there is no symbol " + string(c.Symbol)
	}},
	InsufficientFunds: {name: "insufficient_funds", text: func(c *Command, r *Result) string {
		text := "insufficient funds: buying " + c.Shares.String() + " at " + c.at()
		switch has := "account " + string(c.Account) + " has"; {
		case c.Kind == AmendOrder:
			return text + " needs more than " + orderOf(c, r) + " holds and the " + r.CashHave.String() + " that " + has
		case c.Type == Market:
			if text += " needs " + r.details().Needs.String(); r.details().OrMore {
				text += " or more"
			}
			return text + ", " + has + " " + r.CashHave.String()
		default:
			return text + " needs " + Notional(c.Shares, c.Limit).String() + ", " + has + " " + r.CashHave.String()
		}
	}},
	InsufficientShares: {name: "insufficient_shares", text: func(c *Command, r *Result) string {
		text := "insufficient shares: selling " + c.Shares.String() + " of " + string(c.Symbol)
		if c.Kind == AmendOrder {
			return text + " needs more than " + orderOf(c, r) + " holds and the " + r.SharesHave.String() + " that account " +
				string(c.Account) + " has"
		}
		return text + ", account " + string(c.Account) + " has " + r.SharesHave.String()
	}},
	UnknownOrder: {name: "unknown_order", text: func(c *Command, r *Result) string {
		if c.Ref != "" {
			return "account " + string(c.Account) + " has no order with ref " + string(c.Ref)
		}
		return "there is no " + orderOf(c, r)
	}},
	ForeignOrder: {name: "foreign_order", text: func(c *Command, r *Result) string {
		return orderOf(c, r) + " does not belong to account " + string(c.Account)
	}},
	AlreadyExecuted: {name: "already_executed", text: func(c *Command, r *Result) string {
		return orderOf(c, r) + " has nothing open: it is executed"
	}},
	AlreadyCanceled: {name: "already_canceled", text: func(c *Command, r *Result) string {
		return orderOf(c, r) + " has nothing open: it was canceled before"
	}},
	NoRoom: {name: "no_room", refusal: true, text: func(*Command, *Result) string {
		return "the exchange accepts nothing new: its disk has no room for the journal; cancel and query still work"
	}},
	NoRoomToCancel: {name: "no_room_to_cancel", refusal: true, text: func(c *Command, r *Result) string {
		if c.Kind == 0 {
			return "the disk has no room for the journal, and the reserve is used up; nothing is changed"
		}
		return orderOf(c, r) + " cannot be canceled now: the disk has no room for the journal, " +
			"and the reserve for cancels is used up; query still works"
	}},
	TooManyFills: {name: "too_many_fills", refusal: true, text: func(c *Command, _ *Result) string {
		return c.Shares.String() + " " + string(c.Symbol) + " at " + c.Limit.String() +
			" would execute against more orders than fit into one record of the journal; send it in smaller parts"
	}},
	DatabaseBehind: {name: "database_behind", refusal: true, text: func(*Command, *Result) string {
		return "the exchange accepts nothing new until its database has caught up; cancel and query still work"
	}},
	HistoryUnavailable: {name: "history_unavailable", refusal: true, text: func(c *Command, r *Result) string {
		if c.Kind == ListFills {
			return "these fills are in the database, which does not answer now"
		}
		return orderOf(c, r) + " was closed long ago, and the database that knows it does not answer now"
	}},
	RefUsed: {name: "ref_used", text: func(c *Command, _ *Result) string {
		ref := c.Ref
		if c.Kind == AmendOrder && c.More != nil {
			ref = c.More.NewRef // c.Ref names the order
		}
		return "account " + string(c.Account) + " has used ref " + string(ref) + " before, for something else"
	}},
	RefUnavailable: {name: "ref_unavailable", text: func(c *Command, _ *Result) string {
		return "what ref " + string(c.Ref) + " was used for is in the database, which does not answer now; " +
			"nothing was done, try again later"
	}},
	Halted: {name: "symbol_halted", refusal: true, text: func(c *Command, r *Result) string {
		h := r.details().Halt
		since := time.Unix(Seconds(h.Since), 0).UTC().Format(time.RFC3339)
		text := "symbol " + string(c.Symbol) + " is halted since " + since + " and accepts no orders; cancel and query work"
		if h.Reason != "" {
			text += ": " + h.Reason
		}
		return text
	}},
	RateExceeded: {name: "rate_exceeded", text: func(c *Command, r *Result) string {
		return "account " + string(c.Account) + " exceeds its limit of " +
			cmp.Or(r.details().Bound, "orders and creates per second") + "; try again later"
	}},
	TooManyCancels: {name: "too_many_cancels", text: func(c *Command, _ *Result) string {
		text := "account " + string(c.Account) + " has more open orders than fit into one record of the journal"
		if c.Kind == 0 {
			text += ", and nothing is canceled; cancel symbol by symbol, or order by order"
		}
		return text
	}},
	AccountLimitExceeded: {name: "account_limit_exceeded", refusal: true, text: func(c *Command, r *Result) string {
		return "account " + string(c.Account) + " cannot be made: the exchange is at its limit of accounts" +
			bound(r, "max-accounts")
	}},
	AccountOrdersExceeded: {name: "account_orders_exceeded", refusal: true, text: func(c *Command, r *Result) string {
		most := bound(r, "max-open-orders-account")
		if limit := r.details().Bound; limit != "" { // a limit that an operator set for the account
			most = ", " + limit
		}
		return "account " + string(c.Account) + " is at its limit of open orders" + most + "; cancel and query still work"
	}},
	OpenOrdersExceeded: {name: "open_orders_exceeded", refusal: true, text: func(_ *Command, r *Result) string {
		return "the exchange is at its limit of open orders" + bound(r, "max-open-orders") +
			"; cancel and query still work"
	}},
	OrderTooSmall: {name: "order_too_small", text: func(c *Command, r *Result) string {
		worth := Notional(c.Shares, c.Limit)
		if c.Limit == 0 {
			worth = r.details().Needs
		}
		return c.Shares.String() + " " + string(c.Symbol) + " at " + c.at() + " is worth " +
			worth.String() + ", and the minimum is " + r.details().Least.String() +
			" (--min-order-value)"
	}},
	CannotFill: {name: "cannot_fill", text: func(c *Command, r *Result) string {
		return c.Shares.String() + " " + string(c.Symbol) + " at " + c.at() + " cannot be filled at once: " +
			r.details().Could.String() + " could"
	}},
	WouldExecute: {name: "would_execute", text: func(c *Command, r *Result) string {
		return "limit " + c.Limit.String() + " would execute at once: the best " + c.Side.opposite().String() + " is " +
			r.details().Best.String()
	}},
	NobodyOpposite: {name: "nobody_opposite", refusal: true, text: func(c *Command, _ *Result) string {
		return "no " + c.Side.opposite().String() + " orders for " + string(c.Symbol)
	}},
	OffTick: {name: "off_tick", text: func(c *Command, r *Result) string {
		return "limit " + c.Limit.String() + " is not a multiple of the tick " + r.details().Rules.Tick.String()
	}},
	OffLot: {name: "off_lot", text: func(c *Command, r *Result) string {
		return "amount " + c.Shares.String() + " is not a multiple of the lot " + r.details().Rules.Lot.String()
	}},
	OutsideBand: {name: "outside_band", text: func(c *Command, r *Result) string {
		return "limit " + c.Limit.String() + " is too far from the last trade of " + string(c.Symbol) + ": the bound is " +
			r.details().Bound
	}},
	OrderTooLarge: {name: "order_too_large", text: func(c *Command, r *Result) string {
		return c.Shares.String() + " shares are more than account " + string(c.Account) + " may place in an order: " +
			r.details().Bound
	}},
	NotionalExceeded: {name: "notional_exceeded", text: func(c *Command, r *Result) string {
		return r.details().Needs.String() + " is more than account " + string(c.Account) + " may place in an order: " +
			r.details().Bound
	}},
	Blocked: {name: "account_blocked", refusal: true, text: func(c *Command, r *Result) string {
		text := "account " + string(c.Account) + " is blocked and cannot place or amend orders; cancel and query work"
		if reason := r.details().Reason; reason != "" {
			text += ": " + reason
		}
		return text
	}},
	AmountExecuted: {name: "amount_executed", text: func(c *Command, r *Result) string {
		return orderOf(c, r) + " has executed " + r.details().Executed.String() + " already"
	}},
	AmountSide: {name: "amount_side", text: func(c *Command, r *Result) string {
		return "the amount of " + orderOf(c, r) + " has the opposite sign"
	}},
	RulesDiffer: {name: "rules_differ", text: func(c *Command, r *Result) string {
		rules := r.details().Rules
		return "symbol " + string(c.Symbol) + " has the tick " + rules.tick().String() + " and the lot " +
			rules.lot().String()
	}},
	TooManyCancelAlls: {name: "too_many_cancel_alls", text: func(c *Command, _ *Result) string {
		return "account " + string(c.Account) + " exceeds its limit of ten cancel-alls per second; try again later"
	}},
	NotReadYet: {name: "not_read_yet", refusal: true, text: func(_ *Command, r *Result) string {
		return "not every node of the cluster can read what this would write: " + r.details().Reason
	}},
	ViewUnavailable: {name: "view_unavailable", refusal: true, text: func(*Command, *Result) string {
		return "the view of accounts does not answer now; trading continues"
	}},
	FillsForgotten: {name: "fills_forgotten", text: func(*Command, *Result) string {
		return "these fills are older than those kept"
	}},
	Unresumed: {name: "unresumed", refusal: true, text: func(*Command, *Result) string {
		return "the exchange accepts no orders until it has canceled what was due while it was down; cancel and query work"
	}},
	NotAllowed: {name: "not_allowed", text: func(c *Command, _ *Result) string {
		if c.Kind == OpenAccount || c.Kind == MakeSymbol || c.Kind == DepositShares {
			return "<create> needs a token of scope admin"
		}
		return "the token of this connection is not for account " + string(c.Account)
	}},
	ReplyTooLong: {name: "reply_too_long", text: func(_ *Command, r *Result) string {
		return "the reply to this frame is over " + strconv.FormatInt(r.Most, 10) +
			" bytes; ask for this order in another frame"
	}},
	NoMemory: {name: "no_memory", refusal: true, text: func(*Command, *Result) string {
		return "the exchange lacks the memory for so long a reply now; ask for this order again later, in a frame of its own"
	}},
}

// details returns *r.Details, or zero values if it is nil.
func (r *Result) details() RejectDetails {
	if r.Details == nil {
		return RejectDetails{}
	}
	return *r.Details
}

// at returns c's limit, or "market" if it has none.
func (c *Command) at() string {
	if c.Limit == 0 {
		return Market.String()
	}
	return c.Limit.String()
}

// orderOf returns the order that a query or a cancel is about, as text.
func orderOf(c *Command, r *Result) string {
	return "order " + strconv.FormatUint(uint64(c.Names(r)), 10)
}

// bound returns, as text, the limit that was reached and the server's flag for it.
func bound(r *Result, flag string) string {
	return ", " + strconv.FormatInt(r.Most, 10) + " (--" + flag + ")"
}
