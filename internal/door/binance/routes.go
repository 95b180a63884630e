package binance

import "strings"

// work carries out a request, and returns the answer or an error.
type work func() (answer []byte, problem *Error)

// route is one kind of request: over REST, and over the WebSocket API if it has a name in it.
type route struct {
	method, path string // path below base; "" if the route is not in the REST API
	name         string // name in the WebSocket API; "" if the route is not available in it
	signed       bool   // the request must be signed with an API key
	params       string // for the reference; parameters in brackets are optional
	about        string // description for the reference
	// prepare parses the parameters, and returns the work to do once the client is authenticated.
	prepare func(d *Door, q *request) (work, *Error)
}

// base is the path of the REST API below Prefix.
const base = "/api/v3/"

// orderParams are the parameters of a new order.
const orderParams = "symbol side type quantity [price timeInForce newClientOrderId newOrderRespType " +
	"selfTradePreventionMode]"

// routes lists all kinds of requests.
var routes []route

func init() { // not an initializer of routes, because the functions in the table refer to routes
	routes = []route{
		{"GET", "ping", "ping", false, "", "`{}`", (*Door).ping},
		{"GET", "time", "time", false, "", "the server's time", (*Door).time},
		{"GET", "exchangeInfo", "exchangeInfo", false, "[symbol symbols]", "symbols with tick, lot and whether they trade",
			(*Door).exchangeInfo},
		{"GET", "depth", "depth", false, "symbol [limit ≤ 5000]", "the best levels", (*Door).depth},
		{"GET", "trades", "trades.recent", false, "symbol [limit ≤ 1000]", "the newest trades", (*Door).trades},
		{"GET", "aggTrades", "trades.aggregate", false, "symbol [fromId startTime endTime limit ≤ 1000]",
			"trades that are in memory, each separately", (*Door).aggTrades},
		{"GET", "klines", "klines", false, "symbol interval [startTime endTime limit ≤ 1000]",
			"candles of 1s, 1m, 5m, 1h, 1d; empty ones are left out", (*Door).klines},
		{"GET", "ticker/24hr", "ticker.24hr", false, "[symbol symbols]", "totals of the last 24 hours, by whole hours",
			(*Door).ticker24},
		{"GET", "ticker/price", "ticker.price", false, "[symbol symbols]", "the last price", (*Door).tickerPrice},
		{"GET", "ticker/bookTicker", "ticker.book", false, "[symbol symbols]", "the best levels", (*Door).bookTicker},
		{"POST", "order", "order.place", true, orderParams, "a new order", (*Door).placeOrder},
		{"POST", "order/test", "order.test", true, orderParams, "tests an order, and does nothing", (*Door).testOrder},
		{"GET", "order", "order.status", true, "symbol orderId or origClientOrderId", "an order, open or closed",
			(*Door).getOrder},
		{"DELETE", "order", "order.cancel", true, "symbol orderId or origClientOrderId [newClientOrderId]",
			"cancels an order", (*Door).cancelOrder},
		{"POST", "order/cancelReplace", "order.cancelReplace", true, orderParams +
			" cancelReplaceMode cancelOrderId or cancelOrigClientOrderId [cancelNewClientOrderId]",
			"an order in place of another one", (*Door).cancelReplace},
		{"GET", "openOrders", "openOrders.status", true, "[symbol]", "open orders", (*Door).openOrders},
		{"DELETE", "openOrders", "openOrders.cancelAll", true, "symbol", "cancels the open orders of a symbol",
			(*Door).cancelOpen},
		{"GET", "allOrders", "allOrders", true, "symbol [orderId startTime endTime limit ≤ 1000]",
			"orders, closed ones too, oldest first", (*Door).allOrders},
		{"GET", "account", "account.status", true, "", "balances", (*Door).accountOf},
		{"GET", "myTrades", "myTrades", true, "symbol [orderId fromId startTime endTime limit ≤ 1000]",
			"executions, oldest first", (*Door).myTrades},
	}
}

// findRoute returns the route of a path below Prefix, or nil.
func findRoute(method, path string) *route {
	path, ok := strings.CutPrefix(path, base)
	for i := range routes {
		if ok && routes[i].method == method && routes[i].path == path {
			return &routes[i]
		}
	}
	return nil
}

// findName returns the route of a method of the WebSocket API, or nil.
func findName(name string) *route {
	for i := range routes {
		if name != "" && routes[i].name == name {
			return &routes[i]
		}
	}
	return nil
}
