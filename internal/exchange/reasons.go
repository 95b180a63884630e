package exchange

import (
	"strconv"
	"time"
)

// RejectReason says why a command was refused. A refusal is the client's mistake and part of the
// normal result, not an error of the exchange. Each has an entry in reasons: its name, its text,
// and whether it is a refusal. Every protocol takes them from there.
type RejectReason uint8

// The reasons.
const (
	OK                    RejectReason = iota
	AccountExists                      // the id is taken
	BalanceTotalExceeded               // all balances ever made would reach CashTotalMax
	UnknownAccount                     // no such account
	SymbolLimitExceeded                // the exchange holds as many symbols as it may
	PositionTotalExceeded              // the symbol's shares would reach PositionTotalMax
	UnknownSymbol                      // the symbol was never made
	InsufficientFunds                  // a buy costs more than the account can spend
	InsufficientShares                 // a sell is of more than the account can sell
	UnknownOrder                       // no order has that id
	ForeignOrder                       // the order belongs to another account
	AlreadyExecuted                    // nothing is open any more: all was executed
	AlreadyCanceled                    // nothing is open any more: it was canceled
	NoRoom                             // the disk has no room for more journal
	NoRoomToCancel                     // nor has it for a cancel: the reserve is used up
	TooManyFills                       // the order would match more orders than one record of the journal takes
	DatabaseBehind                     // Postgres is too far behind, or away for too long
	HistoryUnavailable                 // the order is only in Postgres, which does not answer
	RefUsed                            // the account has used the ref for something else
	RefUnavailable                     // whether the ref was used is only in Postgres, which does not answer
	Halted                             // the symbol takes no orders
	RateExceeded                       // the account sends more than it may
	TooManyCancels                     // the account has more open than one record of the journal takes
	InHistory                          // pending: the order is only in Postgres, which has not been asked yet
	AccountLimitExceeded               // the exchange holds as many accounts as it may
	AccountOrdersExceeded              // the account has as many orders open as it may
	OpenOrdersExceeded                 // the exchange holds as many open orders as it may
	OrderTooSmall                      // amount × limit is less than an order has to be worth
	CannotFill                         // an FOK cannot be filled whole and at once
	WouldExecute                       // a post would execute at once
	NobodyOpposite                     // a market order finds no order on the other side
	OffTick                            // the limit is not a multiple of the tick
	OffLot                             // the amount is not a multiple of the lot
	OutsideBand                        // the limit is too far from the last trade's price
	OrderTooLarge                      // the order has more shares than its account may place at once
	NotionalExceeded                   // amount × limit is more than its account may place at once
	Blocked                            // an operator has blocked the account
	AmountExecuted                     // an amend's amount is executed already
	AmountSide                         // an amend's amount has the other sign
	RulesDiffer                        // the symbol was made with another tick or lot
	TooManyCancelAlls                  // the account has canceled all too often within a second
	NotReadYet                         // a node of the cluster cannot read what this would write
	InView                             // pending: the account's view has not been asked yet
	ViewUnavailable                    // the account's view has failed
	FillsForgotten                     // the fills asked for are older than what is kept
	Unresumed                          // what was due while the exchange was down is not done yet

	// Those that follow come from a session, never from what executes commands.
	NotAllowed   // the client's token is not for this
	ReplyTooLong // the frame asks for more than a reply may have
	NoMemory     // there is no memory for so long a reply now

	rejectReasons // how many there are
)

// String returns the name by which metrics and programs know a reason. It never changes.
func (r RejectReason) String() string {
	if r < rejectReasons {
		return reasons[r].name
	}
	return "unknown"
}

// OfSession reports whether a reason comes from a session: the command was not executed, or its
// result not sent.
func (r RejectReason) OfSession() bool { return r >= NotAllowed && r < rejectReasons }

// IsRefusal reports whether the exchange could not do a command that a client may well send,
// so that the same command may be accepted later. All others are mistakes.
func (r RejectReason) IsRefusal() bool { return r < rejectReasons && reasons[r].refusal }

// Text says to people why c was refused with the result r and with which value, in one line.
// The reason must not be OK. For what operators do c has no kind, only an account and a symbol.
func (r *Result) Text(c *Command) string {
	if r.Reason >= rejectReasons {
		return "refused: " + r.Reason.String()
	}
	if asked := r.more().Asked; asked != nil {
		c = asked
	}
	return reasons[r.Reason].text(c, r)
}

