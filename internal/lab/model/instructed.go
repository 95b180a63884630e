package model

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// What a generator draws of order instructions and of an account's own view, once Instruct has been
// called: few symbols and prices, so that orders of one account meet, IOC and FOK orders find books
// that are just too thin, and amends find orders that are open, executed, or amended.

// Instruct makes a generator draw all that the protocol has, not only its first part. It is
// called before the first Frame.
func (g *Generator) Instruct() *Generator {
	g.instructed = true
	return g
}

// cancelAllsApart is how many commands lie between two cancel-alls of an account, so that it has not
// more than ten within a second.
const cancelAllsApart = 2000

// instruction returns a child of <transactions> that only an instructed generator draws.
func (g *Generator) instruction() string {
	switch n := g.r.IntN(100); {
	case n < 4:
		return g.pick(oddInstructions)
	case n < 46:
		return g.ref(g.instruct(g.thinOrder()))
	case n < 80:
		return g.amend()
	case n < 83:
		return g.cancelAll()
	case n < 86:
		return fmt.Sprintf(`<cancel-after seconds="%s"/>`, g.pick([]string{"0", "80000", "86400", "086400"}))
	case n < 91:
		return `<account/>`
	case n < 95:
		return "<orders" + g.pick([]string{"", fmt.Sprintf(` sym="%s"`, g.symbol())}) + g.after("orders") + "/>"
	}
	return "<fills" + g.after("fills") + "/>"
}

// after returns where a list begins, or nothing.
func (g *Generator) after(list string) string {
	switch g.r.IntN(3) {
	case 0:
		return fmt.Sprintf(` after="%d"`, g.r.IntN(20))
	case 1:
		if list == "orders" && len(g.orders) > 0 {
			return fmt.Sprintf(` after="%s"`, g.young(g.orders))
		}
	}
	return ""
}

func (g *Generator) cancelAll() string {
	if last, ok := g.canceledAll[g.last]; ok && g.commands-last < cancelAllsApart {
		return `<orders/>`
	}
	g.canceledAll[g.last] = g.commands
	return "<cancel-all" + g.pick([]string{"", fmt.Sprintf(` sym="%s"`, g.symbol())}) + "/>"
}

// thinOrder returns an order of few shares at one of few prices.
func (g *Generator) thinOrder() string {
	s := g.r.IntN(g.symbols)
	cents := g.near(s)
	amount := fmt.Sprint(1 + g.r.IntN(30))
	switch g.r.IntN(12) {
	case 0:
		amount += ".5"
	case 1:
		amount += ".25000001" // of no lot
	case 2:
		amount = fmt.Sprint(100 + g.r.IntN(2000)) // more than most can pay, or sell
	}
	limit := fmt.Sprintf("%d.%02d", cents/100, cents%100)
	if g.r.IntN(25) == 0 {
		limit += g.pick([]string{"1", "000001"}) // of no tick
	}
	return fmt.Sprintf(`<order sym="SYM%d" amount="%s%s" limit="%s"/>`, s, g.pick([]string{"", "-"}), amount, limit)
}

// near returns one of nine prices around a symbol's, in cents.
func (g *Generator) near(symbol int) int { return max(5, g.price[symbol]/10*10+5*(g.r.IntN(9)-4)) }

var limitOf = regexp.MustCompile(` limit="[^"]*"`)

// instruct adds to an order what a client may say about it.
func (g *Generator) instruct(order string) string {
	order = strings.TrimSuffix(order, "/>")
	switch g.r.IntN(6) {
	case 0:
		if g.r.IntN(3) > 0 {
			order = limitOf.ReplaceAllString(order, "")
		}
		order += ` type="market"` + g.pick([]string{"", ` tif="IOC"`, ` tif="FOK"`, ` tif="FOK"`, ` tif="GTC"`})
	case 1, 2:
		order += g.pick([]string{` tif="IOC"`, ` tif="FOK"`, ` tif="FOK"`, ` tif="GTC"`})
	case 3:
		order += g.pick([]string{` post="yes"`, ` post="yes"`, ` post="no"`, ` tif="IOC" post="yes"`, ` tif="FOK" post="no"`})
	}
	if g.r.IntN(3) > 0 {
		order += g.pick([]string{` stp="newest"`, ` stp="oldest"`, ` stp="oldest"`, ` stp="both"`})
	}
	if g.r.IntN(6) == 0 {
		order += g.pick([]string{` cod="yes"`, ` cod="no"`})
	}
	if g.r.IntN(2) == 0 {
		order += ` report="full"`
	}
	return order + "/>"
}

