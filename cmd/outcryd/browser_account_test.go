//go:build browser

package main

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// stubDoor replaces the page's WebSocket with a stub that the test controls, so that the test can cause things that no
// exchange does on demand, such as a lost answer. door.sent holds the messages that the page sent on the newest
// connection, except pings; door.opened counts connections. The page pings every 20 ms.
const stubDoor = `{
	const every = window.setInterval;
	window.setInterval = (call, pause) => every(call, pause === 10_000 ? 20 : pause);
	window.door = { opened: 0, sent: [], pings: true, newest: null };
	window.WebSocket = class {
		static OPEN = 1;
		constructor(url) {
			this.url = url;
			this.readyState = 0;
			door.opened++;
			door.sent = [];
			door.newest = this;
			setTimeout(() => { this.readyState = 1; this.onopen(); });
		}
		send(text) {
			const message = JSON.parse(text);
			if (message.method !== "ping") door.sent.push(message);
			else if (door.pings) this.tell({ id: message.id, result: {} });
		}
		tell(message) { this.onmessage({ data: JSON.stringify({ jsonrpc: "2.0", ...message }) }); }
		close() { this.readyState = 3; }
		end(code, reason) { this.readyState = 3; this.onclose({ code, reason }); }
	};
	door.call = (method) => door.sent.findLast((m) => m.method === method);
	door.answer = (method, result) => door.newest.tell({ id: door.call(method).id, result });
	door.refuse = (method, code, reason, message) =>
		door.newest.tell({ id: door.call(method).id, error: { code, message, data: { reason } } });
	door.event = (data) => door.newest.tell({ method: "subscription", params: { channel: "account.7", data } });
	door.order = (id, more) => ({ id, sym: "S", amount: "5", type: "limit", limit: "2", tif: "GTC", post: false,
		cod: false, state: "open", open: "5", executed: "0", notional: "0", reduced: "0", canceled: "0",
		time_ns: "1", time_ms: 1, changed_ns: "1", changed_ms: 1, ...more });
	door.fill = (fill) => ({ fill, order: 1, trade: fill, sym: "S", side: "buy", shares: "5", price: "2", maker: true,
		time_ns: "1", time_ms: 1 });
	door.snapshot = (n, more) => ({ type: "snapshot", n, last_fill: 0, seq: n, balance: "100", held: "0", positions: [],
		orders: [], ...more });
}`

// stubbed starts a server with one symbol, and opens its page with the WebSocket replaced by stubDoor.
func stubbed(t *testing.T, script string, more ...string) *tab {
	t.Helper()
	flags, _ := dataFlags(t)
	server := start(t, append(flags, more...)...)
	dial(t, server.xml).must(t, opening)
	p := browse(t, "about:blank")
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: stubDoor + script})
	p.do(chromedp.Navigate("http://" + server.http + "/#S"))
	p.until(`document.getElementById("sym").textContent === "S"`)
	return p
}

// js runs JavaScript statements in the page.
func (p *tab) js(format string, a ...any) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void]("{" + fmt.Sprintf(format, a...) + "}"))
}

// sends waits until the page has sent a request of this method to the stub, and returns its params as JSON.
func (p *tab) sends(method string) string {
	p.t.Helper()
	p.until(fmt.Sprintf(`door.call(%q) !== undefined`, method))
	return value[string](p, fmt.Sprintf(`JSON.stringify(door.call(%q).params)`, method))
}

// takes chooses an existing account in the page.
func (p *tab) takes(account string) {
	p.t.Helper()
	p.until(`document.getElementById("account").checkVisibility()`)
	p.js(`document.getElementById("account").value = %q; document.getElementById("choose-go").click()`, account)
}

const shownOrders = `[...document.querySelectorAll("#own-orders .what")].map((c) => c.textContent).join(" · ")`

