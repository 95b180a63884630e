package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"outcry/internal/exchange"
	"outcry/internal/operate/remote"
)

// registerRules adds the paths of operators' settings for accounts and symbols.
func (o *Options) registerRules(mux *routes) {
	mux.HandleFunc("POST /admin/block", o.operation(o.block, "account", "reason"))
	mux.HandleFunc("POST /admin/unblock", o.operation(o.unblock, "account"))
	mux.HandleFunc("POST /admin/symbol", o.operation(o.setSymbol, "sym", "tick", "lot", "protect", "band"))
	mux.HandleFunc("POST /admin/limits", o.operation(o.setLimits, "account", "shares", "notional", "open", "stp"))
}

// accountOf parses the parameter account.
func accountOf(q url.Values) (exchange.AccountID, error) {
	account, err := exchange.ParseAccountID(q.Get("account"))
	if err != nil {
		return "", badRequest("%v", err)
	}
	return account, nil
}

func (o *Options) block(r *http.Request, q url.Values) (any, error) {
	account, err := accountOf(q)
	if err != nil {
		return nil, err
	}
	reason, err := exchange.ParseHaltReason(q.Get("reason"))
	if err != nil {
		return nil, badRequest("%v", err)
	}
	result, err := o.Exchange().Block(r.Context(), account, reason)
	if err == nil {
		err = refusalOf(result.Reason, result.Text, account, "")
	}
	if err != nil {
		return nil, err
	}
	a := remote.BlockAnswer{Account: string(account), Changed: result.Changed, Blocked: haltOf(result.Block)}
	if canceled := &result.Canceled; canceled.Reason == exchange.OK && canceled.Time != 0 {
		a.Canceled = canceledOf(account, canceled)
	}
	if result.Changed {
		o.Log.Warn("an account is blocked", "account", string(account), "reason", reason, who(r))
	}
	return a, nil
}

func (o *Options) unblock(r *http.Request, q url.Values) (any, error) {
	account, err := accountOf(q)
	if err != nil {
		return nil, err
	}
	result, err := o.Exchange().Unblock(r.Context(), account)
	if err == nil {
		err = refusalOf(result.Reason, result.Text, account, "")
	}
	if err != nil {
		return nil, err
	}
	a := remote.BlockAnswer{Account: string(account), Changed: result.Changed}
	if result.Changed {
		a.Ended = haltOf(result.Block)
		o.Log.Warn("an account may order again", "account", string(account), who(r))
	}
	return a, nil
}

func (o *Options) setSymbol(r *http.Request, q url.Values) (any, error) {
	sym, err := symbolOf(q)
	if err != nil {
		return nil, err
	}
	change, err := symbolChange(q)
	if err != nil {
		return nil, err
	}
	result, err := o.Exchange().SetSymbolRules(r.Context(), sym, change)
	switch {
	case err != nil:
		return nil, err
	case result.Reason == exchange.OffTick:
		return nil, &refused{http.StatusConflict, fmt.Sprintf("order %d rests at %s, which is not a multiple of the tick %s",
			result.Misfit, result.MisfitLimit, q.Get("tick"))}
	}
	if err := refusalOf(result.Reason, result.Text, "", sym); err != nil {
		return nil, err
	}
	a := remote.SymbolRulesAnswer{Sym: string(sym), Changed: result.Changed, SymbolRules: symbolTexts(result.Rules)}
	if result.Changed {
		o.Log.Warn("the rules of a symbol are changed", "sym", string(sym), "tick", a.Tick, "lot", a.Lot,
			"protect", a.Protect, "band", a.Band, who(r))
	}
	return a, nil
}

// symbolChange parses a change of a symbol's rules. It returns nil if the request has none.
func symbolChange(q url.Values) (func(*exchange.SymbolRules), error) {
	var to exchange.SymbolRules
	c := changes{q: q}
	read(&c, "tick", &to.Tick, exchange.ParseLimit[string])
	read(&c, "lot", &to.Lot, parseShares)
	read(&c, "protect", &to.Protect, exchange.ParseFraction)
	read(&c, "band", &to.Band, unlessNone(exchange.ParseFraction))
	if c.err != nil || len(q) == 1 { // only sym
		return nil, c.err
	}
	return func(r *exchange.SymbolRules) {
		set(q, "tick", &r.Tick, to.Tick)
		set(q, "lot", &r.Lot, to.Lot)
		set(q, "protect", &r.Protect, to.Protect)
		set(q, "band", &r.Band, to.Band)
	}, nil
}

