package binance

import (
	"time"

	"outcry/internal/exchange"
	"outcry/internal/view/market"
)

// limitMax and amountMax are the highest limit and amount that an order may have.
const (
	limitMax  = "89999999999.99999999"
	amountMax = limitMax
)

// exchangeInfo answers GET exchangeInfo.
func (d *Door) exchangeInfo(q *request) (work, *Error) {
	syms, _, problem := q.symbols()
	return func() ([]byte, *Error) {
		list, problem := d.list(q, syms, d.appendInfo)
		if problem != nil {
			return nil, problem
		}
		w := begin(nil)
		w.word("timezone", "UTC")
		w.number("serverTime", time.Now().UnixMilli())
		w.raw("rateLimits", "[]")
		w.raw("exchangeFilters", "[]")
		w.name("symbols")
		w.b = append(w.b, list...)
		return w.end(), nil
	}, problem
}

// appendInfo appends a symbol's entry in exchangeInfo.
func (d *Door) appendInfo(b []byte, m *market.Market) []byte {
	w := begin(b)
	state := "TRADING"
	if m.Halt() != nil {
		state = "BREAK"
	}
	w.word("symbol", pair(m.Symbol()))
	w.word("status", state)
	w.word("baseAsset", string(m.Symbol()))
	w.number("baseAssetPrecision", fractionDigits)
	w.word("quoteAsset", quoteAsset)
	w.number("quotePrecision", fractionDigits)
	w.number("quoteAssetPrecision", fractionDigits)
	w.number("baseCommissionPrecision", fractionDigits)
	w.number("quoteCommissionPrecision", fractionDigits)
	w.raw("orderTypes", `["LIMIT","LIMIT_MAKER","MARKET"]`)
	for _, absent := range []string{"icebergAllowed", "ocoAllowed", "otoAllowed", "opoAllowed",
		"quoteOrderQtyMarketAllowed",
		"allowTrailingStop", "amendAllowed", "pegInstructionsAllowed", "isMarginTradingAllowed"} {
		w.flag(absent, false)
	}
	w.flag("cancelReplaceAllowed", true)
	w.flag("isSpotTradingAllowed", true)
	w.name("filters")
	w.b = d.appendFilters(w.b, m.Rules())
	w.raw("permissions", `["SPOT"]`)
	w.raw("permissionSets", `[["SPOT"]]`)
	w.word("defaultSelfTradePreventionMode", "NONE")
	w.raw("allowedSelfTradePreventionModes", `["NONE","EXPIRE_TAKER","EXPIRE_MAKER","EXPIRE_BOTH"]`)
	return w.end()
}

// appendFilters appends the filters that orders must satisfy. Clients round prices and amounts to them before sending.
func (d *Door) appendFilters(b []byte, rules exchange.SymbolRules) []byte {
	tick, lot := max(rules.Tick, 1), max(rules.Lot, 1)
	w := begin(append(b, '['))
	w.word("filterType", "PRICE_FILTER")
	put(&w, "minPrice", tick)
	w.word("maxPrice", limitMax)
	put(&w, "tickSize", tick)
	w = begin(append(w.end(), ','))
	w.word("filterType", "LOT_SIZE")
	put(&w, "minQty", lot)
	w.word("maxQty", amountMax)
	put(&w, "stepSize", lot)
	w = begin(append(w.end(), ','))
	w.word("filterType", "NOTIONAL")
	put(&w, "minNotional", d.options.OrderValueMin())
	w.flag("applyMinToMarket", true)
	put(&w, "maxNotional", exchange.CashTotalMax)
	w.flag("applyMaxToMarket", false)
	w.number("avgPriceMins", 0)
	return append(w.end(), ']')
}

// tradeFees answers with the trading fees, which are zero.
func (d *Door) tradeFees(q *request) ([]byte, *Error) {
	if problem := d.mayLook(); problem != nil {
		return nil, problem
	}
	return d.list(q, nil, func(b []byte, m *market.Market) []byte {
		w := begin(b)
		w.word("symbol", pair(m.Symbol()))
		w.word("makerCommission", "0")
		w.word("takerCommission", "0")
		return w.end()
	})
}