// amend returns an amend, mostly of an order that the last account had open when it last looked; by
// its id, or by a ref that may have come to name another order. Some are sent again.
func (g *Generator) amend() string {
	sent, open := g.amends[g.last], g.seen[g.last]
	if len(sent) > 0 && g.r.IntN(12) == 0 {
		again := g.pick(sent)
		if g.r.IntN(3) == 0 {
			again = strings.Replace(again, ` limit="`, ` limit="0`, 1)
		}
		return again
	}
	if len(open) == 0 || g.r.IntN(6) == 0 {
		return g.amendOf(g.anyOrder(), openOrder{amount: "5", limit: "10"})
	}
	n := g.r.IntN(len(open))
	o := open[n]
	if g.r.IntN(3) == 0 { // it has another id then, or keeps this one: look again
		g.seen[g.last] = append(open[:n:n], open[n+1:]...)
	}
	if ref := g.refOf[o.id]; ref != "" && g.r.IntN(2) == 0 {
		return g.amendOf(fmt.Sprintf(` ref="%s"`, ref), o)
	}
	return g.amendOf(fmt.Sprintf(` id="%s"`, o.id), o)
}

// anyOrder names an order that may be anything.
func (g *Generator) anyOrder() string {
	switch names := g.refNames[g.last]; {
	case len(names) > 0 && g.r.IntN(4) > 0:
		return fmt.Sprintf(` ref="%s"`, g.young(names))
	case len(g.orders) > 0:
		return fmt.Sprintf(` id="%s"`, g.young(g.orders))
	}
	return ` id="1"`
}

// openOrder is an order as an account's own view has it.
type openOrder struct{ id, sym, amount, limit string }

// What replies say of refs: that an order has one, and that an order has come in the place of another.
var (
	refOpened = regexp.MustCompile(`<opened [^>]*ref="([^"]*)" id="([0-9]+)"`)
	replaced  = regexp.MustCompile(`<amended [^>]*id="([0-9]+)" by="([0-9]+)"`)
)

// observeRefs lets the generator learn which refs name the last account's orders.
func (g *Generator) observeRefs(reply []byte) {
	for _, m := range refOpened.FindAllSubmatch(reply, -1) {
		g.refOf[string(m[2])] = string(m[1])
	}
	for _, m := range replaced.FindAllSubmatch(reply, -1) {
		g.refOf[string(m[2])] = g.refOf[string(m[1])]
	}
}

var openOrders = regexp.MustCompile(`<order id="([0-9]+)" sym="SYM([0-9]+)" amount="([^"]*)" limit="([^"]*)"`)

// observeOpen lets the generator learn what the last account has open.
func (g *Generator) observeOpen(reply []byte) {
	found := openOrders.FindAllSubmatch(reply, -1)
	if len(found) == 0 {
		return
	}
	g.seen[g.last] = nil
	for _, m := range found {
		g.seen[g.last] = append(g.seen[g.last], openOrder{string(m[1]), string(m[2]), string(m[3]), string(m[4])})
	}
}

// amendOf returns an amend of an order that is named so, and probably is o: its amount a little
// larger or smaller, its limit better, worse, or as it is.
func (g *Generator) amendOf(named string, o openOrder) string {
	amend, kind := "<amend"+named, g.r.IntN(8)
	if kind != 0 {
		sign, digits := "", strings.TrimPrefix(o.amount, "-")
		if (digits != o.amount) != (g.r.IntN(20) == 0) {
			sign = "-"
		}
		if g.r.IntN(6) > 0 {
			whole, _, _ := strings.Cut(digits, ".")
			n, _ := strconv.Atoi(whole)
			digits = fmt.Sprintf("%d%s", max(0, n+g.r.IntN(20)-12), g.pick([]string{"", "", "", ".5", ".00000001"}))
		}
		amend += fmt.Sprintf(` amount="%s%s"`, sign, digits)
	}
	switch {
	case kind < 3:
		symbol, _ := strconv.Atoi(o.sym)
		cents := g.near(symbol)
		amend += fmt.Sprintf(` limit="%d.%02d"`, cents/100, cents%100)
	case kind < 5:
		amend += ` limit="` + o.limit + `"`
	}
	if g.r.IntN(3) == 0 {
		amend += ` report="full"`
	}
	if g.r.IntN(3) == 0 {
		g.named++
		name := fmt.Sprintf("r%d", g.named)
		amend += ` newref="` + name + `"`
		g.amends[g.last] = newer(append(g.amends[g.last], amend+"/>"), ownKept)
		g.refNames[g.last] = newer(append(g.refNames[g.last], name), ownKept)
	}
	return amend + "/>"
}

