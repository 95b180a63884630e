package model

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// This file generates order instructions and requests for an account's own view, once Instruct has been
// called. It uses few symbols and prices, so that orders of one account meet, IOC and FOK orders find
// books that are just too thin, and amends find orders that are open, executed, or amended.

// Instruct makes the generator cover the whole protocol, not only its first part. It must be called
// before the first Frame.
func (g *Generator) Instruct() *Generator {
	g.instructed = true
	return g
}

// cancelAllsApart is the minimum number of commands between two cancel-alls of an account. It keeps an
// account within ten cancel-alls a second.
const cancelAllsApart = 2000

// instruction returns a random child of <transactions> that only an instructed session contains.
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

// after returns a random after attribute for a list request, or "".
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

// thinOrder returns an order for few shares at one of a few prices.
func (g *Generator) thinOrder() string {
	s := g.r.IntN(g.symbols)
	cents := g.near(s)
	amount := fmt.Sprint(1 + g.r.IntN(30))
	switch g.r.IntN(12) {
	case 0:
		amount += ".5"
	case 1:
		amount += ".25000001" // not a multiple of any lot
	case 2:
		amount = fmt.Sprint(100 + g.r.IntN(2000)) // more than most accounts can pay for or sell
	}
	limit := fmt.Sprintf("%d.%02d", cents/100, cents%100)
	if g.r.IntN(25) == 0 {
		limit += g.pick([]string{"1", "000001"}) // not a multiple of any tick
	}
	return fmt.Sprintf(`<order sym="SYM%d" amount="%s%s" limit="%s"/>`, s, g.pick([]string{"", "-"}), amount, limit)
}

// near returns one of nine prices around the symbol's price, in cents.
func (g *Generator) near(symbol int) int { return max(5, g.price[symbol]/10*10+5*(g.r.IntN(9)-4)) }

var limitOf = regexp.MustCompile(` limit="[^"]*"`)

// instruct adds random instructions to an order.
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

// amend returns an amend, usually of an order in the last account's newest <orders/> reply. It names the
// order by id, or by a ref that may name another order by now. Some amends are sent twice.
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
	if g.r.IntN(3) == 0 { // the order may have another id now: list the orders before the next amend
		g.seen[g.last] = append(open[:n:n], open[n+1:]...)
	}
	if ref := g.refOf[o.id]; ref != "" && g.r.IntN(2) == 0 {
		return g.amendOf(fmt.Sprintf(` ref="%s"`, ref), o)
	}
	return g.amendOf(fmt.Sprintf(` id="%s"`, o.id), o)
}

// anyOrder returns attributes that name some order, existing or not.
func (g *Generator) anyOrder() string {
	switch names := g.refNames[g.last]; {
	case len(names) > 0 && g.r.IntN(4) > 0:
		return fmt.Sprintf(` ref="%s"`, g.young(names))
	case len(g.orders) > 0:
		return fmt.Sprintf(` id="%s"`, g.young(g.orders))
	}
	return ` id="1"`
}

// openOrder is an order as listed in an <orders/> reply.
type openOrder struct{ id, sym, amount, limit string }

// Patterns for the refs in replies: an order has a ref, or an order was replaced by another.
var (
	refOpened = regexp.MustCompile(`<opened [^>]*ref="([^"]*)" id="([0-9]+)"`)
	replaced  = regexp.MustCompile(`<amended [^>]*id="([0-9]+)" by="([0-9]+)"`)
)

// observeRefs reads from a reply which refs name the last account's orders.
func (g *Generator) observeRefs(reply []byte) {
	for _, m := range refOpened.FindAllSubmatch(reply, -1) {
		g.refOf[string(m[2])] = string(m[1])
	}
	for _, m := range replaced.FindAllSubmatch(reply, -1) {
		g.refOf[string(m[2])] = g.refOf[string(m[1])]
	}
}

var openOrders = regexp.MustCompile(`<order id="([0-9]+)" sym="SYM([0-9]+)" amount="([^"]*)" limit="([^"]*)"`)

// observeOpen reads from a reply which orders the last account has open.
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

// amendOf returns an amend of the order that named identifies, which is probably o. The new amount is a
// little larger, a little smaller or unchanged; the new limit is better, worse or unchanged.
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

// rules returns the tick and lot attributes for a symbol when it is first made. Only some symbols get
// them.
func (g *Generator) rules(symbol int) string {
	if !g.instructed {
		return ""
	}
	return []string{"", ` tick="0.01"`, "", ` tick="0.01" lot="0.5"`}[symbol%4]
}

// sessionFrames are <session> frames: defaults for cancel on disconnect.
var sessionFrames = []string{
	`<session cancel="disconnect"/>`, `<session cancel="disconnect"/>`, `<session cancel="disconnect"/>`,
	`<session cancel="disconnect" timeout="86400"/>`, `<session/>`,
	`<session cancel="no"/>`, `<session cancel="disconnect" timeout="0"/>`, `<session cancel="disconnect" color="red"/>`,
	`<session cancel="disconnect">x</session>`, `<session cancel="disconnect" timeout="86401"/>`,
}

// ruledFrame makes symbols that exist already, with the same ticks and lots and with different ones.
const ruledFrame = `<create>` +
	`<symbol sym="SYM0" tick="0.01"/><symbol sym="SYM0" lot="2"><account id="1">5</account></symbol>` +
	`<symbol sym="SYM1" tick="0.05"/><symbol sym="SYM1" tick="0.050" lot="0.00000001"/><symbol sym="SYM1" tick="0"/>` +
	`<symbol sym="SYM2" tick="0.01" lot="0.5"><account id="1">0.00000001</account></symbol>` +
	`<symbol sym="SYM3" lot="x"/><symbol tick="1"/></create>`

// oddInstructions are children of <transactions> that are rejected.
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
