package binance

import (
	"outcry/internal/exchange"
	"outcry/internal/view/accounts"
)

// accountOf answers GET account.
func (d *Door) accountOf(q *request) (work, *Error) {
	return func() ([]byte, *Error) {
		view, _, problem := d.seen(q)
		if problem != nil {
			return nil, problem
		}
		return q.appendAccount(nil, view)
	}, nil
}

// appendAccount appends the current state of an account.
func (q *request) appendAccount(b []byte, view *accounts.View) ([]byte, *Error) {
	a, _, err := view.Account(q.account)
	if err != nil {
		return nil, problemOf(err)
	}
	w := begin(b)
	for _, name := range []string{"makerCommission", "takerCommission", "buyerCommission", "sellerCommission"} {
		w.number(name, 0)
	}
	w.name("commissionRates")
	rates := begin(w.b)
	for _, name := range []string{"maker", "taker", "buyer", "seller"} {
		rates.word(name, zero)
	}
	w.b = rates.end()
	w.flag("canTrade", true)
	w.flag("canWithdraw", false)
	w.flag("canDeposit", false)
	w.flag("brokered", false)
	w.flag("requireSelfTradePrevention", false)
	w.flag("preventSor", false)
	w.number("updateTime", q.arrived.UnixMilli())
	w.word("accountType", "SPOT")
	w.name("balances")
	w.b = appendBalance(append(w.b, '['), quoteAsset, a.Balance, a.Held)
	for i := range a.Positions {
		if p := &a.Positions[i]; offered(p.Symbol) {
			w.b = appendBalance(append(w.b, ','), string(p.Symbol), p.Shares, p.Held)
		}
	}
	w.b = append(w.b, ']')
	w.raw("permissions", `["SPOT"]`)
	w.raw("uid", uid(q.account))
	return w.end(), nil
}

// appendBalance appends the free and locked amounts of an asset.
func appendBalance[D decimal](b []byte, asset string, free, locked D) []byte {
	w := begin(b)
	w.word("asset", asset)
	put(&w, "free", free)
	put(&w, "locked", locked)
	return w.end()
}

// uid returns an account's id as a number, if it is one that every client can represent; 0 otherwise.
func uid(id exchange.AccountID) string {
	if n, problem := whole("", string(id), 1); problem == nil && id[0] != '0' && n <= wholeMax {
		return string(id)
	}
	return "0"
}

// myTrades answers GET myTrades.
func (d *Door) myTrades(q *request) (work, *Error) {
	sym, problem := q.symbol()
	var s span
	if problem == nil {
		s, problem = q.readSpan(500)
	}
	var order, from int64
	if problem == nil {
		order, problem = q.number("orderId", 0, 0, wholeMax, true)
	}
	if problem == nil {
		from, problem = q.number("fromId", 0, 0, wholeMax, true)
	}
	if problem == nil && q.get("fromId") == "0" {
		from = 1 // trades are numbered from 1; without fromId the answer has the newest
	}
	return func() ([]byte, *Error) {
		history, problem := d.stored(q)
		if problem != nil {
			return nil, problem
		}
		fills, err := history.Trades(q.ctx, q.account, sym, uint64(from), exchange.OrderID(order), s.start, s.end,
			int(s.limit))
		if err != nil {
			return nil, errNow
		}
		return appendList(nil, fills, appendMyTrade), nil
	}, problem
}

// appendMyTrade appends an execution as its account sees it.
func appendMyTrade(b []byte, f *exchange.AccountFill) []byte {
	w := begin(b)
	w.word("symbol", pair(f.Symbol))
	w.number("id", int64(f.Trade))
	w.number("orderId", int64(f.Order))
	w.number("orderListId", -1)
	put(&w, "price", f.Price)
	put(&w, "qty", f.Shares)
	put(&w, "quoteQty", exchange.Notional(f.Shares, f.Price))
	w.word("commission", zero)
	w.word("commissionAsset", received(f))
	w.number("time", millis(f.Time))
	w.flag("isBuyer", f.Side == exchange.Buy)
	w.flag("isMaker", f.Maker)
	w.flag("isBestMatch", true)
	return w.end()
}
