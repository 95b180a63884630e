package model

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
)

// Generator makes random sessions: mostly sensible commands around a moving price, so that most orders
// match; about one command in ten is invalid; some cancels are too late. The same seed and the same
// replies produce the same session. Not safe for concurrent use.
type Generator struct {
	r                 *rand.Rand
	symbols, accounts int
	commands          int
	setup             int                 // setup frames sent so far: one for each account
	price             []int               // current price in cents, by symbol
	orders            []string            // order ids seen in replies, oldest first
	own               map[string][]string // order ids seen in replies, by account
	last              string              // account of the last frame
	refs              map[string][]string // orders sent with a ref, as written, by account
	named             int                 // number of refs made so far

	instructed  bool
	seen        map[string][]openOrder // open orders in the last <orders/> reply, by account
	refOf       map[string]string      // refs of orders, by order id
	amends      map[string][]string    // amends sent with a newref, by account
	refNames    map[string][]string    // refs that may name an order, by account
	canceledAll map[string]int         // command count at the last cancel-all, by account
}

// When a generator holds more order ids than these limits, it forgets the older half.
const (
	ordersKept = 20_000
	ownKept    = 1_000 // limit for one account
)

// NewGenerator returns a generator for the given numbers of symbols and accounts. Both must be at least
// 1.
func NewGenerator(seed uint64, symbols, accounts int) *Generator {
	g := &Generator{r: rand.New(rand.NewPCG(seed, 0x6f7574637279)), symbols: symbols, accounts: accounts,
		own: map[string][]string{}, refs: map[string][]string{}, seen: map[string][]openOrder{}, refOf: map[string]string{},
		amends:   map[string][]string{},
		refNames: map[string][]string{}, canceledAll: map[string]int{}}
	for range symbols {
		g.price = append(g.price, 1000+g.r.IntN(9000))
	}
	return g
}

// Commands returns how many commands the frames so far contained.
func (g *Generator) Commands() int { return g.commands }

// Frame returns the XML of the next frame. The first frames open the accounts.
func (g *Generator) Frame() []byte {
	if g.setup < g.accounts {
		g.setup++
		return []byte(g.open(fmt.Sprint(g.setup)))
	}
	switch n := g.r.IntN(100); {
	case n < 3:
		return []byte(g.pick(oddFrames))
	case n < 4:
		whole := g.transactions()
		return []byte(whole[:g.r.IntN(len(whole))])
	case n < 8:
		return []byte(g.create())
	case n < 9 && g.instructed:
		return []byte(g.pick(sessionFrames))
	case n < 10 && g.instructed:
		return []byte(ruledFrame)
	}
	return []byte(g.transactions())
}

// Observe reads the ids of new orders from the reply to the last frame.
func (g *Generator) Observe(reply []byte) {
	if g.instructed {
		g.observeOpen(reply)
		g.observeRefs(reply)
	}
	for _, m := range openedID.FindAllSubmatch(reply, -1) {
		id := string(m[1]) + string(m[2])
		g.orders = newer(append(g.orders, id), ordersKept)
		if !neverRests.Match(m[0]) {
			g.own[g.last] = newer(append(g.own[g.last], id), ownKept)
		}
	}
}

var views = regexp.MustCompile(`^<(account|orders|fills)\b`)

var openedID = regexp.MustCompile(`<opened [^>]* id="([0-9]+)"/?>|<amended [^>]*by="([0-9]+)"`)

var neverRests = regexp.MustCompile(` type="market"| tif="(IOC|FOK)"`)

// newer drops the older half of ids if there are more than kept.
func newer(ids []string, kept int) []string {
	if len(ids) > kept {
		return append(ids[:0], ids[len(ids)/2:]...)
	}
	return ids
}

func (g *Generator) pick(from []string) string { return from[g.r.IntN(len(from))] }

// young picks a random id, usually a recent one. ids must not be empty.
func (g *Generator) young(ids []string) string {
	n := len(ids)
	if g.r.IntN(4) > 0 {
		return ids[n-1-g.r.IntN(min(n, 50))]
	}
	return g.pick(ids)
}

// account picks a random account. In an instructed session every second pick is among the first three
// accounts, so that accounts often meet their own orders.
func (g *Generator) account() string {
	if g.instructed && g.r.IntN(2) == 0 {
		return fmt.Sprint(1 + g.r.IntN(min(3, g.accounts)))
	}
	return fmt.Sprint(1 + g.r.IntN(g.accounts))
}

func (g *Generator) symbol() string { return fmt.Sprintf("SYM%d", g.r.IntN(g.symbols)) }

