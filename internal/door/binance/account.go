package binance

import (
	"outcry/internal/door/jsontext"
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
	b = append(b, '{')
	for _, name := range []string{"makerCommission", "takerCommission", "buyerCommission", "sellerCommission"} {
		b = jsontext.Number(b, name, 0)
	}
	b = append(jsontext.Name(b, "commissionRates"), '{')
	for _, name := range []string{"maker", "taker", "buyer", "seller"} {
		b = jsontext.Word(b, name, zero)
	}
	b = append(b, '}')
	b = jsontext.Bool(b, "canTrade", true)
	b = jsontext.Bool(b, "canWithdraw", false)
	b = jsontext.Bool(b, "canDeposit", false)
	b = jsontext.Bool(b, "brokered", false)
	b = jsontext.Bool(b, "requireSelfTradePrevention", false)
	b = jsontext.Bool(b, "preventSor", false)
	b = jsontext.Number(b, "updateTime", q.arrived.UnixMilli())
	b = jsontext.Word(b, "accountType", "SPOT")
	b = jsontext.Name(b, "balances")
	b = appendBalance(append(b, '['), quoteAsset, a.Balance, a.Held)
	for i := range a.Positions {
		if p := &a.Positions[i]; offered(p.Symbol) {
			b = appendBalance(append(b, ','), string(p.Symbol), p.Shares, p.Held)
		}
	}
	b = append(b, ']')
	b = jsontext.Raw(b, "permissions", `["SPOT"]`)
	b = jsontext.Raw(b, "uid", uid(q.account))
	return append(b, '}'), nil
}

// appendBalance appends the free and locked amounts of an asset.
func appendBalance[D jsontext.Exact](b []byte, asset string, free, locked D) []byte {
	b = append(b, '{')
	b = jsontext.Word(b, "asset", asset)
	b = decimal(b, "free", free)
	b = decimal(b, "locked", locked)
	return append(b, '}')
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
		return jsontext.List(nil, fills, appendMyTrade), nil
	}, problem
}

// appendMyTrade appends an execution as its account sees it.
func appendMyTrade(b []byte, f *exchange.AccountFill) []byte {
	b = append(b, '{')
	b = jsontext.Word(b, "symbol", pair(f.Symbol))
	b = jsontext.Number(b, "id", f.Trade)
	b = jsontext.Number(b, "orderId", f.Order)
	b = jsontext.Number(b, "orderListId", -1)
	b = decimal(b, "price", f.Price)
	b = decimal(b, "qty", f.Shares)
	b = decimal(b, "quoteQty", exchange.Notional(f.Shares, f.Price))
	b = jsontext.Word(b, "commission", zero)
	b = jsontext.Word(b, "commissionAsset", received(f))
	b = jsontext.Number(b, "time", millis(f.Time))
	b = jsontext.Bool(b, "isBuyer", f.Side == exchange.Buy)
	b = jsontext.Bool(b, "isMaker", f.Maker)
	b = jsontext.Bool(b, "isBestMatch", true)
	return append(b, '}')
}
