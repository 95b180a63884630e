//go:build browser

package main

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

// screenshots names the directory in which TestThePageIsPictured stores its pictures.
var screenshots = flag.String("screenshots", "", "directory that pictures of the market page are written to")

// noteLabels is a script that makes each canvas record the texts drawn on it, with their positions.
const noteLabels = `{
	const { clearRect, fillText } = CanvasRenderingContext2D.prototype;
	CanvasRenderingContext2D.prototype.clearRect = function (...at) {
		this.canvas.labels = [];
		clearRect.apply(this, at);
	};
	CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
		const w = this.measureText(text).width;
		const left = { left: x, center: x - w / 2, right: x - w, start: x }[this.textAlign];
		if (text !== "") (this.canvas.labels ??= []).push({ text, left, right: left + w, y });
		fillText.call(this, text, x, y);
	};
}`

// faults is an expression that lists layout faults: texts that are cut off or overlap, and chart labels that are
// duplicated, overlap or are cut off.
const faults = `(() => {
	const bad = [];
	if (document.documentElement.scrollWidth > innerWidth) bad.push("the page is wider than the screen");
	const texts = [];
	for (const e of document.querySelectorAll("body *")) {
		if (!e.checkVisibility() || e.closest(".unseen, .skip, .uplot, option, noscript")) continue;
		for (const node of e.childNodes) {
			if (node.nodeType !== Node.TEXT_NODE || node.textContent.trim() === "") continue;
			const range = document.createRange();
			range.selectNodeContents(node);
			const r = range.getBoundingClientRect();
			if (r.width === 0) continue;
			let seen = true;
			for (let a = e; a !== document.body; a = a.parentElement) {
				const { overflowX, overflowY } = getComputedStyle(a);
				if (overflowX === "visible" || a.matches("pre")) continue;
				const b = a.getBoundingClientRect();
				const strip = a.id === "symbols" && overflowX === "auto";
				const long = e.matches(".label") && node.textContent.length > 12;
				if (!strip && !long && (r.right > b.right + 1 || r.left < b.left - 1)) bad.push("cut: " + node.textContent);
				if (overflowY === "hidden" && r.bottom > b.bottom + 1) bad.push("cut below: " + node.textContent);
				if (r.bottom > b.bottom || r.top < b.top || r.right > b.right + 1 || r.left < b.left - 1) {
					seen = false;
					break;
				}
			}
			if (!seen) continue;
			for (const { left, right, top, bottom } of range.getClientRects()) {
				texts.push({ text: node.textContent.trim(), left, right, top: top + 2, bottom: bottom - 2 });
			}
		}
	}
	const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom && b.top < a.bottom;
	const overlaps = (all) => all.forEach((a, i) => all.slice(0, i).forEach((b) => {
		if (meet(a, b)) bad.push("on each other: " + a.text + " and " + b.text);
	}));
	overlaps(texts);
	for (const canvas of document.querySelectorAll("canvas")) {
		if (!canvas.checkVisibility()) continue;
		const labels = canvas.labels.map((l) => ({ ...l, top: l.y - 5, bottom: l.y + 5 }));
		const all = labels.map((l) => l.text);
		for (const text of new Set(all)) {
			if (all.indexOf(text) !== all.lastIndexOf(text)) bad.push("twice on an axis: " + text);
		}
		for (const l of labels) if (l.left < 0 || l.right > canvas.width) bad.push("cut label: " + l.text);
		overlaps(labels);
	}
	return bad;
})()`

// open opens the market page in a browser whose canvases record their labels.
func open(t *testing.T, server *program, fragment string) *tab {
	t.Helper()
	p := browse(t, "about:blank")
	call(p, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: noteLabels})
	p.do(chromedp.Navigate("http://" + server.http + "/" + fragment))
	return p
}

// paletted reduces a picture to 256 colours: the 200 most frequent ones, and then those that differ most from the
// colours already chosen. The file becomes a third as large.
func paletted(t *testing.T, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	b, count := from.Bounds(), map[color.RGBA]int{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			count[color.RGBAModel.Convert(from.At(x, y)).(color.RGBA)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return count[b] - count[a] })
	const frequent, most = 200, 256
	var palette color.Palette
	for _, c := range colours[:min(len(colours), frequent)] {
		palette = append(palette, c)
	}
	for len(palette) < min(len(colours), most) {
		palette = append(palette, farthest(colours[frequent:], palette))
	}
	to := image.NewPaletted(b, palette)
	draw.Draw(to, b, from, b.Min, draw.Src)
	var out bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to))
	return out.Bytes()
}

// farthest returns the colour that differs most from the nearest colour of a palette.
func farthest(colours []color.RGBA, palette color.Palette) (found color.RGBA) {
	distance := -1
	for _, c := range colours {
		p := palette[palette.Index(c)].(color.RGBA)
		d := func(a, b uint8) int { return (int(a) - int(b)) * (int(a) - int(b)) }
		if n := d(c.R, p.R) + d(c.G, p.G) + d(c.B, p.B); n > distance {
			found, distance = c, n
		}
	}
	return found
}