// open returns a frame that opens an account with shares of every symbol. One account in four is poor.
func (g *Generator) open(id string) string {
	dollars := 200_000
	if g.r.IntN(4) == 0 {
		dollars = 2_000
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<create><account id="%s" balance="%d.%08d"/>`, id, g.r.IntN(dollars), g.r.IntN(100_000_000))
	for i := range g.symbols {
		fmt.Fprintf(&b, `<symbol sym="SYM%d"%s><account id="%s"> %d.%d </account></symbol>`, i, g.rules(i), id,
			1+g.r.IntN(3000),
			g.r.IntN(10))
	}
	g.commands += 1 + g.symbols
	return b.String() + "</create>"
}

// create returns a frame that deposits shares and opens accounts, most of which exist already.
func (g *Generator) create() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<create><account id="%d" balance="%d"/>`+
		`<symbol sym="%s">`, 1+g.r.IntN(2*g.accounts), g.r.IntN(5000), g.symbol())
	for range g.r.IntN(3) {
		g.commands++
		fmt.Fprintf(&b, `<account id="%s">%d.%08d</account>`, g.account(), g.r.IntN(20), g.r.IntN(100_000_000))
	}
	g.commands += 2
	return b.String() + "</symbol></create>"
}

func (g *Generator) transactions() string {
	g.last = g.account()
	attribute := fmt.Sprintf(`id="%s"`, g.last)
	switch g.r.IntN(50) {
	case 0:
		attribute = g.pick([]string{``, `id=""`, `id="x"`, `id="99999999"`, `id="-1"`, `id="01"`, attribute + ` account="1"`})
	case 1:
		attribute = fmt.Sprintf(`account="%s"`, g.last)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<transactions %s>`, attribute)
	for range 1 + g.r.IntN(6) {
		g.commands++
		child := g.transaction()
		b.WriteString(child)
		if views.MatchString(child) {
			break // the frame's other commands could change the reply
		}
	}
	return b.String() + `</transactions>`
}

func (g *Generator) transaction() string {
	own := g.own[g.last]
	if g.instructed && g.r.IntN(2) == 0 {
		return g.instruction()
	}
	switch n := g.r.IntN(100); {
	case n < 3:
		return g.pick(oddTransactions)
	case n < 60 || len(g.orders) == 0:
		return g.ref(g.order())
	case n < 61:
		return fmt.Sprintf(`<%s ref="r%d"/>`, g.pick([]string{"query", "cancel"}), g.r.IntN(g.named+2))
	case n < 62:
		return fmt.Sprintf(`<cancel id="%d"/>`, 1+g.r.IntN(10_000_000))
	case n < 76:
		return fmt.Sprintf(`<query id="%s"/>`, g.young(g.orders))
	case n < 80 || len(own) == 0:
		return fmt.Sprintf(`<cancel id="%s"/>`, g.young(g.orders))
	}
	n := len(own) - 1 - g.r.IntN(min(len(own), 4)) // older orders have mostly been executed
	id := own[n]
	g.own[g.last] = append(own[:n], own[n+1:]...)
	return fmt.Sprintf(`<cancel id="%s"/>`, id)
}

// order moves a symbol's price a little and returns an order near it. Half of the orders have a limit at which they
// usually stay open.
func (g *Generator) order() string {
	s := g.r.IntN(g.symbols)
	g.price[s] = max(100, g.price[s]+g.r.IntN(21)-10)
	sign := g.pick([]string{"", "", "", "+", "-", "-", "-", "-"})
	away := g.r.IntN(60) // distance in cents, in favor of the other side
	if g.r.IntN(2) == 0 {
		away = -away
	}
	if sign == "-" {
		away = -away
	}
	cents := max(1, g.price[s]+away)
	amount := fmt.Sprint(1 + g.r.IntN(60))
	limit := fmt.Sprintf("%d.%02d", cents/100, cents%100)
	if g.r.IntN(3) == 0 {
		amount += fmt.Sprintf(".%d", g.r.IntN(100_000_000))
	}
	switch g.r.IntN(100) {
	case 0:
		amount = "50000000000"
	case 1:
		amount, limit = "0.00000001", "89999999999.99999999"
	case 2:
		limit = "0.00000001"
	case 3, 4, 5, 6, 7, 8, 9, 10: // not on the price grid
		limit += fmt.Sprintf("%06d", g.r.IntN(1_000_000))
	case 11, 12, 13, 14: // unusual but valid spellings
		amount, limit = "00"+amount, "+0"+limit
	}
	return fmt.Sprintf(`<order sym="SYM%d" amount="%s%s" limit="%s"/>`, s, sign, amount, limit)
}

// ref adds a ref to some orders. Some refs are used a second time: with the same order, with the same
// order written differently, or with another order.
func (g *Generator) ref(order string) string {
	sent := g.refs[g.last]
	switch n := g.r.IntN(20); {
	case n < 5:
		g.named++
		order = strings.TrimSuffix(order, "/>") + fmt.Sprintf(` ref="r%d"/>`, g.named)
		g.refNames[g.last] = newer(append(g.refNames[g.last], fmt.Sprintf("r%d", g.named)), ownKept)
		g.refs[g.last] = newer(append(sent, order), ownKept)
	case n < 7 && len(sent) > 0:
		order = g.pick(sent)
	case n == 7 && len(sent) > 0:
		order = strings.Replace(g.pick(sent), `amount="`, `amount="0`, 1)
		order = strings.NewReplacer(`"0-`, `"-0`, `"0+`, `"+0`).Replace(order)
	case n == 8 && len(sent) > 0:
		order = strings.Replace(g.pick(sent), `limit="`, `limit="1`, 1)
	}
	return order
}

// oddFrames are frames rejected in whole or in part.
var oddFrames = []string{
	`<create><account id="1" balance="5"/><account id="12x" balance="1"/><symbol sym="SYM0">` +
		`<account id="77777">5</account></symbol></create>`,
	`<create><symbol sym="SYM0"><account id="1">0.5</account><account id="1">-1</account>` +
		`<account id="1">1e3</account></symbol></create>`,
	`<create><symbol sym="?"><account id="1">1</account></symbol><symbol sym="SYM0"/><order/></create>`,
	`<create><account id="1" balance="5" ref="a"/><account id="1" balance="5" ref="?"/><symbol sym="SYM0">` +
		`<account id="1" ref="p">5</account><account id="1" ref="p">5.0</account>` +
		`<account id="1" ref="p">6</account></symbol></create>`,
	`<create><account id="3.5" balance="5" ref="a"/><account id="888" balance="5" ref="a"/>` +
		`<account id="888" balance="5.00" ref="a"/><account id="888" balance="6" ref="a"/><account id="888" ` +
		`balance="5"/></create>`,
	`<create><symbol sym="SYM0" ref="x"/><symbol sym="SYM0"><account id="888" ref="a">5</account>` +
		`<account id="1" ref="">5</account></symbol></create>`,
	`<create><symbol sym="SYM0" x="1"><account id="1">1</account></symbol><symbol/></create>`,
	`<create><symbol sym="` + strings.Repeat(`&quot;`, 129) + `"><account id="1">1</account><order id="` +
		strings.Repeat("0", 200) + `1"/></symbol></create>`,
	`<transactions id="1"><query id="1"></transactions>`, `<transactions id="1"><query id="1&#xDFFF;"/></transactions>`,
	`<transactions id="1"><query id="1" id="1"/></transactions>`,
	`<transactions id="1" x="1"><query id="1"/></transactions>`,
	`<transactions id="1"/>`, `<create/>`, `<nothing/>`, ``,
}

// oddTransactions are children of <transactions> that are rejected.
var oddTransactions = []string{
	`<order/>`, `<query/>`, `<cancel/>`, `<other sym="a" id="5"/>`, `<query id="0"/>`, `<query id="x"/>`,
	`<cancel id="-1"/>`,
	`<query id="1"><!-- no text -->1</query>`, `<order sym="SYM0" amount="1" limit="1"><x/></order>`,
	`<cancel id="1" x="1"/>`,
	`<order sym="SYM0" amount="0" limit="1"/>`, `<order sym="SYM0" amount="1" limit="0"/>`,
	`<order sym="SYM0" amount="1"/>`,
	`<query ref="p"/>`, `<cancel ref="a"/>`, `<query ref="none"/>`, `<query id="1" ref="r1"/>`, `<cancel ref=""/>`,
	`<query ref="é"/>`, `<order sym="SYM0" amount="1" limit="1" ref="p"/>`,
	`<order sym="SYM0" amount="1" limit="1" ref=""/>`, `<order sym="SYM0" amount="1" limit="1" ref="a b"/>`,
	`<other ref="r1"/>`, `<order sym="NONE" amount="1" limit="1" ref="r1"/>`,
	`<order sym="NONE" amount="1" limit="1"/>`, `<order sym="SYM0" amount="90000000000" limit="1"/>`,
	`<order sym="SYM0" amount="0.000000001" limit="1"/>`, `<order sym="&lt;&quot;" amount="a&#9;b" limit="é"/>`,
	`<order sym="SYM0" amount="` + strings.Repeat("0", 200) + `1" limit="` + strings.Repeat("9", 200) + `"/>`,
	`<query id="` + strings.Repeat("0", 200) + `1"/>`, `<other id="` + strings.Repeat("&amp;é", 60) + `"/>`,
}
