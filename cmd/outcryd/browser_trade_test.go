//go:build browser

package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"outcry/internal/auth"
	"outcry/internal/door/xml/wire"
)

// said waits until the ticket's message matches a regular expression, and returns the match and its groups.
func (p *tab) said(expression string) []string {
	p.t.Helper()
	p.until(fmt.Sprintf(`new RegExp(%q).test(document.getElementById("said").textContent)`, expression))
	return regexp.MustCompile(expression).FindStringSubmatch(p.text("said"))
}

// practises opens a practice account with the mouse, and returns its id.
func (p *tab) practises() (account string) {
	p.t.Helper()
	p.until(`document.getElementById("open-practice").checkVisibility()`)
	p.do(chromedp.Click(chromedp.CSS("#open-practice")))
	account = p.said(`^Account (\d+) is yours`)[1]
	p.until(`document.getElementById("place").textContent.startsWith("Buy ")`)
	return account
}

// types replaces the text of a field.
func (p *tab) types(field, text string) {
	p.t.Helper()
	p.js(`document.getElementById(%q).select()`, field)
	p.do(chromedp.Focus(chromedp.CSS("#"+field)), chromedp.KeyEvent(text))
}

// asks sends queries of an account over XML and returns the reply.
func (s *program) asks(t *testing.T, account, queries string) string {
	t.Helper()
	return dial(t, s.xml).must(t, `<transactions id="`+account+`">`+queries+`</transactions>`)
}

func TestThePageTradesInAMarket(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	startBots(t, server.xml, true, "SPY")
	p := open(t, server, "#SPY")
	p.until(`document.querySelectorAll("#asks tr[data-price]").length > 3 && ` +
		`document.querySelectorAll("#bids tr[data-price]").length > 3`)
	p.picture("trade-begin", 1440, 900, "light")
	p.within("#open-practice", "#price-chart", "#ladder", "footer .health")
	account := p.practises()
	p.until(`document.activeElement.id === "shares"`)
	require.NotEmpty(t, value[string](p, `document.getElementById("limit").value`), "a price is suggested")

	click := func(selector string) { p.do(chromedp.Click(chromedp.CSS(selector))) }
	click(`.switch label:has([value="market"])`)
	click("#place")
	p.said(`^Bought 10 SPY for [0-9.,]+ dollars\.$`)
	click(`.switch label:has([value="sell"])`)
	p.types("shares", "4")
	click("#place")
	p.said(`^Sold 4 SPY for [0-9.,]+ dollars\.$`)

	// A resting order is reduced, repriced and canceled.
	click(`.switch label:has([value="buy"])`)
	click(`.switch label:has([value="limit"])`)
	p.types("shares", "9")
	p.types("limit", "1.5")
	click("#place")
	id := p.said(`^Order (\d+) is open: it buys 9 SPY at 1\.5\.$`)[1]
	p.until(shownOrders + ` === "Buy 9 SPY"`)
	p.hasNames("button", "radio", "textbox", "combobox", "tab", "tabpanel", "table", "rowheader")
	p.picture("trade-open", 1440, 900, "dark")
	p.within("#place", "#own-orders", "#ladder")
	amend := func(field int, text string) {
		click(".acts button")
		p.js(`{ const input = document.querySelectorAll(".amend input")[%d]; input.focus(); input.select(); }`, field)
		p.do(chromedp.KeyEvent(text), chromedp.KeyEvent(kb.Enter))
	}
	amend(0, "7")
	p.said(`^Order ` + id + ` was reduced\. Order ` + id + ` is open: it buys 7 SPY at 1\.5\.$`)
	p.until(shownOrders + ` === "Buy 7 SPY"`)
	amend(1, "2.25")
	id = p.said(`^Order ` + id + ` was replaced by order (\d+)\.`)[1]
	p.until(`document.querySelector("#own-orders .limit").textContent === "2.25"`)
	require.Contains(t, server.asks(t, account, "<orders/>"), `<order id="`+id+`" sym="SPY" amount="7" limit="2.25"`)
	click(".acts button:last-child")
	p.said(`^Order ` + id + `: 7 were canceled: by you\.$`)
	p.until(shownOrders + ` === ""`)

	// The page shows the balances that the exchange reports for the account.
	free := regexp.MustCompile(`balance="([0-9.]+)" held="0"><position sym="SPY" shares="1006" held="0"/>`).
		FindStringSubmatch(server.asks(t, account, "<account/>"))
	require.NotNil(t, free)
	click("#tab-balances")
	p.until(fmt.Sprintf(`[...document.querySelectorAll("#own-balances tbody tr")].map((row) => `+
		`[...row.cells].slice(0, 3).map((c) => (c.title || c.textContent).replaceAll(",", "")).join(" ")).join(" · ") `+
		`=== "Dollars %s 0 · SPY 1006 0"`, free[1]))
	click("#tab-fills")
	fills := strings.Count(server.asks(t, account, "<fills/>"), "<fill ")
	p.until(fmt.Sprintf(`document.querySelectorAll("#own-fills tbody tr").length === %d`, fills))

	// After a reload the tab still has its account.
	p.do(chromedp.Reload())
	p.until(fmt.Sprintf(`document.getElementById("who-id").textContent === %q && `+
		`document.querySelectorAll("#own-fills tbody tr").length === %d`, account, fills))
	p.quiet()
}