// pictureBytesMax limits the size of a picture, because pictures are committed to the repository.
const pictureBytesMax = 150 << 10

// picture shows the page at a size, in the scheme "light" or "dark", and requires that it has no layout faults. It
// stores a screenshot if the flag is set.
func (p *tab) picture(name string, width, height int64, scheme string) {
	p.t.Helper()
	p.prefer(scheme)
	p.do(chromedp.EmulateViewport(width, height))
	p.until(fmt.Sprintf(`document.documentElement.dataset.theme === %q && innerWidth === %d`, scheme, width))
	p.until(`[...document.querySelectorAll(".plot")].every((plot) => !plot.checkVisibility() || ` +
		`plot.querySelector(".uplot").hidden || ` +
		`plot.querySelector(".uplot").clientWidth === Math.max(plot.clientWidth, 200))`)
	p.do(chromedp.Evaluate[chromedp.Void](`window.framesDrawn = 0;
		requestAnimationFrame(() => requestAnimationFrame(() => { window.framesDrawn = 2; }))`))
	p.until(`window.framesDrawn === 2`)
	if *screenshots != "" {
		taken, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		require.NoError(p.t, err)
		small := paletted(p.t, taken)
		require.Less(p.t, len(small), pictureBytesMax)
		require.NoError(p.t, os.WriteFile(filepath.Join(*screenshots, name+".png"), small, 0o600))
	}
	if f := value[[]string](p, faults); len(f) > 0 {
		p.t.Errorf("%s: %s", name, strings.Join(f, "\n"))
	}
}

// within requires that elements are visible without scrolling.
func (p *tab) within(selectors ...string) {
	p.t.Helper()
	for _, s := range selectors {
		if !value[bool](p, fmt.Sprintf(`(() => {
			const r = document.querySelector(%q).getBoundingClientRect();
			return r.height > 0 && r.top >= 0 && r.bottom <= innerHeight && r.right <= innerWidth;
		})()`, s)) {
			p.t.Errorf("%s is not on the first screen", s)
		}
	}
}

// runs executes the commands that an element shows, with the client program given.
func (p *tab) runs(client, id string) {
	p.t.Helper()
	for _, line := range strings.Split(p.text(id), "\n") {
		args, ok := strings.CutPrefix(line, "outcry ")
		require.True(p.t, ok, line)
		out, err := exec.CommandContext(background, client, strings.Fields(args)...).CombinedOutput()
		require.NoError(p.t, err, "%s: %s", line, out)
	}
}

func TestThePageFromEmptyToTheFirstTrade(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	client := filepath.Join(t.TempDir(), "outcry")
	out, err := exec.CommandContext(background, "go", "build", "-o", client, "outcry/cmd/outcry").CombinedOutput()
	require.NoError(t, err, "%s", out)

	p := open(t, server, "")
	p.until(`!document.getElementById("empty").hidden && document.getElementById("empty-address").textContent !== ""`)
	require.Equal(t, "outcry-lab --addr "+server.xml+" demo", p.text("empty-demo"))
	require.Contains(t, p.text("empty-address"), "Orders go to "+server.xml+".")
	p.picture("empty", 1366, 768, "light")
	p.within("#empty")
	require.True(t, value[bool](p, `document.getElementById("view").hidden`))
	p.picture("empty-phone", 390, 844, "light")
	p.within("#empty")

	p.runs(client, "empty-trade")
	p.until(`document.querySelectorAll("#tape tr").length === 1 && ` +
		`document.getElementById("last").textContent === "123.45"`)
	p.picture("first-trade-high", 1366, 1600, "light") // so high that the chart has ticks smaller than a price step
	p.picture("first-trade", 1366, 768, "light")
	require.Equal(t, "No open orders", p.text("ladder-spread"))
	p.within("#quote", "#price-chart", "#ladder")
	require.Equal(t, "No open orders.", value[string](p, `document.querySelector("#depth-chart .none").innerText`))
	require.True(t, value[bool](p, `document.querySelector("#depth-chart .uplot").hidden`), "its axes show old numbers")
	p.quiet()

	// For a symbol without orders the page says how to place one.
	require.True(t, value[bool](p, `document.getElementById("empty").hidden`))
	dial(t, server.xml).must(t, `<create><symbol sym="NEW"/></create>`)
	p.until(`document.getElementById("symbol-NEW") !== null`)
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#NEW"`))
	p.until(`!document.getElementById("hint").hidden && !document.getElementById("trades-none").hidden`)
	p.picture("no-orders", 1366, 768, "light")
	p.quiet()
}