// Refusal is what a session answers in place of a result. The zero value is none.
type Refusal struct {
	Reason RejectReason
	Text   string // for people, one line; more precise than that of the reason alone
}

// reason is what there is to know about a RejectReason.
type reason struct {
	name    string
	refusal bool // RejectReason.IsRefusal
	text    func(c *Command, r *Result) string
}

// reasons has all reasons. Texts are those of docs/PROTOCOL.md, as are their values.
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
		return "symbol " + string(c.Symbol) + " cannot be made: the exchange has as many symbols as it takes" +
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
			if text += " needs " + r.more().Needs.String(); r.more().OrMore {
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
			return "account " + string(c.Account) + " has no order of ref " + string(c.Ref)
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
		return "the exchange takes nothing new: its disk has no room for the journal; cancel and query still work"
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
			" would execute against more orders than one record of the journal takes; send it in smaller parts"
	}},
	DatabaseBehind: {name: "database_behind", refusal: true, text: func(*Command, *Result) string {
		return "the exchange takes nothing new until its database has caught up; cancel and query still work"
	}},
	HistoryUnavailable: {name: "history_unavailable", refusal: true, text: textInHistory},
	RefUsed: {name: "ref_used", text: func(c *Command, _ *Result) string {
		ref := c.Ref
		if c.Kind == AmendOrder && c.More != nil {
			ref = c.More.NewRef // the other one names the order
		}
		return "account " + string(c.Account) + " has used ref " + string(ref) + " before, and not for this"
	}},
	RefUnavailable: {name: "ref_unavailable", text: func(c *Command, _ *Result) string {
		return "what ref " + string(c.Ref) + " was used for is in the database, which does not answer now; " +
			"nothing was done, try again later"
	}},
	Halted: {name: "symbol_halted", refusal: true, text: func(c *Command, r *Result) string {
		h := r.more().Halt
		since := time.Unix(Seconds(h.Since), 0).UTC().Format(time.RFC3339)
		text := "symbol " + string(c.Symbol) + " is halted since " + since + " and takes no orders; cancel and query work"
		if h.Reason != "" {
			text += ": " + h.Reason
		}
		return text
	}},
	RateExceeded: {name: "rate_exceeded", text: func(c *Command, _ *Result) string {
		return "account " + string(c.Account) + " is over its limit of orders and creates a second; try again later"
	}},
	TooManyCancels: {name: "too_many_cancels", text: func(c *Command, _ *Result) string {
		text := "account " + string(c.Account) + " has more open than one record of the journal takes"
		if c.Kind == 0 {
			text += ", and nothing is canceled; cancel symbol by symbol, or order by order"
		}
		return text
	}},
	InHistory: {name: "in_history", refusal: true, text: textInHistory},
	AccountLimitExceeded: {name: "account_limit_exceeded", refusal: true, text: func(c *Command, r *Result) string {
		return "account " + string(c.Account) + " cannot be made: the exchange has as many accounts as it takes" +
			bound(r, "max-accounts")
	}},
	AccountOrdersExceeded: {name: "account_orders_exceeded", refusal: true, text: func(c *Command, r *Result) string {
		most := bound(r, "max-open-orders-account")
		if limit := r.more().Bound; limit != "" { // an operator's, of the account
			most = ", " + limit
		}
		return "account " + string(c.Account) + " has as many orders open as it may" + most + "; cancel and query still work"
	}},
	OpenOrdersExceeded: {name: "open_orders_exceeded", refusal: true, text: func(_ *Command, r *Result) string {
		return "the exchange has as many orders open as it takes" + bound(r, "max-open-orders") +
			"; cancel and query still work"
	}},
	OrderTooSmall: {name: "order_too_small", text: func(c *Command, r *Result) string {
		worth := Notional(c.Shares, c.Limit)
		if c.Limit == 0 {
			worth = r.more().Needs
		}
		return c.Shares.String() + " " + string(c.Symbol) + " at " + c.at() + " is worth " +
			worth.String() + ", and an order has to be worth " + r.more().Least.String() +
			" (--min-order-value)"
	}},
	CannotFill: {name: "cannot_fill", text: func(c *Command, r *Result) string {
		return c.Shares.String() + " " + string(c.Symbol) + " at " + c.at() + " cannot be filled at once: " +
			r.more().Could.String() + " could"
	}},
	WouldExecute: {name: "would_execute", text: func(c *Command, r *Result) string {
		return "limit " + c.Limit.String() + " would execute at once: the best " + c.Side.opposite().String() + " is " +
			r.more().Best.String()
	}},
	NobodyOpposite: {name: "nobody_opposite", refusal: true, text: func(c *Command, _ *Result) string {
		return "nobody " + c.Side.opposite().String() + "s " + string(c.Symbol)
	}},
	OffTick: {name: "off_tick", text: func(c *Command, r *Result) string {
		return "limit " + c.Limit.String() + " is not a multiple of the tick " + r.more().Rules.Tick.String()
	}},
	OffLot: {name: "off_lot", text: func(c *Command, r *Result) string {
		return "amount " + c.Shares.String() + " is not a multiple of the lot " + r.more().Rules.Lot.String()
	}},
	OutsideBand: {name: "outside_band", text: func(c *Command, r *Result) string {
		return "limit " + c.Limit.String() + " is too far from the last trade of " + string(c.Symbol) + ": the bound is " +
			r.more().Bound
	}},
	OrderTooLarge: {name: "order_too_large", text: func(c *Command, r *Result) string {
		return c.Shares.String() + " shares are more than account " + string(c.Account) + " may place in an order: " +
			r.more().Bound
	}},
	NotionalExceeded: {name: "notional_exceeded", text: func(c *Command, r *Result) string {
		return r.more().Needs.String() + " is more than account " + string(c.Account) + " may place in an order: " +
			r.more().Bound
	}},
	Blocked: {name: "account_blocked", refusal: true, text: func(c *Command, r *Result) string {
		text := "account " + string(c.Account) + " is blocked, and places and amends no orders; cancel and query work"
		if reason := r.more().Reason; reason != "" {
			text += ": " + reason
		}
		return text
	}},
	AmountExecuted: {name: "amount_executed", text: func(c *Command, r *Result) string {
		return orderOf(c, r) + " has executed " + r.more().Executed.String() + " already"
	}},
	AmountSide: {name: "amount_side", text: func(c *Command, r *Result) string {
		return "the amount of " + orderOf(c, r) + " has the other sign"
	}},
	RulesDiffer: {name: "rules_differ", text: func(c *Command, r *Result) string {
		rules := r.more().Rules
		return "symbol " + string(c.Symbol) + " has the tick " + rules.tick().String() + " and the lot " +
			rules.lot().String()
	}},
	TooManyCancelAlls: {name: "too_many_cancel_alls", text: func(c *Command, _ *Result) string {
		return "account " + string(c.Account) + " cancels all more than ten times a second; try again later"
	}},
	NotReadYet: {name: "not_read_yet", refusal: true, text: func(_ *Command, r *Result) string {
		return "not every node of the cluster can read what this would write: " + r.more().Reason
	}},
	InView: {name: "in_view", refusal: true, text: func(*Command, *Result) string {
		return "the view of accounts does not answer now; trading goes on"
	}},
	ViewUnavailable: {name: "view_unavailable", refusal: true, text: func(*Command, *Result) string {
		return "the view of accounts does not answer now; trading goes on"
	}},
	FillsForgotten: {name: "fills_forgotten", text: func(*Command, *Result) string {
		return "these fills are older than what is kept"
	}},
	Unresumed: {name: "unresumed", refusal: true, text: func(*Command, *Result) string {
		return "the exchange takes no orders until it has canceled what was due while it was down; cancel and query work"
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
		return "the exchange has no memory for so long a reply now; ask for this order again later, in a frame of its own"
	}},
}

// more returns the values of a refusal that few have.
func (r *Result) more() ResultMore {
	if r.More == nil {
		return ResultMore{}
	}
	return *r.More
}

// at says in words at which limit c orders.
func (c *Command) at() string {
	if c.Limit == 0 {
		return Market.String()
	}
	return c.Limit.String()
}

// orderOf names the order that a query or a cancel is about.
func orderOf(c *Command, r *Result) string {
	return "order " + strconv.FormatUint(uint64(c.Names(r)), 10)
}

// textInHistory is the text of two reasons: an order that nobody has asked for yet, and one that
// was asked for in vain.
func textInHistory(c *Command, r *Result) string {
	if c.Kind == ListFills {
		return "these fills are in the database, which does not answer now"
	}
	return orderOf(c, r) + " was closed long ago, and the database that knows it does not answer now"
}

// bound names the bound that a command has run into, and the server's flag for it.
func bound(r *Result, flag string) string {
	return ", " + strconv.FormatInt(r.Most, 10) + " (--" + flag + ")"
}
