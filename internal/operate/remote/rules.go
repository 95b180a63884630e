package remote

import (
	"context"
	"net/http"
	"net/url"
)

// BlockAnswer is the answer to a block of an account, and to its end.
type BlockAnswer struct {
	Account string `json:"account"`
	Changed bool   `json:"changed"`           // false if the account was blocked before, or was not
	Blocked *Halt  `json:"blocked,omitempty"` // the block that holds now, nil if the account may order
	Ended   *Halt  `json:"ended,omitempty"`   // the block that was ended
	// Canceled is what a block has canceled; nil where nothing was, also since there was no room for it yet.
	Canceled *CancelAllAnswer `json:"canceled,omitempty"`
}

// SymbolRules are what holds for the orders of a symbol, as text. Of a change, what is "" stays.
type SymbolRules struct {
	Tick    string `json:"tick"`    // limits are multiples of it
	Lot     string `json:"lot"`     // amounts are multiples of it
	Protect string `json:"protect"` // how far from the best price a market order may execute: "10%"
	Band    string `json:"band"`    // how far from the last trade's price a limit may be: "20%", or NoBound
}

// AccountRules are what holds for the orders of an account, as text. Of a change, what is "" stays.
type AccountRules struct {
	Shares   string `json:"shares"`   // at most in an order, or NoBound, also below
	Notional string `json:"notional"` // dollars, at most in an order
	Open     string `json:"open"`     // open orders at most
	STP      string `json:"stp"`      // of orders that say none: "newest", "oldest", "both" or NoBound
}

// NoBound stands for a rule that does not hold.
const NoBound = "none"

// SymbolRulesAnswer is the answer to a change of a symbol's rules, with those that hold now.
type SymbolRulesAnswer struct {
	Sym     string `json:"sym"`
	Changed bool   `json:"changed"` // false if they held before, or nothing was to be changed
	SymbolRules
}

// AccountRulesAnswer is the answer to a change of an account's rules, with those that hold now.
type AccountRulesAnswer struct {
	Account string `json:"account"`
	Changed bool   `json:"changed"` // false if they held before, or nothing was to be changed
	AccountRules
	Blocked *Halt `json:"blocked,omitempty"` // nil if the account may order
}

// Block has an account place and amend no orders, and cancels all that it has open.
func (c *Client) Block(ctx context.Context, account, reason string) (a BlockAnswer, err error) {
	err = c.ask(ctx, http.MethodPost, "block", given("account", account, "reason", reason), &a)
	return a, err
}

// Unblock ends the block of an account.
func (c *Client) Unblock(ctx context.Context, account string) (a BlockAnswer, err error) {
	err = c.ask(ctx, http.MethodPost, "unblock", given("account", account), &a)
	return a, err
}

// SetSymbol changes the rules of a symbol. Without a change it tells which hold.
func (c *Client) SetSymbol(ctx context.Context, sym string, r SymbolRules) (a SymbolRulesAnswer, err error) {
	err = c.ask(ctx, http.MethodPost, "symbol",
		given("sym", sym, "tick", r.Tick, "lot", r.Lot, "protect", r.Protect, "band", r.Band), &a)
	return a, err
}

// SetLimits changes the rules of an account. Without a change it tells which hold.
func (c *Client) SetLimits(ctx context.Context, account string, r AccountRules) (a AccountRulesAnswer, err error) {
	err = c.ask(ctx, http.MethodPost, "limits",
		given("account", account, "shares", r.Shares, "notional", r.Notional, "open", r.Open, "stp", r.STP), &a)
	return a, err
}

// given returns the parameters of which the value is not "".
func given(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	return values
}
