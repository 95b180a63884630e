package remote

import (
	"context"
	"net/http"
	"net/url"
)

// BlockAnswer is the answer to a block of an account and to its end.
type BlockAnswer struct {
	Account string `json:"account"`
	Changed bool   `json:"changed"`           // false if the account was already blocked, or was not blocked
	Blocked *Halt  `json:"blocked,omitempty"` // the present block, nil if the account may place orders
	Ended   *Halt  `json:"ended,omitempty"`   // the block that was ended
	// Canceled has the orders that the block canceled; nil if none, perhaps because there is no room for the record yet.
	Canceled *CancelAllAnswer `json:"canceled,omitempty"`
}

// SymbolRules are the rules for orders of a symbol, as text. In a change, "" leaves a rule unchanged.
type SymbolRules struct {
	Tick    string `json:"tick"`    // limits must be multiples of it
	Lot     string `json:"lot"`     // amounts must be multiples of it
	Protect string `json:"protect"` // how far from the best price a market order may execute, such as "10%"
	Band    string `json:"band"`    // how far from the last trade's price a limit may be, such as "20%", or NoBound
}

// AccountRules are the rules for orders of an account, as text. In a change, "" leaves a rule unchanged.
type AccountRules struct {
	// largest number of shares of an order, or NoBound; the next two may be NoBound too
	Shares   string `json:"shares"`
	Notional string `json:"notional"` // largest notional of an order, in dollars
	Open     string `json:"open"`     // largest number of open orders
	// self-trade prevention of orders without their own: "newest", "oldest", "both" or NoBound
	STP string `json:"stp"`
}

// NoBound is the value of a rule that is not set.
const NoBound = "none"

// SymbolRulesAnswer is the answer to a change of a symbol's rules. It has the rules that now hold.
type SymbolRulesAnswer struct {
	Sym     string `json:"sym"`
	Changed bool   `json:"changed"` // false if the rules were the same before, or none was given
	SymbolRules
}

// AccountRulesAnswer is the answer to a change of an account's rules. It has the rules that now hold.
type AccountRulesAnswer struct {
	Account string `json:"account"`
	Changed bool   `json:"changed"` // false if the rules were the same before, or none was given
	AccountRules
	Blocked *Halt `json:"blocked,omitempty"` // nil if the account may place orders
}

// Block blocks an account: it can no longer place or amend orders, and its open orders are canceled.
func (c *Client) Block(ctx context.Context, account, reason string) (a BlockAnswer, err error) {
	err = c.ask(ctx, http.MethodPost, "block", given("account", account, "reason", reason), &a)
	return a, err
}

// Unblock ends the block of an account.
func (c *Client) Unblock(ctx context.Context, account string) (a BlockAnswer, err error) {
	err = c.ask(ctx, http.MethodPost, "unblock", given("account", account), &a)
	return a, err
}

// SetSymbol changes the rules of a symbol, and returns the resulting rules. If r is empty it only returns
// them.
func (c *Client) SetSymbol(ctx context.Context, sym string, r SymbolRules) (a SymbolRulesAnswer, err error) {
	err = c.ask(ctx, http.MethodPost, "symbol",
		given("sym", sym, "tick", r.Tick, "lot", r.Lot, "protect", r.Protect, "band", r.Band), &a)
	return a, err
}

// SetLimits changes the rules of an account, and returns the resulting rules. If r is empty it only returns
// them.
func (c *Client) SetLimits(ctx context.Context, account string, r AccountRules) (a AccountRulesAnswer, err error) {
	err = c.ask(ctx, http.MethodPost, "limits",
		given("account", account, "shares", r.Shares, "notional", r.Notional, "open", r.Open, "stp", r.STP), &a)
	return a, err
}

// given returns parameters from pairs of name and value, without those whose value is "".
func given(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	return values
}
