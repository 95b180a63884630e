//go:build browser

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
	"outcry/internal/exchange"
	"outcry/internal/lab/demo"
)

// tab is the market page in a headless Chromium. It collects the browser's complaints.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string // guarded by mu
}

// browse opens an address in a browser that is closed when the test ends.
func browse(t *testing.T, url string) *tab {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.WindowSize(1440, 900),
		chromedp.WSURLReadTimeout(patience))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium refuses to run sandboxed as root
	}
	ctx, cancel := chromedp.NewExecAllocator(background, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, p.hear))
	call(p, log.Enable, cdp.Empty{})
	p.do(chromedp.Navigate(url))
	return p
}

// hear records exceptions, console messages and log entries of the browser.
func (p *tab) hear(event any) {
	var text string
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("exception: %s %+v", event.ExceptionDetails.Text, event.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		text = fmt.Sprintf("console %s: %+v", event.Type, event.Args)
	case *log.EventEntryAdded:
		text = fmt.Sprintf("%s %s: %s %s", event.Entry.Source, event.Entry.Level, event.Entry.Text, event.Entry.URL)
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.complaints = append(p.complaints, text)
}

// quiet requires that the browser reported no error, no warning and no violation of the content security policy.
func (p *tab) quiet() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(p.t, p.complaints)
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	require.NoError(p.t, chromedp.Do(p.ctx, steps...))
}

// call runs a command of the DevTools protocol.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	r, err := chromedp.Call(p.ctx, command, params)
	require.NoError(p.t, err)
	return r
}

// value evaluates a JavaScript expression and returns its value.
func value[T any](p *tab, js string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](js))
	require.NoError(p.t, err, js)
	return v
}

// until waits until a JavaScript expression is true.
func (p *tab) until(js string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return value[bool](p, js) }, patience, 20*time.Millisecond, js)
}

// text returns the text of the element with an id.
func (p *tab) text(id string) string {
	p.t.Helper()
	return value[string](p, fmt.Sprintf(`document.getElementById(%q).textContent`, id))
}

// prefer sets the color scheme that the system prefers, "dark" or "light".
func (p *tab) prefer(scheme string) {
	p.t.Helper()
	call(p, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// shownLadder returns the ladder's levels, best first, as the page shows them.
const shownLadder = `(() => {
	const side = (id) => [...document.querySelectorAll("#" + id + " tr")]
		.map((row) => [row.cells[0].textContent, row.cells[1].textContent].map((s) => s.replaceAll(",", "")))
		.filter(([price]) => price !== "");
	return { bids: side("bids"), asks: side("asks").reverse() };
})()`

// levels holds the price levels of both sides of a book, best first.
type levels struct {
	Bids [][2]string `json:"bids"`
	Asks [][2]string `json:"asks"`
}

// fetch gets a path of the market API and decodes the answer.
func fetch(t *testing.T, addr, path string, into any) {
	t.Helper()
	r, err := http.Get("http://" + addr + path)
	require.NoError(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.StatusCode, "%s", b)
	require.NoError(t, json.Unmarshal(b, into))
}

// equalsBook waits until the ladder equals the book that the API returns, and returns its levels.
func (p *tab) equalsBook(addr, sym string) (l levels) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		var book levels
		fetch(p.t, addr, "/api/v1/book/"+sym+"?depth=14", &book)
		l = value[levels](p, shownLadder)
		return fmt.Sprint(l) == fmt.Sprint(book)
	}, patience, 20*time.Millisecond)
	return l
}

