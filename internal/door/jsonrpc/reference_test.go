package jsonrpc

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/testing/doctest"
)

var update = flag.Bool("update", false, "write docs/reference/WEBSOCKET.md and docs/asyncapi.yaml")

// The text above the tables of the page. A single quote stands for a backquote.
const (
	head = `# JSON over WebSocket

Made by 'make reference' from the tables in 'internal/door/jsonrpc'. [DOORS](../DOORS.md) is where to begin;
'/api/v1/asyncapi.yaml' describes the same for programs.

'ws://HOST:PORT/api/v1/ws' on the HTTP port, JSON-RPC 2.0, one object a message, at most 65,536 bytes. An 'id' is a
whole number or a string of at most 64 characters. Notifications and batches are errors, as are names that are not
known or given twice. Requests take effect in their order, and results come in it; a result is durable. With
'--auth': a bearer token at the handshake, or 'auth' within 10 seconds.

A connection ends with 1001 if the server stops (what it has read is answered first), 1003 after a binary message, 1007
if a message is not UTF-8, 1009 if it is too large, 4001 if the token is missing, wrong, revoked or ended, 4008 if the
client reads too slowly. A command whose answer did not come happened whole or not at all: send it again with its 'ref'.

## Values

`
	results = `
Optional members are left out, never null. Each result except those of ping, auth and session.cancel_on_disconnect
has 'seq': of a command that wrote a record, that record; else the newest one that the answer includes. It never
goes back. When a channel has reached it, it has the command in it.

## Methods

`
	channelsHead = `## Channels

'subscribe' takes 1 to %d names, a connection has at most %s on. Behind the result comes the first message of each
channel, in the order asked, and then the others:

    {"jsonrpc":"2.0","method":"subscription","params":{"channel":"book.SPY","data":{…}}}

No message has more than %s entries in its lists together: what has more comes in several of the same type, seq and
n, all but the last with '"more":true'. The checksum is CRC-32 (IEEE) of the text 'price:shares;' of the ten best
asks, best first, and then of the ten best bids. A reader with more than 1 MiB waiting is cut with code 4008 if it
misses nothing; deltas of a book alone are merged, of other channels it gets the newest message.

`
)

// TestReferenceOfMethods generates docs/reference/WEBSOCKET.md from the tables, or compares it with them.
func TestReferenceOfMethods(t *testing.T) {
	page := strings.ReplaceAll(head, "'", "`") + doctest.Table(append([][]string{{"type", "JSON"}}, kindRows()...)) +
		strings.ReplaceAll(results, "'", "`")
	for i := range methods {
		page += methodText(&methods[i])
	}
	page += "## Objects\n\n"
	for _, o := range objects {
		page += "### " + o.name + "\n\n" + sentence(o.doc) + "\n\n" + fieldsTable(o.fields) + "\n"
	}
	page += channelsText() + reasonsText(t)
	require.NoError(t, doctest.Reference("../../../docs/reference/WEBSOCKET.md", page, *update))
}

func kindRows() (rows [][]string) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		rows = append(rows, []string{name, kinds[name]})
	}
	return rows
}

func methodText(m *method) string {
	text := "### " + m.name + "\n\n" + sentence(m.doc) + "\n\n"
	if len(m.params) > 0 {
		rows := [][]string{{"param", "type", ""}}
		for _, p := range m.params {
			name := "`" + p.name + "`"
			if p.optional {
				name = "[" + name + "]"
			}
			rows = append(rows, []string{name, p.kind.String(), p.doc})
		}
		text += doctest.Table(rows) + "\n"
	}
	return text + fieldsTable(m.result) + "\n"
}

func fieldsTable(fields []field) string {
	rows := [][]string{{"result", "type", ""}}
	for _, f := range fields {
		name, doc := "`"+f.name+"`", f.doc
		if f.optional {
			name = "[" + name + "]"
		}
		if f.values != nil && f.name != "type" {
			doc = strings.TrimPrefix(doc+": "+strings.Join(f.values, ", "), ": ")
		}
		rows = append(rows, []string{name, f.kind, doc})
	}
	rows[0][0] = "member"
	return doctest.Table(rows)
}

// sentence returns a text of a table as a sentence.
func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] + "." }

func channelsText() string {
	text := fmt.Sprintf(strings.ReplaceAll(channelsHead, "'", "`"),
		channelsMax, doctest.Thousands(subscriptionsMax), doctest.Thousands(entriesMax))
	for _, name := range slices.Sorted(maps.Keys(channelKinds)) {
		k := channelKinds[name]
		text += "### " + k.form + "\n\n" + sentence(k.doc) + "\n\n" + fieldsTable(k.data) + "\n"
	}
	return text
}

func reasonsText(t *testing.T) string {
	rows := [][]string{{"code", "class"}}
	for _, c := range codes {
		rows = append(rows, []string{strconv.Itoa(c.code), c.meaning})
	}
	text := "## Errors\n\nDecide by `data.reason`, which never changes; `message` is for people: [REASONS](REASONS.md) " +
		"has more texts.\n\n" + doctest.Table(rows) + "\n"
	rows = nil
	for _, o := range ownReasons {
		rows = append(rows, []string{"`" + string(o.reason) + "`", strconv.Itoa(o.code), "`" + o.example + "`"})
	}
	seen := make(map[reason]bool)
	for r := exchange.OK + 1; r.String() != "unknown"; r++ {
		as := reported(r)
		if slices.Contains(throughXML, r) || seen[as.reason] {
			continue
		}
		seen[as.reason] = true
		rows = append(rows, []string{"`" + string(as.reason) + "`", strconv.Itoa(as.code), ""})
	}
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	require.NotEmpty(t, rows)
	return text + doctest.Table(append([][]string{{"reason", "code", "an example of its text"}}, rows...))
}

// TestEveryReasonOfTheCoreIsReported: names are unique among classes, and clients get no reason that only XML clients
// can get.
func TestEveryReasonOfTheCoreIsReported(t *testing.T) {
	classes := make(map[reason]int)
	for _, o := range ownReasons {
		require.NotContains(t, classes, o.reason)
		classes[o.reason] = o.code
	}
	known := make(map[int]bool)
	for _, c := range codes {
		known[c.code] = true
	}
	for r := exchange.OK + 1; r.String() != "unknown"; r++ {
		as := reported(r)
		require.True(t, known[as.code], "%s", r)
		code, seen := classes[as.reason]
		require.True(t, !seen || code == as.code, "%s is of two classes", as.reason)
		classes[as.reason] = as.code
		if as.code == codeNotNow && !slices.Contains([]exchange.RejectReason{exchange.RateExceeded, exchange.RefUnavailable,
			exchange.TooManyCancelAlls}, r) {
			require.True(t, r.IsRefusal(), "%s may pass by itself, and the core does not say so", r)
		}
	}
	for _, want := range strings.Fields(`unknown_account unknown_symbol unknown_order foreign_order already_executed
		already_canceled already_replaced below_executed insufficient_funds insufficient_shares would_execute cannot_fill
		no_opposite off_tick off_lot outside_band order_shares_exceeded order_notional_exceeded open_orders_exceeded ref_used
		symbol_halted account_blocked too_many_fills too_many_cancels too_many_subscriptions not_kept wrong_side
		unauthenticated already_authenticated not_allowed rate_exceeded no_room no_room_to_cancel database_behind
		history_unavailable ref_unavailable no_memory invalid_json invalid_request unknown_method missing_param unknown_param
		wrong_type invalid_value conflict unknown_channel`) {
		require.Contains(t, classes, reason(want))
	}
}