// busy lets bots trade until a symbol has this many trades, and returns the page.
func busy(t *testing.T, server *program, trades int) *tab {
	t.Helper()
	startBots(t, server.xml, true, "SPY", "QQQ", "IWM", "DIA", "GLD", "TLT", "XLF", "EEM")
	p := open(t, server, "#SPY")
	p.until(fmt.Sprintf(`document.getElementById("price-chart").ariaLabel.includes("low") && `+
		`Number(document.getElementById("trade-count").textContent.replace(",", "")) > %d`, trades))
	return p
}

// rests clicks on a level of the book and places an order at its price.
func (p *tab) rests(side, level string) {
	p.t.Helper()
	p.do(chromedp.Click(chromedp.CSS(`.switch label:has([value="` + side + `"])`)))
	p.types("shares", "70")
	price := value[string](p, fmt.Sprintf(`(() => {
		const row = document.querySelector(%q);
		row.click();
		return row.dataset.price;
	})()`, level))
	require.Equal(p.t, price, value[string](p, `document.getElementById("limit").value`))
	p.do(chromedp.Click(chromedp.CSS("#place")))
	p.said(`^(Order \d+ is open|Bought|Sold)`)
}

// TestThePageIsPictured takes the pictures that the documents show.
func TestThePageIsPictured(t *testing.T) {
	t.Parallel()
	trades := 5
	if *screenshots != "" {
		trades = 450
	}
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	p := busy(t, server, trades)
	p.practises()
	p.rests("buy", "#bids tr:nth-child(6)")
	p.rests("sell", "#asks tr:nth-last-child(7)")
	p.picture("market-light", 1440, 900, "light")
	p.within("#quote", "#price-chart", "#ladder", "#bids", "#place", "#own-orders", "footer .health")
	p.picture("market-dark", 1440, 900, "dark")
	p.picture("market-phone", 390, 844, "dark")
	p.within("#quote", "#price-chart")
	require.Empty(t, strings.TrimSpace(p.text("banner")))
	p.quiet()
}

func TestThePageFitsScreensAndDiesHonestly(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	p := busy(t, server, 50)
	p.picture("laptop", 1366, 768, "light")
	p.within("#quote", "#price-chart", "#ladder", "#bids")
	p.picture("laptop-low", 1366, 640, "light")
	p.within("#quote", "#ladder", "#bids")
	p.picture("tablet", 900, 1200, "light")
	p.within("#quote", "#price-chart", "#ladder")
	p.picture("wide", 2560, 1300, "light")
	p.quiet()

	server.kill()
	p.until(`document.body.classList.contains("stale") && ` +
		`document.getElementById("banner").textContent.includes("cannot be reached")`)
	p.picture("dead", 1440, 900, "light")
	p.within("#banner", "#quote", "#price-chart")
}

func TestThePageOfManySymbolsIsPictured(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	c := dial(t, server.xml)
	c.must(t, `<create><account id="1" balance="999999999999999999"/></create>`)
	for i := range 200 {
		sym := fmt.Sprintf("S%03d", i)
		price, shares := fmt.Sprintf("%d.%02d", 10+i*7%300, i%100), fmt.Sprint(1+i*i*97)
		if i == 3 {
			price, shares = "89999999999.12345678", "10000000.12345678"
		}
		c.must(t, `<create><symbol sym="`+sym+`"><account id="1">999999999999999999</account></symbol></create>`)
		c.must(t, string(wire.NewTransactions("1").Order(sym, "-"+shares, price).Order(sym, shares, price).Append(nil)))
	}
	ladder := wire.NewTransactions("1")
	for i := range 30 {
		ladder.Order("S003", fmt.Sprintf("-%d000.12345678", 1+i*977), fmt.Sprintf("9%010d.12345678", i*1000))
		ladder.Order("S003", fmt.Sprintf("%d.5", 1+i), fmt.Sprintf("8%010d.87654321", 9999999999-i*1000))
		ladder.Order("S001", fmt.Sprintf("-%d", 100+i*17), fmt.Sprintf("%d", 17+i))
		ladder.Order("S001", fmt.Sprintf("%d", 100+i*13), fmt.Sprintf("%d.5", 16-i/2))
	}
	c.must(t, string(ladder.Append(nil)))
	for _, sym := range []string{"S001", "S002"} {
		_, err := operatorOf(server).Halt(background, sym, "a long reason, "+strings.Repeat("as people write them ", 7))
		require.NoError(t, err)
	}
	p := open(t, server, "#S005")
	p.until(`document.querySelectorAll("#symbols li").length === 200 && ` +
		`document.querySelectorAll("#tape tr").length === 1`)
	p.picture("symbols-200", 1366, 768, "light")
	for _, sym := range []string{"S003", "S001"} {
		name := map[string]string{"S003": "wide-prices", "S001": "halted"}[sym]
		p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#` + sym + `"`))
		p.until(`document.getElementById("sym").textContent === "` + sym + `" && ` +
			`document.querySelectorAll("#tape tr").length === 1 && document.querySelector("#bids th").textContent !== ""`)
		p.picture(name, 1366, 768, "light")
		p.picture(name+"-phone", 390, 844, "dark")
	}
	p.quiet()
}