// startBots lets bots trade on an exchange until the returned function is called.
func startBots(t *testing.T, addr string, leave bool, symbols ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(background)
	done := make(chan error, 1)
	go func() {
		_, err := demo.Run(ctx, demo.Options{Addr: addr, Timeout: patience, Symbols: symbols, Seed: 3, Rate: 200, Makers: 2,
			Takers: 2, Noise: 2,
			AccountPrefix: "000", LeaveOrders: leave, Report: io.Discard, ReportEvery: time.Hour})
		done <- err
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

func TestThePageShowsALivingMarket(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	stop := startBots(t, server.xml, true, "SPY", "QQQ", "IWM")
	p := browse(t, "http://"+server.http)

	p.until(`document.querySelectorAll("#tape tr").length > 5`)
	require.Contains(t, value[string](p, `location.hash`), "#", "a symbol is chosen")
	before := p.text("trade-count")
	p.until(fmt.Sprintf(`document.getElementById("trade-count").textContent !== %q`, before))
	p.until(`document.querySelectorAll("#bids th:not(:empty)").length > 5 && ` +
		`document.querySelectorAll("#asks th:not(:empty)").length > 5`)
	p.until(`document.getElementById("orders-rate").textContent !== "–" && ` +
		`document.getElementById("p99").textContent.endsWith("s")`)
	p.until(`document.querySelectorAll("canvas").length === 2 && ` +
		`document.getElementById("price-chart").ariaLabel.includes("low")`)
	p.until(`document.getElementById("state").textContent === "Live"`)

	// Trading stops, so that the page can be compared with the API.
	stop()
	sym := p.text("sym")
	p.equalsBook(server.http, sym)
	var tape struct {
		Trades []struct{ Price, Shares string }
	}
	fetch(t, server.http, "/api/v1/trades/"+sym+"?limit=1", &tape)
	want := tape.Trades[0].Price + " " + tape.Trades[0].Shares
	p.until(fmt.Sprintf(`[...document.querySelector("#tape tr").cells].slice(1, 3).map((c) => `+
		`c.textContent.replaceAll(",", "")).join(" ") === %q`, want))
	p.quiet()
}

func TestThePageShowsWhatQueriesTell(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	c := dial(t, server.xml)
	c.must(t, `<create><account id="1" balance="1000000"/><symbol sym="ABC"><account id="1">1000</account></symbol>`+
		`</create>`)
	limits := []string{"12.5", "12.5", "12.25", "11", "13", "13.125", "13.125", "20"}
	amounts := []string{"10", "2.5", "40", "7", "-30", "-5", "-0.5", "-100"}
	orders := wire.NewTransactions("1")
	for i := range limits {
		orders.Order("ABC", amounts[i], limits[i])
	}
	orders.Order("ABC", "12", "13") // executes against part of the sell order at 13
	opened, err := wire.ParseReply([]byte(c.must(t, string(orders.Append(nil)))))
	require.NoError(t, err)

	queries := wire.NewTransactions("1")
	for _, a := range opened {
		queries.Query(a.ID)
	}
	status, err := wire.ParseReply([]byte(c.must(t, string(queries.Append(nil)))))
	require.NoError(t, err)
	open := map[string]string{}
	for i := range limits {
		open[limits[i]] += status[i].Open + " "
	}
	require.Equal(t, map[string]string{"12.5": "10 2.5 ", "12.25": "40 ", "11": "7 ", "13": "18 ", "13.125": "5 0.5 ",
		"20": "100 "}, open)

	p := browse(t, "http://"+server.http+"/#ABC")
	p.until(`document.querySelector("#asks th:not(:empty)") !== null`)
	require.Equal(t, levels{
		Bids: [][2]string{{"12.5", "12.5"}, {"12.25", "40"}, {"11", "7"}},
		Asks: [][2]string{{"13", "18"}, {"13.125", "5.5"}, {"20", "100"}},
	}, p.equalsBook(server.http, "ABC"))
	require.Equal(t, "0.5", p.text("spread"))
	require.Equal(t, "13", p.text("last"))
	p.until(`document.querySelectorAll("#tape tr").length === 1`)
	require.Contains(t, p.text("tape"), "buyer")
	p.quiet()
}

func TestThePageComesBackAfterACrash(t *testing.T) {
	t.Parallel()
	common, _ := dataFlags(t)
	flags := againAt(t, common)
	server := start(t, flags...)
	dial(t, server.xml).must(t,
		`<create><account id="1" balance="1000000"/><symbol sym="ABC"><account id="1">1000</account></symbol></create>`)
	order := func(amount, limit string) {
		dial(t, server.xml).must(t, string(wire.NewTransactions("1").Order("ABC", amount, limit).Append(nil)))
	}
	order("10", "5")
	order("-8", "6")
	order("3", "6")
	p := browse(t, "http://"+server.http)
	p.until(`document.querySelectorAll("#tape tr").length === 1`)
	require.Equal(t, levels{Bids: [][2]string{{"5", "10"}}, Asks: [][2]string{{"6", "5"}}},
		p.equalsBook(server.http, "ABC"))

	// Record every text of the banner, which a screen reader would announce, and count the page's connection attempts.
	p.do(chromedp.Evaluate[chromedp.Void](`(() => {
		window.heard = [];
		new MutationObserver(() => heard.push(document.getElementById("banner").textContent))
			.observe(document.getElementById("banner"), { childList: true });
		// The page draws once a frame: it asks why only when it has drawn that it is lost.
		const ask = window.fetch;
		window.fetch = async (...what) => {
			while (heard.length === 0) await new Promise(requestAnimationFrame);
			return ask(...what);
		};
		window.tries = 0;
		window.EventSource = class extends EventSource { constructor(url) { super(url); tries++; } };
	})()`))

	server.kill()
	p.until(`document.body.classList.contains("stale") && !document.getElementById("banner").hidden`)
	require.Equal(t, "Disconnected", p.text("state"))
	require.Contains(t, p.text("banner"), "Trying again")
	require.Equal(t, "0.7", value[string](p, `getComputedStyle(document.querySelector(".book")).opacity`),
		"what is old looks old")
	p.until(`document.title === "Disconnected · Outcry"`)
	p.until(`tries >= 3 && heard.length >= 2`)
	require.Contains(t, p.text("banner"), "The exchange cannot be reached")
	require.Len(t, value[[]string](p, `heard`), 2, "that it is lost and why, and nothing for each try")

	server = start(t, flags...)
	order("-4", "5")
	order("20", "5.5")
	p.until(`!document.body.classList.contains("stale") && document.getElementById("banner").hidden`)
	p.until(`document.querySelectorAll("#tape tr").length === 2`)
	require.Equal(t, levels{Bids: [][2]string{{"5.5", "20"}, {"5", "6"}}, Asks: [][2]string{{"6", "5"}}},
		p.equalsBook(server.http, "ABC"))
	require.Equal(t, "Live", p.text("state"))
	p.until(`document.title === "ABC 5 · Outcry"`)
	p.until(`document.getElementById("announce").textContent.startsWith("Connected again. ABC: last ")`)
}

// TestThePageHasNoOldPriceInItsTitle: a hidden page draws nothing, so its title must not keep a price.
func TestThePageHasNoOldPriceInItsTitle(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	c := dial(t, server.xml)
	c.must(t, `<create><account id="1" balance="1000000"/><symbol sym="ABC"><account id="1">1000</account></symbol>`+
		`</create>`)
	c.must(t, `<transactions id="1"><order sym="ABC" amount="9" limit="5"/><order sym="ABC" amount="-1" limit="5"/>`+
		`</transactions>`)
	p := browse(t, "http://"+server.http+"/#%") // a truncated link, which names no symbol
	p.until(`document.title === "ABC 5 · Outcry"`)
	hide := func(hidden bool) {
		p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`
			Object.defineProperty(document, "hidden", { value: %t, configurable: true });
			document.dispatchEvent(new Event("visibilitychange"))`, hidden)))
	}
	hide(true)
	require.Equal(t, "ABC · Outcry", value[string](p, `document.title`))
	hide(false)
	p.until(`document.title === "ABC 5 · Outcry"`)

	// A page that is hidden from the start, such as a tab opened in the background, opens no connection, because a
	// browser has only six per host.
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: `
		Object.defineProperty(document, "hidden", { value: true, configurable: true });
		window.streams = 0;
		window.EventSource = class extends EventSource { constructor(url) { super(url); streams++; } };`})
	p.do(chromedp.Reload())
	p.until(`document.readyState === "complete"`)
	require.Zero(t, value[int](p, `streams`))
	hide(false)
	p.until(`streams === 1 && document.title === "ABC 5 · Outcry"`)
	p.quiet()
}