// rules gives a symbol of its first making a tick and a lot: some of the symbols have one.
func (g *Generator) rules(symbol int) string {
	if !g.instructed {
		return ""
	}
	return []string{"", ` tick="0.01"`, "", ` tick="0.01" lot="0.5"`}[symbol%4]
}

// sessionFrames are frames about the connection.
var sessionFrames = []string{
	`<session cancel="disconnect"/>`, `<session cancel="disconnect"/>`, `<session cancel="disconnect"/>`,
	`<session cancel="disconnect" timeout="86400"/>`, `<session/>`,
	`<session cancel="no"/>`, `<session cancel="disconnect" timeout="0"/>`, `<session cancel="disconnect" color="red"/>`,
	`<session cancel="disconnect">x</session>`, `<session cancel="disconnect" timeout="86401"/>`,
}

// ruledFrame makes symbols that are there, with their ticks and lots and with others.
const ruledFrame = `<create>` +
	`<symbol sym="SYM0" tick="0.01"/><symbol sym="SYM0" lot="2"><account id="1">5</account></symbol>` +
	`<symbol sym="SYM1" tick="0.05"/><symbol sym="SYM1" tick="0.050" lot="0.00000001"/><symbol sym="SYM1" tick="0"/>` +
	`<symbol sym="SYM2" tick="0.01" lot="0.5"><account id="1">0.00000001</account></symbol>` +
	`<symbol sym="SYM3" lot="x"/><symbol tick="1"/></create>`

// oddInstructions are children of <transactions> that are refused.
var oddInstructions = []string{
	`<order sym="SYM0" amount="1" limit="1" tif="ioc"/>`, `<order sym="SYM0" amount="1" limit="1" tif=""/>`,
	`<order sym="SYM0" amount="1" limit="1" type="limit"/>`, `<order sym="SYM0" amount="1" type="stop"/>`,
	`<order sym="SYM0" amount="1" limit="1" post="true"/>`, `<order sym="SYM0" amount="1" limit="1" stp="none"/>`,
	`<order sym="SYM0" amount="1" limit="1" cod="1"/>`, `<order sym="SYM0" amount="1" limit="1" report="yes"/>`,
	`<order sym="SYM0" amount="1" limit="1" tif="IOC" post="yes" ref="r1"/>`, `<order sym="SYM0" amount="1" tif="IOC"/>`,
	`<order sym="SYM0" amount="1" type="market" post="yes"/>`, `<order sym="SYM0" amount="1" type="market" tif="GTC"/>`,
	`<order sym="NONE" amount="1" type="market"/>`,
	`<order sym="NONE" amount="1" limit="1" tif="FOK" stp="both" cod="yes"/>`,
	`<amend/>`, `<amend id="1"/>`, `<amend id="1" ref="r1" amount="1"/>`, `<amend id="0" amount="1"/>`,
	`<amend id="1" amount="0"/>`, `<amend id="1" limit="-1"/>`, `<amend id="1" amount="1" sym="SYM0"/>`,
	`<amend id="1" amount="1" newref=""/>`, `<amend id="1" amount="1" newref="a b"/>`,
	`<amend id="1" amount="1">1</amend>`,
	`<amend id="1" amount="1" report="no"/>`, `<amend ref="none" amount="1"/>`, `<amend ref="p" amount="1"/>`,
	`<amend ref="r1" amount="1" newref="r1"/>`, `<amend id="10000000" amount="1"/>`, `<amend amount="1" limit="1"/>`,
	`<cancel-all id="1"/>`, `<cancel-all sym="?"/>`, `<cancel-all>1</cancel-all>`, `<cancel-after/>`,
	`<cancel-after seconds="-1"/>`, `<cancel-after seconds="86401"/>`, `<cancel-after seconds="1.5"/>`,
	`<account id="1"/>`, `<account>1</account>`, `<orders after="x"/>`, `<orders sym="a b"/>`, `<orders id="1"/>`,
	`<fills after="-1"/>`, `<fills sym="SYM0"/>`, `<fills after=""/>`,
	`<other tif="IOC" newref="a" seconds="5" after="7" report="x" post="1"/>`,
}