// changes parses the parameters of a change. err is the first error.
type changes struct {
	q   url.Values
	err error
}

// read parses a parameter if the request has it.
func read[T any](c *changes, name string, to *T, parse func(string) (T, error)) {
	if !c.q.Has(name) || c.err != nil {
		return
	}
	var err error
	if *to, err = parse(c.q.Get(name)); err != nil {
		c.err = badRequest("%s: %v", name, err)
	}
}

// set changes a rule if the request has its parameter.
func set[T any](q url.Values, name string, rule *T, to T) {
	if q.Has(name) {
		*rule = to
	}
}

// unlessNone returns a parser that also accepts "none", as the zero value.
func unlessNone[T any](parse func(string) (T, error)) func(string) (T, error) {
	return func(s string) (value T, err error) {
		if s == remote.NoBound {
			return value, nil
		}
		return parse(s)
	}
}

// symbolTexts returns the rules in force as texts.
func symbolTexts(r exchange.SymbolRules) remote.SymbolRules {
	a := remote.SymbolRules{Tick: max(r.Tick, 1).String(), Lot: max(r.Lot, 1).String(), Protect: r.Protect.String(),
		Band: remote.NoBound}
	if r.Protect == 0 {
		a.Protect = exchange.ProtectStandard.String()
	}
	if r.Band != 0 {
		a.Band = r.Band.String()
	}
	return a
}

func (o *Options) setLimits(r *http.Request, q url.Values) (any, error) {
	account, err := accountOf(q)
	if err != nil {
		return nil, err
	}
	change, err := accountChange(q)
	if err != nil {
		return nil, err
	}
	result, err := o.Exchange().SetAccountRules(r.Context(), account, change)
	if err == nil {
		err = refusalOf(result.Reason, result.Text, account, "")
	}
	if err != nil {
		return nil, err
	}
	a := remote.AccountRulesAnswer{Account: string(account), Changed: result.Changed,
		AccountRules: accountTexts(&result.Rules)}
	if result.Rules.Block != nil {
		a.Blocked = haltOf(*result.Rules.Block)
	}
	if result.Changed {
		o.Log.Warn("the limits of an account are changed", "account", string(account), "shares", a.Shares,
			"notional", a.Notional, "open", a.Open, "stp", a.STP, who(r))
	}
	return a, nil
}

// accountChange parses a change of an account's rules. It returns nil if the request has none.
func accountChange(q url.Values) (func(*exchange.AccountRules), error) {
	var to exchange.AccountRules
	c := changes{q: q}
	read(&c, "shares", &to.SharesMax, unlessNone(parseShares))
	read(&c, "notional", &to.NotionalMax, unlessNone(parseDollars))
	read(&c, "open", &to.OpenMax, unlessNone(parseCount))
	read(&c, "stp", &to.STP, unlessNone(exchange.ParseSelfTrade[string]))
	if c.err != nil || len(q) == 1 { // only account
		return nil, c.err
	}
	return func(r *exchange.AccountRules) {
		set(q, "shares", &r.SharesMax, to.SharesMax)
		set(q, "notional", &r.NotionalMax, to.NotionalMax)
		set(q, "open", &r.OpenMax, to.OpenMax)
		set(q, "stp", &r.STP, to.STP)
	}, nil
}

// parseShares parses a number of shares above 0 and at most an order's maximum.
func parseShares(s string) (exchange.Shares, error) {
	side, shares, err := exchange.ParseAmount(s)
	if err == nil && side != exchange.Buy {
		err = fmt.Errorf("%.64q is not more than 0", s)
	}
	return shares, err
}

// parseDollars parses an amount of dollars above 0.
func parseDollars(s string) (exchange.Cash, error) {
	cash, err := exchange.ParseBalance(s)
	if err == nil && cash.Sign() == 0 {
		err = fmt.Errorf("%.64q is not more than 0", s)
	}
	return cash, err
}

// parseCount parses a number of orders, at least 1.
func parseCount(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("%.64q is not a positive whole number", s)
	}
	return n, nil
}

// accountTexts returns the rules in force as texts.
func accountTexts(r *exchange.AccountRules) remote.AccountRules {
	const none = remote.NoBound
	a := remote.AccountRules{Shares: none, Notional: none, Open: none, STP: r.STP.String()}
	if r.SharesMax != 0 {
		a.Shares = r.SharesMax.String()
	}
	if r.NotionalMax.Sign() != 0 {
		a.Notional = r.NotionalMax.String()
	}
	if r.OpenMax != 0 {
		a.Open = strconv.FormatInt(r.OpenMax, 10)
	}
	return a
}