// TestThePageTradesByKeyboard starts from an empty exchange and uses only the keyboard.
func TestThePageTradesByKeyboard(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	p := open(t, server, "")
	p.until(`document.getElementById("empty-open").checkVisibility()`)
	press := func(keys ...string) {
		for _, key := range keys {
			p.do(chromedp.KeyEvent(key))
		}
	}
	focused := func(id string) {
		p.until(fmt.Sprintf(`document.activeElement.id === %q`, id))
		outline := value[string](p, `getComputedStyle(document.activeElement).outlineStyle`)
		require.NotEqual(t, "none", outline, "focus is seen")
	}
	press(kb.Tab, kb.Enter, kb.Tab) // follows the "skip to the market" link
	focused("empty-open")
	press(kb.Enter)
	p.said(`^Account \d+ is yours`)
	focused("shares")
	p.until(`document.getElementById("place").textContent === "Buy 10 SPY" && ` +
		`document.getElementById("limit").value === "" && document.getElementById("hint").checkVisibility()`)
	p.picture("trade-empty", 1366, 768, "light")
	press(kb.Enter)
	p.said(`^At what price\?`)
	focused("limit")
	press("50", kb.ArrowUp, kb.ArrowUp, kb.Enter)
	p.said(`^Order 1 is open: it buys 10 SPY at 50\.02\.$`)
	shift := chromedp.KeyModifiers(chromedp.ModifierShift)
	shiftTab := func() { p.do(chromedp.KeyEvent(kb.Tab, shift)) }
	p.js(`document.getElementById("shares").focus()`)
	shiftTab()
	shiftTab()
	require.Equal(t, "buy", value[string](p, `document.activeElement.value`))
	press(kb.ArrowRight)
	require.Equal(t, "sell", value[string](p, `document.activeElement.value`))
	p.js(`document.getElementById("limit").select()`)
	press(kb.Enter)
	p.said(`^Sold 10 SPY for 500\.2 dollars\.$`)
	p.until(`document.getElementById("last").textContent === "50.02" && ` +
		`document.querySelectorAll("#tape tr").length === 1`)
	p.quiet()
}

// TestThePageSaysWhyAnOrderIsRefused sends orders that the exchange refuses.
func TestThePageSaysWhyAnOrderIsRefused(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	dial(t, server.xml).must(t, opening)
	p := browse(t, "http://"+server.http+"/#S")
	p.takes("3")
	p.said(`^There is no account 3\.$`)
	p.takes("1")
	p.until(`document.getElementById("place").textContent === "Buy 10 S"`)
	for _, step := range []struct{ shares, limit, said string }{
		{"ten", "5", `^Shares "ten" is not a number like 10 or 0\.5\.$`},
		{"1.2.3", "5", `^Amount "1\.2\.3" is not a decimal number\.$`},
		{"10", "-5", `^Limit "-5" `},
		{"10", "1000000", `^Insufficient funds: `},
	} {
		p.types("shares", step.shares)
		p.types("limit", step.limit)
		p.do(chromedp.Click(chromedp.CSS("#place")))
		p.said(step.said)
		require.True(t, value[bool](p, `document.getElementById("said").classList.contains("bad")`))
	}
	_, err := operatorOf(server).Halt(background, "S", "news")
	require.NoError(t, err)
	p.until(`!document.getElementById("halted").hidden`) // the notice shifts the form that is clicked next
	p.types("limit", "5")
	p.do(chromedp.Click(chromedp.CSS("#place")))
	p.said(`^Symbol S is halted`)
	p.until(shownOrders + ` === ""`)
	p.quiet()
}