// TestThePageHasMoreSymbolsThanOneEvent makes more symbols than fit into the first event of the stream.
func TestThePageHasMoreSymbolsThanOneEvent(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	c := dial(t, server.xml)
	for first := 0; first < 10_500; first += 500 {
		var create strings.Builder
		for i := first; i < first+500; i++ {
			fmt.Fprintf(&create, `<symbol sym="A%05d"/>`, i)
		}
		c.must(t, "<create>"+create.String()+"</create>")
	}
	c.must(t, `<create><account id="1" balance="1000000"/><symbol sym="ZLAST"><account id="1">1000</account></symbol>`+
		`</create>`)
	c.must(t, `<transactions id="1"><order sym="ZLAST" amount="9" limit="5"/><order sym="ZLAST" amount="-1" limit="5"/>`+
		`</transactions>`)

	p := browse(t, "http://"+server.http)
	there := `document.getElementById("sym").textContent === "ZLAST" && document.getElementById("empty").hidden && ` +
		`document.querySelectorAll("#tape tr").length === 1`
	p.until(there) // the page opens the symbol that is traded most
	p.equalsBook(server.http, "ZLAST")
	p.do(chromedp.Reload()) // now the address names the symbol
	p.until(there)
	p.until(`document.getElementById("symbols-more").textContent === "and 10,201 more: search finds them"`)

	p.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("symbols").scrollTop = 1000`))
	c.must(t, `<create><symbol sym="A0000NEW"/></create>`)
	p.until(`document.getElementById("symbol-A0000NEW") !== null`)
	require.Equal(t, 1000, value[int](p, `document.getElementById("symbols").scrollTop`),
		"whoever reads the list goes on where he was")
	p.do(chromedp.Focus(chromedp.CSS("#search")), chromedp.KeyEvent("zlast"))
	p.until(`document.querySelectorAll("#symbols li").length === 1`)
	p.quiet()
}

func TestThePageNoticesThatNothingComes(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	dial(t, server.xml).must(t, `<create><symbol sym="ABC"/></create>`)
	p := browse(t, "http://"+server.http)
	p.until(`document.getElementById("state").textContent === "Live" && ` +
		`document.getElementById("sym").textContent === "ABC"`)
	require.NoError(t, server.cmd.Process.Signal(syscall.SIGSTOP)) // its connections stay open
	p.until(`document.body.classList.contains("stale")`)
	require.NoError(t, server.cmd.Process.Signal(syscall.SIGCONT))
	p.until(`!document.body.classList.contains("stale") && document.getElementById("state").textContent === "Live"`)
}

func TestThePageIsUsedWithTheKeyboard(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	c := dial(t, server.xml)
	c.must(t, `<create><account id="1" balance="1000000"/><symbol sym="AAA"/><symbol sym="BBB"/><symbol sym="CCC"/>`+
		`</create>`)
	for i, sym := range []string{"AAA", "BBB", "CCC"} {
		c.must(t, fmt.Sprintf(`<transactions id="1"><order sym="%s" amount="%d" limit="5"/></transactions>`, sym, i+1))
	}
	p := browse(t, "http://"+server.http+"/#AAA")
	bid := func(shares string) {
		p.until(fmt.Sprintf(`document.getElementById("bid-shares").textContent === %q`, shares))
	}
	bid("1")
	p.do(chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "Skip to the market", value[string](p, `document.activeElement.textContent`))
	require.NotEqual(t, "none", value[string](p, `getComputedStyle(document.activeElement).outlineStyle`), "focus is seen")
	p.do(chromedp.Focus(chromedp.CSS("#symbols")), chromedp.KeyEvent(kb.ArrowDown))
	p.until(`location.hash === "#BBB"`)
	bid("2")
	p.do(chromedp.KeyEvent(kb.End))
	bid("3")
	require.Equal(t, "symbol-CCC",
		value[string](p, `document.getElementById("symbols").getAttribute("aria-activedescendant")`))
	p.until(`document.getElementById("announce").textContent === "CCC: no trade yet, bid 5, no ask."`)
	// Send the key as a keyboard does: KeyEvent would insert the character even if the page prevents it.
	call(p, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: "keyDown", Key: "/", Text: "/"})
	p.do(chromedp.KeyEvent("bb"))
	require.Equal(t, "bb", value[string](p, `document.getElementById("search").value`))
	p.until(`document.querySelectorAll("#symbols li").length === 1`)
	p.do(chromedp.KeyEvent(kb.Enter))
	bid("2")
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#NONE"`))
	p.until(`document.getElementById("empty").textContent.includes("There is no symbol NONE") && ` +
		`!document.getElementById("empty").hidden`)
	c.must(t, `<create><symbol sym="NONE"/></create>`)
	p.until(`document.getElementById("empty").hidden && document.getElementById("sym").textContent === "NONE"`)
}

