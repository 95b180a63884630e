package twin

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
)

// Generator makes random sessions: mostly sensible commands around a moving
// price, so that most orders meet others, and some that must be refused. The
// same seed and the same replies make the same session.
type Generator struct {
	r                 *rand.Rand
	symbols, accounts int
	commands          int
	price             []int    // cents, by symbol
	orders            []string // ids that were given out, oldest first
	setup             int
}

// NewGenerator returns a generator over so many symbols and accounts.
func NewGenerator(seed uint64, symbols, accounts int) *Generator {
	g := &Generator{r: rand.New(rand.NewPCG(seed, 0x6f7574637279)), symbols: symbols, accounts: accounts}
	for range symbols {
		g.price = append(g.price, 1000+g.r.IntN(9000))
	}
	return g
}

// Commands returns how many commands the frames so far asked for.
func (g *Generator) Commands() int { return g.commands }

func (g *Generator) symbol() int       { return g.r.IntN(g.symbols) }
func (g *Generator) name(i int) string { return fmt.Sprintf("SYM%d", i) }

func (g *Generator) account() string { return fmt.Sprint(1 + g.r.IntN(g.accounts)) }

// Frame returns the next frame's XML.
func (g *Generator) Frame() []byte {
	if g.setup <= g.accounts {
		g.setup++
		return []byte(g.create())
	}
	if g.r.IntN(40) == 0 {
		return []byte(g.odd())
	}
	id := g.account()
	if g.r.IntN(60) == 0 {
		id = []string{"", "x", "99999999", "-1"}[g.r.IntN(4)]
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<transactions id="%s">`, id)
	for range 1 + g.r.IntN(6) {
		g.commands++
		b.WriteString(g.transaction())
	}
	b.WriteString(`</transactions>`)
	return []byte(b.String())
}

// create opens the next account and gives it some shares; the first makes all
// symbols.
func (g *Generator) create() string {
	var b strings.Builder
	b.WriteString("<create>")
	id := fmt.Sprint(g.setup)
	if g.setup > g.accounts {
		id = "1" // there already
	}
	fmt.Fprintf(&b, `<account id="%s" balance="%d.%02d"/>`, id, g.r.IntN(200_000), g.r.IntN(100))
	g.commands++
	for i := range g.symbols {
		g.commands++
		fmt.Fprintf(&b, `<symbol sym="%s"><account id="%s"> %d.%d </account></symbol>`, g.name(i), id, 1+g.r.IntN(3000), g.r.IntN(10))
	}
	b.WriteString("</create>")
	return b.String()
}

// odd returns a frame that is mostly refused.
func (g *Generator) odd() string {
	frames := []string{
		`<create><account id="1" balance="5"/><account id="12x" balance="1"/><symbol sym="SYM0"><account id="77777">5</account></symbol></create>`,
		`<create><symbol sym="SYM0"><account id="2">0.5</account><account id="2">-1</account><account id="2">1e3</account></symbol></create>`,
		`<create><symbol sym="?"><account id="2">1</account></symbol><symbol sym="SYM1"/><order/></create>`,
		`<transactions id="1"><query id="1"></transactions>`,
		`<transactions account="2"><query id="1"/><cancel id="1"/></transactions>`,
		`<transactions id="1" account="1"><query id="1"/></transactions>`,
		`<transactions id="3"/>`, `<create/>`, `<nothing/>`, ``,
		`<transactions id="1"><order sym="SYM0" amount="0" limit="1"/><order sym="SYM0" amount="1" limit="0"/><order sym="SYM0" amount="1"/></transactions>`,
		`<transactions id="1"><order sym="NONE" amount="1" limit="1"/><order sym="SYM0" amount="90000000000" limit="1"/><order sym="SYM0" amount="0.000000001" limit="1"/></transactions>`,
	}
	g.commands += 2
	return frames[g.r.IntN(len(frames))]
}

func (g *Generator) transaction() string {
	switch n := g.r.IntN(100); {
	case n < 55 || len(g.orders) == 0:
		return g.order()
	case n < 75:
		return fmt.Sprintf(`<query id="%s"/>`, g.someOrder())
	case n < 97:
		return fmt.Sprintf(`<cancel id="%s"/>`, g.someOrder())
	}
	return fmt.Sprintf(`<cancel id="%d"/>`, 1+g.r.IntN(10_000_000))
}

// someOrder picks an order, mostly a young one.
func (g *Generator) someOrder() string {
	n := len(g.orders)
	if g.r.IntN(4) > 0 {
		return g.orders[n-1-g.r.IntN(min(n, 50))]
	}
	return g.orders[g.r.IntN(n)]
}

func (g *Generator) order() string {
	s := g.symbol()
	g.price[s] = max(100, g.price[s]+g.r.IntN(21)-10)
	cents := max(1, g.price[s]+g.r.IntN(61)-30)
	amount := fmt.Sprint(1 + g.r.IntN(60))
	if g.r.IntN(3) == 0 {
		amount += fmt.Sprintf(".%d", g.r.IntN(100_000_000))
	}
	if g.r.IntN(100) == 0 {
		amount = "50000000000"
	}
	if g.r.IntN(2) == 0 {
		amount = "-" + amount
	}
	return fmt.Sprintf(`<order sym="%s" amount="%s" limit="%d.%02d"/>`, g.name(s), amount, cents/100, cents%100)
}

var openedID = regexp.MustCompile(`<opened [^>]* id="([0-9]+)"/>`)

// Observe lets the generator learn the ids of new orders from a reply.
func (g *Generator) Observe(reply []byte) {
	for _, m := range openedID.FindAllSubmatch(reply, -1) {
		g.orders = append(g.orders, string(m[1]))
	}
	if len(g.orders) > 20_000 {
		g.orders = append(g.orders[:0], g.orders[len(g.orders)/2:]...)
	}
}
