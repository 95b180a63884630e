//go:build browser

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"outcry/internal/door/xml/wire"
)

// shownBook is an expression for the non-empty rows of the order book, from top to bottom.
const shownBook = `[...document.querySelectorAll("#ladder tbody tr")].filter((row) => row.textContent !== "")` +
	`.map((row) => [...row.cells].map((cell) => cell.textContent).join(" "))`

// rows waits until the order book shows exactly these rows.
func (p *tab) rows(want ...string) {
	p.t.Helper()
	var got []string
	require.Eventually(p.t, func() bool {
		got = value[[]string](p, shownBook)
		return fmt.Sprint(got) == fmt.Sprint(want)
	}, patience, 20*time.Millisecond, "want %q\nlast %q", want, &got)
}

func (p *tab) group(step string) {
	p.t.Helper()
	p.until(`[...document.getElementById("group").options].some((o) => o.value === "` + step + `")`)
	p.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const group = document.getElementById("group");
		group.value = "` + step + `";
		group.dispatchEvent(new Event("change"));
	})()`))
}

// TestThePageAddsUpAndGroupsTheBook: totals are exact, a group is shown at its worst price, and a group is hidden
// if the page may not know all of its levels.
func TestThePageAddsUpAndGroupsTheBook(t *testing.T) {
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	c := dial(t, server.xml)
	c.must(t, `<create><account id="1" balance="1000000000"/>`+
		`<symbol sym="ABC"><account id="1">10000000</account></symbol>`+
		`<symbol sym="DEEP"><account id="1">1000000</account></symbol></create>`)
	orders := wire.NewTransactions("1")
	for _, o := range [][2]string{
		{"-0.1", "10.01"}, {"-0.2", "10.02"}, {"-1234567", "14.5"}, {"3", "9.99"},
		{"0.5", "9.5"}, {"1000", "9.51"}, {"2", "7"},
	} {
		orders.Order("ABC", o[0], o[1])
	}
	for i := range 300 {
		orders.Order("DEEP", "1", fmt.Sprintf("%d.5", 1000-i))
	}
	c.must(t, string(orders.Append(nil)))
	p := browse(t, "http://"+server.http+"/#ABC")
	p.rows("14.5 1,234,567 1.23M", "10.02 0.2 0.3", "10.01 0.1 0.1", "spread 0.02",
		"9.99 3 3", "9.51 1,000 1,003", "9.5 0.5 1,003.5", "7 2 1,005.5")
	require.Equal(t, "1,234,567.3", value[string](p,
		`document.querySelector("#asks .total[title]:not([title=''])").title`))
	require.Equal(t, "4 bid · 3 ask levels", p.text("book-note"))
	p.group("0.5")
	p.rows("14.5 1,234,567 1.23M", "10.5 0.3 0.3", "spread 0.02", "9.5 1,003.5 1,003.5", "7 2 1,005.5")
	p.group("1")
	p.rows("15 1,234,567 1.23M", "11 0.3 0.3", "spread 0.02", "9 1,003.5 1,003.5", "7 2 1,005.5")
	p.group("")
	p.rows("14.5 1,234,567 1.23M", "10.02 0.2 0.3", "10.01 0.1 0.1", "spread 0.02",
		"9.99 3 3", "9.51 1,000 1,003", "9.5 0.5 1,003.5", "7 2 1,005.5")

	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#DEEP"`))
	p.until(`document.getElementById("book-note").textContent === "60+ bid · 0 ask levels"`)
	require.Equal(t, "no asks", p.text("ladder-spread"))
	p.group("5")
	p.until(`document.getElementById("book-note").textContent === "200+ bid · 0 ask levels"`)
	p.until(`document.querySelectorAll("#bids th:not(:empty)").length === 14`)
	require.Equal(t, []string{"1,000 1 1", "995 5 6"}, value[[]string](p, shownBook)[1:3])
	p.group("50")
	p.rows("no asks", "1,000 1 1", "950 50 51", "900 50 101", "850 50 151")
	require.Empty(t, value[[]string](p, `document.getAnimations().map(String)`), "nothing flashes")

	c.must(t, `<create><symbol sym="NONE"/></create>`)
	c.must(t, string(wire.NewTransactions("1").Order("NONE", "1", "5").Append(nil)))
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "#NONE"`))
	p.rows("no asks", "5 1 1")
	require.True(t, value[bool](p, `document.getElementById("grouping").hidden`), "one level is no group")
	p.quiet()
}

// TestThePageWritesNumbersAsPeopleReadThem calls the page's number formatting functions.
func TestThePageWritesNumbersAsPeopleReadThem(t *testing.T) {
	flags, _ := dataFlags(t)
	server := start(t, flags...)
	p := browse(t, "http://"+server.http)
	p.do(chromedp.Evaluate[chromedp.Void](`Promise.all(["format", "welcome"].map((m) => import("/page/" + m + ".js")))` +
		`.then(([format, welcome]) => { window.format = format; window.welcome = welcome; })`))
	p.until(`window.welcome !== undefined && document.getElementById("empty-address").textContent !== ""`)
	for decimal, want := range map[string]string{
		"0": "0", "0.25": "0.25", "9999.5": "9,999.5", "10000": "10K", "16449999": "16.4M", "999999": "1M", "999499": "999K",
		"3790210.28": "3.79M", "0.12345678": "0.123", "0.00000001": "0.00000001", "1234.5678": "1,234.57",
		"999999999999999999": "1,000,000T",
	} {
		require.Equal(t, want, value[string](p, fmt.Sprintf(`format.compact(%q)`, decimal)), decimal)
	}
	for decimal, want := range map[string]string{"123456.5": "123,456.5", "1234567": "1,234,567", "12345678": "12.3M"} {
		require.Equal(t, want, value[string](p, fmt.Sprintf(`format.short(%q)`, decimal)), decimal)
	}
	require.Equal(t, "0.00000001", value[string](p, `format.difference("90000000000.00000001", "90000000000")`))

	// The command that the page shows has the address and the flags that its reader needs.
	say := func(orders string) {
		p.do(chromedp.Evaluate[chromedp.Void](`welcome.showWelcome("none", "", ` + orders + `)`))
	}
	say(`{port: 12345, local: true, tls: false, tokens: false}`)
	require.Equal(t, "outcry-lab demo", p.text("empty-demo"))
	say(`{port: 4242, local: false, tls: true, tokens: true}`)
	require.Equal(t, "outcry-lab --addr 127.0.0.1:4242 --tls-ca FILE --token-file FILE demo", p.text("empty-demo"))
	require.Contains(t, p.text("empty-address"), "Orders go to 127.0.0.1:4242. It speaks TLS")
	p.quiet()
}
