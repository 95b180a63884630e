package binance

import (
	"time"

	"outcry/internal/door/jsontext"
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
		b := jsontext.Word([]byte{'{'}, "timezone", "UTC")
		b = jsontext.Number(b, "serverTime", time.Now().UnixMilli())
		b = jsontext.Raw(b, "rateLimits", "[]")
		b = jsontext.Raw(b, "exchangeFilters", "[]")
		return append(jsontext.Raw(b, "symbols", list), '}'), nil
	}, problem
}

// appendInfo appends a symbol's entry in exchangeInfo.
func (d *Door) appendInfo(b []byte, m *market.Market) []byte {
	b = append(b, '{')
	state := "TRADING"
	if m.Halt() != nil {
		state = "BREAK"
	}
	b = jsontext.Word(b, "symbol", pair(m.Symbol()))
	b = jsontext.Word(b, "status", state)
	b = jsontext.Word(b, "baseAsset", string(m.Symbol()))
	b = jsontext.Number(b, "baseAssetPrecision", fractionDigits)
	b = jsontext.Word(b, "quoteAsset", quoteAsset)
	b = jsontext.Number(b, "quotePrecision", fractionDigits)
	b = jsontext.Number(b, "quoteAssetPrecision", fractionDigits)
	b = jsontext.Number(b, "baseCommissionPrecision", fractionDigits)
	b = jsontext.Number(b, "quoteCommissionPrecision", fractionDigits)
	b = jsontext.Raw(b, "orderTypes", `["LIMIT","LIMIT_MAKER","MARKET"]`)
	for _, absent := range []string{"icebergAllowed", "ocoAllowed", "otoAllowed", "opoAllowed",
		"quoteOrderQtyMarketAllowed",
		"allowTrailingStop", "amendAllowed", "pegInstructionsAllowed", "isMarginTradingAllowed"} {
		b = jsontext.Bool(b, absent, false)
	}
	b = jsontext.Bool(b, "cancelReplaceAllowed", true)
	b = jsontext.Bool(b, "isSpotTradingAllowed", true)
	b = d.appendFilters(jsontext.Name(b, "filters"), m.Rules())
	b = jsontext.Raw(b, "permissions", `["SPOT"]`)
	b = jsontext.Raw(b, "permissionSets", `[["SPOT"]]`)
	b = jsontext.Word(b, "defaultSelfTradePreventionMode", "NONE")
	b = jsontext.Raw(b, "allowedSelfTradePreventionModes", `["NONE","EXPIRE_TAKER","EXPIRE_MAKER","EXPIRE_BOTH"]`)
	return append(b, '}')
}

// appendFilters appends the filters that orders must satisfy. Clients round prices and amounts to them before sending.
func (d *Door) appendFilters(b []byte, rules exchange.SymbolRules) []byte {
	tick, lot := max(rules.Tick, 1), max(rules.Lot, 1)
	b = jsontext.Word(append(b, '[', '{'), "filterType", "PRICE_FILTER")
	b = decimal(b, "minPrice", tick)
	b = jsontext.Word(b, "maxPrice", limitMax)
	b = decimal(b, "tickSize", tick)
	b = jsontext.Word(append(b, '}', ',', '{'), "filterType", "LOT_SIZE")
	b = decimal(b, "minQty", lot)
	b = jsontext.Word(b, "maxQty", amountMax)
	b = decimal(b, "stepSize", lot)
	b = jsontext.Word(append(b, '}', ',', '{'), "filterType", "NOTIONAL")
	b = decimal(b, "minNotional", d.options.OrderValueMin())
	b = jsontext.Bool(b, "applyMinToMarket", true)
	b = decimal(b, "maxNotional", exchange.CashTotalMax)
	b = jsontext.Bool(b, "applyMaxToMarket", false)
	b = jsontext.Number(b, "avgPriceMins", 0)
	return append(b, '}', ']')
}

// tradeFees answers with the trading fees, which are zero.
func (d *Door) tradeFees(q *request) ([]byte, *Error) {
	if problem := d.mayLook(); problem != nil {
		return nil, problem
	}
	return d.list(q, nil, func(b []byte, m *market.Market) []byte {
		b = append(b, '{')
		b = jsontext.Word(b, "symbol", pair(m.Symbol()))
		b = jsontext.Word(b, "makerCommission", "0")
		b = jsontext.Word(b, "takerCommission", "0")
		return append(b, '}')
	})
}
