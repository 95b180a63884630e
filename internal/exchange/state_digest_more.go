package exchange

// digestMore collects rarely used properties of accounts, symbols and orders. They follow at the end of the listing,
// with a section for each of the three. An empty section is left out, so that the digest is that of older programs
// without these properties. Times that are only for people are rounded to seconds, as those of halts.
type digestMore struct {
	accounts []AccountState
	symbols  []SymbolState
	orders   []digestOrder
	current  *Book // the book whose orders are being listed
}

// digestOrder is an order with cod or a lineage.
type digestOrder struct {
	id           OrderID
	onDisconnect bool
	lineage      Lineage
}

func (m *digestMore) account(a *Account) {
	if a.more != nil {
		m.accounts = append(m.accounts, AccountState{ID: a.ID, Rules: a.Rules(), Due: a.Due()})
	}
}

func (m *digestMore) book(sym Symbol, b *Book) {
	m.current = b
	if r := b.Rules(); r != (SymbolRules{}) {
		m.symbols = append(m.symbols, SymbolState{Symbol: sym, Rules: r, Last: b.last})
	}
}

func (m *digestMore) order(n *node) {
	m.orders = append(m.orders, digestOrder{n.id, n.has(onDisconnect), m.current.lineageOf(n)})
}

// listMore adds the sections to the listing.
func (d *Digester) listMore() {
	if m := d.more.accounts; len(m) > 0 {
		d.buffer = append(d.buffer, "accounts ruled\n"...)
		d.number(uint64(len(m)))
		for i := range m {
			d.ruled(&m[i])
		}
	}
	if m := d.more.symbols; len(m) > 0 {
		d.buffer = append(d.buffer, "symbols ruled\n"...)
		d.number(uint64(len(m)))
		for i := range m {
			s := &m[i]
			d.buffer = appendRules(appendString(d.buffer, s.Symbol), &s.Rules, 0, SymbolRuled)
			if s.Rules.Band != 0 { // otherwise the last price has no effect
				d.number(uint64(s.Last))
			}
		}
	}
	if m := d.more.orders; len(m) > 0 {
		d.buffer = append(d.buffer, "orders\n"...)
		d.number(uint64(len(m)))
		for i := range m {
			d.lineage(&m[i])
		}
	}
}

func (d *Digester) ruled(a *AccountState) {
	d.buffer = appendString(d.buffer, a.ID)
	rules := AccountRules{}
	if a.Rules != nil {
		rules = *a.Rules
	}
	if rules.Block != nil {
		rules.Block = &Halt{Since: Seconds(rules.Block.Since), Reason: rules.Block.Reason}
	}
	d.buffer = appendAccountRules(d.buffer, &rules)
	d.number(uint64(a.Due))
}

func (d *Digester) lineage(o *digestOrder) {
	l := &o.lineage
	d.number(uint64(o.id))
	if o.onDisconnect {
		d.buffer = append(d.buffer, 1)
	} else {
		d.buffer = append(d.buffer, 0)
	}
	for _, n := range []uint64{uint64(l.First), uint64(l.Replaces), uint64(l.Executed), uint64(l.Reduced),
		uint64(Seconds(l.ReducedAt))} {
		d.number(n)
	}
}