func TestThePageIsReadInTheDarkAndOnAPhone(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	startBots(t, server.xml, false, "SPY", "QQQ")
	p := browse(t, "http://"+server.http+"/#SPY")
	p.until(`document.querySelectorAll("#tape tr").length > 5`)
	const ground = `getComputedStyle(document.body).backgroundColor`
	const light, dark = "rgb(243, 245, 248)", "rgb(14, 19, 26)"
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { p.prefer("light") }, light},
		{func() { p.prefer("dark") }, dark},
		{func() { p.do(chromedp.Click(chromedp.CSS("#theme"))) }, light},
		{func() { p.do(chromedp.Reload()) }, light},
		{func() { p.do(chromedp.Click(chromedp.CSS("#theme"))) }, dark},
		{func() { p.prefer("light") }, dark},
	} {
		step.do()
		p.until(fmt.Sprintf("%s === %q", ground, step.want))
	}
	// Use a symbol whose name, prices and sizes have the maximum length.
	long := strings.Repeat("W", exchange.SymbolCharsMax)
	c := dial(t, server.xml)
	c.must(t, `<create><account id="1" balance="999999999999999999"/><symbol sym="`+long+`">`+
		`<account id="1">999999999999999999</account></symbol></create>`)
	c.must(t, string(wire.NewTransactions("1").Order(long, "-10000.12345678", "89999999999.12345678").
		Order(long, "10000000", "88888888888.12345678").
		Order(long, "0.00000001", "89999999999.12345678").Append(nil)))
	p.until(`document.getElementById("symbol-` + long + `") !== null`) // the exchange would not find it earlier
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#` + long + `"`))
	p.until(`document.querySelectorAll("#tape tr").length === 1`)
	for _, width := range []int64{360, 600, 800, 1100, 1440, 2560} {
		p.do(chromedp.EmulateViewport(width, 740))
		p.until(fmt.Sprintf(`innerWidth === %d`, width))
		require.Equal(t, width, value[int64](p, `document.documentElement.scrollWidth`), "nothing is wider than the page")
	}
	p.quiet()
}

