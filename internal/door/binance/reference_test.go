package binance

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/doctest"
)

var update = flag.Bool("update", false, "write docs/reference/BINANCE.md")

// TestReferenceOfTheDoorForBots generates docs/reference/BINANCE.md from the tables of routes, streams and errors.
func TestReferenceOfTheDoorForBots(t *testing.T) {
	routesTable := [][]string{{"request", "WebSocket API", "signed", "parameters", "answer"}}
	for _, r := range routes {
		signed := ""
		if r.signed {
			signed = "yes"
		}
		routesTable = append(routesTable, []string{"`" + r.method + " " + r.path + "`", "`" + r.name + "`", signed,
			r.params, r.about})
	}
	streamsTable := [][]string{{"stream", "event"}}
	for _, f := range streamForms {
		streamsTable = append(streamsTable, []string{"`" + strings.Join(f.examples, "`, `") + "`", f.about})
	}
	errorsTable := [][]string{{"status", "code", "msg", "when"}}
	row := func(e *Error, when string) {
		errorsTable = append(errorsTable, []string{fmt.Sprint(e.Status), fmt.Sprint(e.Code), "`" + e.Text + "`", when})
	}
	for _, e := range documentedErrors {
		row(e.Error, e.when)
	}
	seen := make(map[*Error][]string)
	var order []*Error
	for r := exchange.OK + 1; r.String() != "unknown"; r++ {
		e := refusals[r]
		if e == nil {
			continue
		}
		if seen[e] == nil {
			order = append(order, e)
		}
		seen[e] = append(seen[e], "`"+r.String()+"`")
	}
	for _, e := range order {
		row(e, strings.Join(seen[e], ", "))
	}
	page := strings.NewReplacer("ROUTES\n", doctest.Table(routesTable), "STREAMS\n", doctest.Table(streamsTable),
		"ERRORS\n", doctest.Table(errorsTable)).Replace(referenceText)
	require.NoError(t, doctest.Reference("../../../docs/reference/BINANCE.md", page, *update))
}

// TestEveryReasonOfTheExchangeHasAnAnswer: each reject reason has an error text and one of the statuses of
// refusals.
func TestEveryReasonOfTheExchangeHasAnAnswer(t *testing.T) {
	for r := exchange.OK + 1; r.String() != "unknown"; r++ {
		e := refusal(r, "in the exchange's words")
		require.Contains(t, []int{400, 401, 429, 503}, e.Status, r)
		require.NotEmpty(t, e.Text, r)
		if e.Status == 503 {
			require.NotContains(t, []exchange.RejectReason{exchange.InsufficientFunds, exchange.CannotFill, exchange.Halted}, r)
		}
	}
}

const referenceText = "# The door for bots that were made for Binance\n\n" +
	"Made by `make reference` of the tables in `internal/door/binance`. A subset, not a copy: what is not here is not\n" +
	"offered. Below `/binance` of the HTTP port: `/binance/api/v3/…` for requests, `/binance/ws` and\n" +
	"`/binance/stream` for streams, `/binance/ws-api/v3` for the WebSocket API. `/binance/sapi/…` answers `[]`, and\n" +
	"`/binance/fapi/v1/exchangeInfo` and `/binance/dapi/v1/exchangeInfo` answer `{\"symbols\":[]}`, which clients ask\n" +
	"for at their start.\n" + `
## What differs from Binance

- A symbol is called by its name and USD: SPY is SPYUSD. Only symbols of capitals and digits are offered.
- Decimals have eight digits after the point, and up to sixteen if the exact value has them: nothing is rounded.
- A client id is the exchange's ref: an account uses each once, for ever. The same id with the same content is answered
  with the first answer again. An order without one is called outcry- and its id.
- A cancel-replace is done by an amend if one can make the change; if the amend is refused, the old order stands. The
  new order is for the requested shares, whatever the old one executes first.
- A market order that cannot be filled at all is refused and has no id; one that is filled in part has expired.
- There are no listen keys, stops, icebergs, order lists, fees, margin and withdrawals.
- Candles without trades are left out. The ticker of 24 hours counts whole hours.
- Market data needs no key. With ` + "`--auth`" + ` it is refused until the first key is made.

## Clients

Tried in CI, with nothing but the hosts of their addresses replaced: ccxt and ccxt.pro 4.5.90, binance-sdk-spot 13.2.0.
By hand: freqtrade 2026.9 (balances, limit and market orders, fills, book, candles, cancels), with the addresses in
exchange.ccxt_config.urls.api and exchange.ccxt_async_config.urls.api, "fee": 0, and stoploss_on_exchange false.

## Keys

` + "`outcry token add --hmac ACCOUNT`" + ` prints a key and its secret. Without ` + "`--auth`" + ` the key is
the id of the account, and any signature is accepted. A request has the key in the header X-MBX-APIKEY, a
timestamp in milliseconds or microseconds, at most a second ahead and at most recvWindow (5,000 ms, at most 60,000)
old, and a signature: HMAC-SHA256 in hexadecimal digits, with the secret, of the query and the body as they
are sent, joined with nothing, without the signature itself.

## Requests

Parameters in brackets may be left out; unknown ones are ignored.

ROUTES

## Streams

` + "`SUBSCRIBE`, `UNSUBSCRIBE` and `LIST_SUBSCRIPTIONS`" + ` over the connection, or names in the path, as
` + "`/binance/ws/spyusd@trade`, or `/binance/stream?streams=spyusd@trade/spyusd@depth`" + `. At ` +
	"`/binance/stream`" + ` each event has the name of its stream around it. A connection reads at most 1,024
streams. One that reads its events too slowly is closed with code 4008 once 1 MiB waits for it.

STREAMS

A local book: SUBSCRIBE to the depth, request ` + "`GET depth`" + ` after the answer, drop events whose u is not
above lastUpdateId, then apply the others: U of each is u of the one before plus 1. u and lastUpdateId are the
journal's number of the newest record that changed the book of this symbol.

` + "`userDataStream.subscribe.signature`" + ` of the WebSocket API subscribes its connection to the events
executionReport and outboundAccountPosition of an account; ` + "`userDataStream.unsubscribe`" + ` ends that.

## Errors

What is not here is refused with status 400, code -2010 and the exchange's own words ([REASONS](REASONS.md)).

ERRORS
`