// TestThePageTradesOverAKill kills and restarts the exchange while the page trades.
func TestThePageTradesOverAKill(t *testing.T) {
	t.Parallel()
	common, _ := dataFlags(t)
	flags := againAt(t, common)
	server := start(t, flags...)
	dial(t, server.xml).must(t, opening)
	p := browse(t, "http://"+server.http+"/#S")
	p.takes("1")
	p.until(`document.getElementById("place").textContent === "Buy 10 S"`)
	place := func(limit string) {
		p.types("limit", limit)
		p.do(chromedp.Click(chromedp.CSS("#place")))
	}
	place("5")
	p.until(shownOrders + ` === "Buy 10 S"`)
	server.kill()
	p.said(`^There is no connection for orders`)
	server = start(t, flags...)
	p.said(`^Connected again\.$`)
	server.asks(t, "2", `<order sym="S" amount="-4" limit="5"/>`)
	p.until(`document.querySelector("#own-orders .open").textContent === "6" && ` +
		`document.querySelectorAll("#own-fills tbody tr").length === 1`)
	// The market data reconnects by itself, and the page is laid out again.
	p.until(`document.getElementById("state").textContent === "Live" && document.getElementById("banner").hidden && ` +
		`!document.getElementById("view").hidden`)
	place("4")
	p.until(`document.querySelectorAll("#own-orders .what").length === 2`)
	p.do(chromedp.Click(chromedp.CSS("#cancel-all")))
	p.said(`^2 orders were canceled\.$`)
	p.until(shownOrders + ` === ""`)
}

// TestThePageTradesWithAToken opens the page with a read-only token, which the browser presents by itself, and trades
// with another token, which is pasted.
func TestThePageTradesWithAToken(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	data := strings.TrimPrefix(flags[0], "--data=")
	tokens := tokensOf(t, data, "admin", "read")
	scope, err := auth.ParseScope("account:1")
	require.NoError(t, err)
	own, entry, err := auth.Add(data, scope, time.Time{}, "")
	require.NoError(t, err)
	server := start(t, append(flags, "--auth")...)
	c := dial(t, server.xml)
	c.must(t, string(wire.AppendAuth(nil, tokens["admin"])))
	c.must(t, opening)

	p := browse(t, "http://reader:"+tokens["read"]+"@"+server.http+"/page/icon.svg")
	p.do(chromedp.Navigate("http://" + server.http + "/#S"))
	p.until(`document.getElementById("token").checkVisibility()`)
	paste := func(token string) {
		p.types("token", token)
		p.do(chromedp.KeyEvent(kb.Enter))
	}
	paste("outc_nonsense")
	p.said(`^.*auth`)
	require.Empty(t, value[string](p, `document.getElementById("token").value`))
	paste(tokens["read"])
	p.takes("1")
	p.said(`^The token of this connection is not for account 1\.$`)
	paste(own)
	p.until(`document.getElementById("who-id").textContent === "1" && ` +
		`document.getElementById("place").textContent === "Buy 10 S"`)
	p.types("limit", "5")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.said(`^Order 1 is open: it buys 10 S at 5\.$`)
	require.NoError(t, auth.Revoke(data, entry.ID))
	p.said(`^The exchange has ended the connection: `)
	p.until(`document.getElementById("token").checkVisibility()`)
}

// TestThePageHasCandles points at a candle and changes it by a trade.
func TestThePageHasCandles(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	dial(t, server.xml).must(t, opening)
	trade := func(shares int, price string) {
		server.asks(t, "2", fmt.Sprintf(`<order sym="S" amount="-%d" limit="%s"/>`, shares, price))
		server.asks(t, "1", fmt.Sprintf(`<order sym="S" amount="%d" limit="%[2]s"/>`, shares, price))
	}
	for i, price := range []string{"5", "7.5", "4", "6"} {
		trade(i+1, price)
	}
	p := open(t, server, "#S")
	p.until(`document.querySelectorAll("#tape tr").length === 4`)
	reads := func(want string) {
		p.until(fmt.Sprintf(`(() => {
			const over = document.querySelector("#price-chart .u-over");
			const { left, top } = over?.getBoundingClientRect() ?? {};
			over?.dispatchEvent(new MouseEvent("mousemove", { clientX: left + 4, clientY: top + 9, bubbles: true }));
			return document.getElementById("price-at").textContent.endsWith(%q);
		})()`, want))
	}
	choose := func(interval string) {
		p.js(`const select = document.getElementById("interval");
			select.value = %q;
			select.dispatchEvent(new Event("change"))`, interval)
	}
	choose("1d")
	reads("  open 5, high 7.5, low 4, close 6, volume 10")
	require.Contains(t, value[string](p, `document.getElementById("price-chart").ariaLabel`), "1 candle of 1d")
	trade(20, "9")
	reads("  open 5, high 9, low 4, close 9, volume 30")
	choose("")
	p.until(`document.getElementById("price-chart").ariaLabel.startsWith("Price over time")`)
	p.do(chromedp.Reload())
	p.until(`document.getElementById("interval").value === ""`)
	choose("1m")
	p.until(`/^[12] candles? of 1m/.test(document.getElementById("price-chart").ariaLabel)`)
	require.Len(t, value[[]string](p, `[...document.querySelectorAll("canvas")].map(() => "")`), 2)
	p.quiet()
}