// named are the accessibility roles whose elements must have a name; had are the roles that the page must contain.
var (
	named = []string{"button", "link", "searchbox", "textbox", "listbox", "option", "table", "region", "navigation",
		"main", "image", "figure", "heading", "columnheader", "rowheader", "radio", "radiogroup", "checkbox", "combobox",
		"tablist", "tab", "tabpanel"}
	had = []string{"button", "link", "searchbox", "listbox", "option", "table", "navigation", "main", "image", "figure",
		"heading", "columnheader", "rowheader", "banner", "contentinfo", "status", "tablist", "tab", "tabpanel",
		"combobox"}
)

func TestThePageHasANameForEverything(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	startBots(t, server.xml, false, "SPY", "QQQ")
	p := browse(t, "http://"+server.http+"/#SPY")
	p.until(`document.querySelectorAll("#tape tr").length > 5 && ` +
		`document.querySelectorAll("#bids th:not(:empty)").length > 2`)
	p.hasNames(had...)
}

// hasNames requires that the page has elements of the roles had, and that every element of a role in named has a name.
func (p *tab) hasNames(had ...string) {
	t := p.t
	t.Helper()
	roles := map[string]bool{}
	for _, node := range call(p, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{}).Nodes {
		if node.Ignored || node.Role == nil {
			continue
		}
		role := textOf(t, node.Role)
		roles[role] = true
		if slices.Contains(named, role) {
			require.NotEmpty(t, textOf(t, node.Name), "a %s has no name: %+v", role, node)
		}
	}
	for _, role := range had {
		require.True(t, roles[role], "no %s: %v", role, roles)
	}
}

// textOf returns the text of a property in the accessibility tree.
func textOf(t *testing.T, v *accessibility.Value) (text string) {
	t.Helper()
	if v != nil {
		require.NoError(t, json.Unmarshal(v.Value, &text))
	}
	return strings.TrimSpace(text)
}

func TestThePageShowsAHalt(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	dial(t, server.xml).must(t, opening)
	p := browse(t, "http://"+server.http+"/#S")
	p.until(`!document.getElementById("view").hidden && document.getElementById("halted").hidden`)
	_, err := operatorOf(server).Halt(background, "S", `<b>news</b>`)
	require.NoError(t, err)
	p.until(`!document.getElementById("halted").hidden`)
	require.Regexp(t, `^Halted since \d\d:\d\d:\d\d: <b>news</b>$`, p.text("halted"))
	require.Equal(t, "S halted", value[string](p, `document.querySelector("#symbol-S .name").textContent`))
	_, err = operatorOf(server).Resume(background, "S")
	require.NoError(t, err)
	p.until(`document.getElementById("halted").hidden && document.querySelector("#symbol-S .name").textContent === "S"`)
	p.quiet()
}