func TestThePageFollowsAnAccountWithoutAGap(t *testing.T) {
	t.Parallel()
	p := stubbed(t, "")
	require.Zero(t, value[int](p, `door.opened`), "who only looks takes no connection")
	p.takes("7")
	require.JSONEq(t, `{"channels":["account.7"]}`, p.sends("subscribe"))
	require.Regexp(t, `^ws://127\.0\.0\.1:\d+/api/v1/ws$`, value[string](p, `door.newest.url`))
	p.js(`door.answer("subscribe", { seq: 3, channels: ["account.7"] });
		door.event({ ...door.snapshot(3), orders: [door.order(1)], more: true });
		door.event({ ...door.snapshot(3), orders: [door.order(2, { amount: "-6", open: "6" })] })`)
	require.JSONEq(t, `{"account":"7"}`, p.sends("fills.list"))
	p.js(`door.answer("fills.list", { seq: 3, last_fill: 0, fills: [], more: false })`)
	p.until(shownOrders + ` === "Sell 6 S · Buy 5 S"`)

	// Another event in two parts: one order closes, another opens, with a fill and new balances.
	p.js(`door.event({ type: "event", n: 4, seq: 4, balance: "90", held: "10", more: true, positions: [],
			orders: [door.order(1, { state: "executed", open: "0", executed: "5", notional: "10" })], fills: [] });
		door.event({ type: "event", n: 4, seq: 4, balance: "90", held: "10",
			positions: [{ sym: "S", shares: "5", held: "0" }],
			orders: [door.order(3, { amount: "8", open: "8" })], fills: [door.fill(1)] })`)
	p.until(shownOrders + ` === "Buy 8 S · Sell 6 S"`)
	p.until(`document.querySelector("#own-fills tbody").textContent.includes("Bought 5 S") && ` +
		`document.querySelector("#own-balances tbody").textContent.replaceAll(/\s/g, "").startsWith("Dollars9010S50")`)

	// Event 5 is missing: the page subscribes from scratch and ignores further events of the old subscription.
	p.js(`door.event({ type: "event", n: 6, seq: 6, balance: "1", held: "0", positions: [], orders: [], fills: [] })`)
	p.until(`door.sent.filter((m) => m.method === "subscribe").length === 2`)
	require.JSONEq(t, `{"channels":["account.7"]}`, p.sends("subscribe"))
	p.js(`door.event({ type: "event", n: 7, seq: 7, balance: "2", held: "0", positions: [], orders: [], fills: [] });
		door.answer("subscribe", { seq: 8, channels: ["account.7"] });
		door.event(door.snapshot(8, { last_fill: 2 }))`)
	p.until(`door.sent.filter((m) => m.method === "fills.list").length === 2`)
	p.js(`door.answer("fills.list", { seq: 8, last_fill: 2, more: false, fills: [door.fill(1), door.fill(2)] })`)
	p.until(`document.getElementById("orders-count").textContent === "0" && ` +
		`document.querySelectorAll("#own-fills tbody tr").length === 2`)

	// The connection breaks: the page reconnects and subscribes from the newest event on.
	p.js(`door.newest.end(1006, "")`)
	p.until(`document.getElementById("said").textContent.startsWith("There is no connection for orders")`)
	p.until(`door.opened === 2`)
	require.JSONEq(t, `{"channels":["account.7"],"after":8}`, p.sends("subscribe"))
	p.js(`door.answer("subscribe", { seq: 9, channels: ["account.7"] });
		door.event({ type: "event", n: 9, seq: 9, balance: "77", held: "0", positions: [], orders: [door.order(9)],
			fills: [] })`)
	p.until(shownOrders + ` === "Buy 5 S"`)
	require.Equal(t, "Connected again.", p.text("said"))

	// The connection goes silent without being closed: unanswered pings make the page reconnect.
	p.js(`door.pings = false`)
	p.until(`door.opened >= 3`)
	p.quiet()
}

func TestThePageSendsAnOrderOnceWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	p := stubbed(t, "")
	begin := func() {
		p.sends("subscribe")
		p.js(`door.answer("subscribe", { seq: 3, channels: ["account.7"] })`)
	}
	p.takes("7")
	begin()
	p.js(`door.event(door.snapshot(3))`)
	p.until(`document.getElementById("place").textContent.startsWith("Buy 10 S")`)
	place := func() (ref string) {
		p.js(`document.getElementById("limit").value = "1.50"; document.getElementById("place").click()`)
		p.sends("order.place")
		p.js(`window.placed = door.call("order.place").params`)
		require.Equal(t, `{"account":"7","sym":"S","amount":"10","limit":"1.50"}`,
			value[string](p, `JSON.stringify({ ...placed, ref: undefined })`))
		return value[string](p, `placed.ref`)
	}
	ref := place()
	require.Regexp(t, `^page-[0-9a-f]{24}$`, ref)
	p.js(`door.newest.end(1006, "")`)
	p.until(`door.opened === 2`)
	begin()
	require.JSONEq(t, `{"account":"7","ref":"`+ref+`"}`, p.sends("order.get"))
	p.js(`door.refuse("order.get", 1000, "unknown_order", "account 7 has no order with ref x")`)
	p.until(`document.getElementById("said").textContent.includes("was not placed")`)
	require.Equal(t, ref, place(), "the same order again")

	p.js(`door.newest.end(1006, "")`)
	p.until(`door.opened === 3`)
	begin()
	p.sends("order.get")
	p.js(`door.answer("order.get", { seq: 4, order: door.order(5, { amount: "10", state: "executed",
		executed: "10", open: "0", notional: "15" }) })`)
	p.until(`document.getElementById("said").textContent.endsWith("was placed. Bought 10 S for 15 dollars.")`)
	require.NotEqual(t, ref, place(), "another order")
	p.js(`door.refuse("order.place", 1000, "insufficient_funds", "insufficient <b>funds</b>: buying 10")`)
	p.until(`document.getElementById("said").textContent === "Insufficient <b>funds</b>: buying 10."`)
	p.quiet()
}

// TestThePageForgetsATokenWithTheTab presents a token of several accounts. A script makes the page believe that the
// exchange requires tokens.
func TestThePageForgetsATokenWithTheTab(t *testing.T) {
	t.Parallel()
	p := stubbed(t, `{
		const parse = JSON.parse;
		JSON.parse = (text) => {
			const value = parse(text);
			if (value?.orders?.tokens === false) value.orders.tokens = true;
			return value;
		};
	}`)
	p.until(`document.getElementById("token").checkVisibility()`)
	require.False(t, value[bool](p, `document.getElementById("open-practice").checkVisibility()`))
	show := func(token string) {
		p.js(`document.getElementById("token").value = %q; document.getElementById("choose-go").click()`, token)
		require.JSONEq(t, `{"token":"`+token+`"}`, p.sends("auth"))
	}
	show("wrong")
	p.js(`door.refuse("auth", 1001, "unauthenticated", "the token is not known"); door.newest.end(4001, "token")`)
	p.until(`document.getElementById("said").textContent === "The token is not known."`)

	show("secret")
	p.js(`door.answer("auth", { required: true, scope: "account", accounts: ["6", "7"] })`)
	p.until(`document.getElementById("account").checkVisibility() && ` +
		`[...document.querySelectorAll("#accounts option")].map((o) => o.value).join() === "6,7"`)
	p.takes("7")
	p.sends("subscribe")
	require.Equal(t, 2, value[int](p, `door.opened`), "the connection of the token is kept")
	p.js(`door.answer("subscribe", { seq: 3, channels: ["account.7"] }); door.event(door.snapshot(3))`)
	p.until(`document.getElementById("ticket").checkVisibility() && document.getElementById("who-id").textContent === "7"`)
	require.NotContains(t, value[string](p, `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, `+
		`document.cookie, location.href, document.documentElement.outerHTML, `+
		`document.getElementById("token").value])`), "secret")

	// After a broken connection the page presents the token again. After the exchange has closed the connection
	// because of the token, the page does not reconnect.
	p.js(`door.newest.end(1006, "")`)
	p.until(`door.opened === 3`)
	require.JSONEq(t, `{"token":"secret"}`, p.sends("auth"))
	p.js(`door.newest.end(4001, "the token was revoked")`)
	p.until(`document.getElementById("said").textContent.includes("the token was revoked") && ` +
		`document.getElementById("token").checkVisibility()`)
	require.Equal(t, 3, value[int](p, `door.opened`))
	p.quiet()
}
