package wire

import (
	"cmp"
	"slices"

	"outcry/internal/exchange"
)

// judge rejects an order that violates its symbol's rules, and sets the protection price of a market order.
func (m *market) judge(o *exchange.Order, sent exchange.Price, book *exchange.Book,
	r *exchange.Result) (q exchange.Quote) {
	rules := book.Rules()
	free, _ := m.state.Ledger.Instrument(m.where[0]).Position(o.Account)
	all := o.Side == exchange.Sell && free == o.Shares.Position()
	best := book.Best(exchange.Buy + exchange.Sell - o.Side)
	switch {
	case sent != 0 && !rules.OnTick(sent):
		r.Reason, r.Details = exchange.OffTick, &exchange.RejectDetails{Rules: rules}
		return q
	case !rules.OnLot(o.Shares) && !all:
		r.Reason, r.Details = exchange.OffLot, &exchange.RejectDetails{Rules: rules}
		return q
	case o.Type == exchange.Market && best == 0:
		r.Reason = exchange.NobodyOpposite
		return q
	case sent == 0:
		o.Limit = rules.Protection(o.Side, best, book.Last())
	}
	q = book.Quote(o)
	if _, meets := book.Meets(o.Side, o.Limit); o.Post && meets {
		r.Reason, r.Details = exchange.WouldExecute, &exchange.RejectDetails{Best: best}
	} else if o.TIF == exchange.FOK && q.Shares < o.Shares {
		r.Reason, r.Details = exchange.CannotFill, &exchange.RejectDetails{Could: q.Shares}
	}
	return q
}

func (m *market) placeOrder(c *exchange.Command, r *exchange.Result) {
	ledger, instrument, book := m.state.Ledger, m.state.Ledger.Instrument(c.Symbol), m.state.Books[c.Symbol]
	if instrument == nil {
		r.Reason = exchange.UnknownSymbol
		return
	}
	var o exchange.Order
	c.Begin(&o, ledger.Account(c.Account))
	m.where[0] = c.Symbol
	q := m.judge(&o, c.Limit, book, r)
	if r.Reason != exchange.OK {
		return
	}
	if o.Type == exchange.Market && o.Side == exchange.Buy {
		r.Reason = ledger.ReserveMarket(instrument, &o, q.Cost)
	} else {
		r.Reason = ledger.Reserve(instrument, &o)
	}
	if r.Reason != exchange.OK {
		r.CashHave, _ = o.Account.Balance()
		r.SharesHave, _ = instrument.Position(o.Account)
		return
	}
	m.state.OrderID++
	o.ID = m.state.OrderID
	fills := book.Submit(&o, m.now, nil)
	ledger.Settle(instrument, &o, fills)
	m.entered(c.Symbol, &o, fills, book.Own())
	r.Order, r.Status = o.ID, m.reports[o.ID]
}

// entered updates the market's state after an order was executed.
func (m *market) entered(sym exchange.Symbol, o *exchange.Order, fills []exchange.Fill, own []exchange.Cancel) {
	m.state.Ledger.ReleaseOwn(m.state.Ledger.Instrument(sym), o.Account, own)
	m.where[o.ID], m.reports[o.ID] = sym, o.Status()
	for i := range fills {
		f := &fills[i]
		m.fill(f.Account, f.Resting, sym, exchange.Buy+exchange.Sell-o.Side, f)
		m.fill(o.Account.ID, o.ID, sym, o.Side, f)
	}
}

func (m *market) fill(a exchange.AccountID, id exchange.OrderID, sym exchange.Symbol, s exchange.Side,
	f *exchange.Fill) {
	m.fills[a] = append(m.fills[a], exchange.AccountFill{N: uint64(len(m.fills[a]) + 1), Order: id, Symbol: sym, Side: s,
		Shares: f.Shares, Price: f.Price, Time: m.now})
}

func (m *market) amend(c *exchange.Command, r *exchange.Result) {
	o := m.find(c.Names(r))
	if o.ID == 0 {
		r.Reason = exchange.UnknownOrder
		return
	}
	sym := m.where[o.ID]
	book, instrument := m.state.Books[sym], m.state.Ledger.Instrument(sym)
	if r.Reason = book.MayCancel(o.ID, c.Account); r.Reason != exchange.OK {
		return
	}
	executed := o.ChainExecuted()
	total, limit := cmp.Or(c.Shares, executed+o.Open), cmp.Or(c.Limit, o.Limit)
	free, _ := instrument.Position(o.Account)
	rules, open := book.Rules(), total-executed
	all := o.Side == exchange.Sell && free.Add(o.Open.Position()) == open.Position()
	switch {
	case c.Shares != 0 && c.Side != o.Side:
		r.Reason = exchange.AmountSide
	case open <= 0:
		r.Reason, r.Details = exchange.AmountExecuted, &exchange.RejectDetails{Executed: executed}
	case limit != o.Limit && !rules.OnTick(limit):
		r.Reason, r.Details = exchange.OffTick, &exchange.RejectDetails{Rules: rules}
	case open != o.Open && !rules.OnLot(total) && !all:
		r.Reason, r.Details = exchange.OffLot, &exchange.RejectDetails{Rules: rules}
	}
	if r.Reason != exchange.OK {
		return
	}
	r.Order = o.ID
	switch {
	case limit != o.Limit || open > o.Open:
		m.replace(c, r, o, total, limit)
	case open < o.Open:
		off := o.Open - open
		book.Reduce(o.ID, c.Account, off, m.now)
		m.state.Ledger.ReleaseReduced(instrument, &o, off)
		r.Amended = &exchange.Amended{Open: open, Reduced: off, Time: m.now}
	default:
		r.Amended = &exchange.Amended{Open: o.Open}
	}
}

func (m *market) replace(c *exchange.Command, r *exchange.Result, old exchange.Order, total exchange.Shares,
	limit exchange.Price) {
	sym := m.where[old.ID]
	ledger, instrument, book := m.state.Ledger, m.state.Ledger.Instrument(sym), m.state.Books[sym]
	o := old.Replacement(total, limit)
	if best, meets := book.Meets(o.Side, limit); o.Post && meets {
		r.Reason, r.Details = exchange.WouldExecute, &exchange.RejectDetails{Best: best}
		return
	}
	c.Symbol = sym
	if r.Reason = ledger.ReserveInstead(instrument, &old, &o); r.Reason != exchange.OK {
		return
	}
	m.state.OrderID++
	o.ID = m.state.OrderID
	fills := book.Replace(&o, m.now, nil)
	ledger.SettleInstead(instrument, &old, &o, fills)
	m.entered(sym, &o, fills, book.Own())
	r.Amended, r.Status = &exchange.Amended{By: o.ID}, m.reports[o.ID]
}

// openOf returns an account's open orders by id, in the symbol sym or, if that is "", in all symbols.
func (m *market) openOf(id exchange.AccountID, sym exchange.Symbol) (all []exchange.Order) {
	for s, book := range m.state.Books {
		if sym == "" || s == sym {
			all = slices.AppendSeq(all, book.OpenOf(m.state.Ledger.Account(id)))
		}
	}
	slices.SortFunc(all, func(a, b exchange.Order) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (m *market) cancelAll(c *exchange.Command, r *exchange.Result) {
	if c.Symbol != "" && m.state.Books[c.Symbol] == nil {
		r.Reason = exchange.UnknownSymbol
		return
	}
	open := m.openOf(c.Account, c.Symbol)
	for _, o := range open {
		sym := m.where[o.ID]
		canceled, _ := m.state.Books[sym].Cancel(o.ID, c.Account, m.now)
		m.state.Ledger.Release(m.state.Ledger.Instrument(sym), &canceled)
	}
	r.Answer = &exchange.Answer{Canceled: len(open)}
}

func (m *market) accountView(id exchange.AccountID) *exchange.AccountView {
	a := m.state.Ledger.Account(id)
	v := &exchange.AccountView{ID: id}
	v.Balance, v.Held = a.Balance()
	for sym := range m.state.Books {
		p := exchange.PositionView{Symbol: sym}
		if p.Shares, p.Held = m.state.Ledger.Instrument(sym).Position(a); p.Shares.Sign() > 0 || p.Held.Sign() > 0 {
			v.Positions = append(v.Positions, p)
		}
	}
	slices.SortFunc(v.Positions, func(a, b exchange.PositionView) int { return cmp.Compare(a.Symbol, b.Symbol) })
	return v
}

// after returns the value of after in a command that asks for a list; has is false if it has none.
func after(c *exchange.Command) (n uint64, has bool) {
	if c.More == nil {
		return 0, false
	}
	return c.More.After, c.More.HasAfter
}

func (m *market) ordersView(c *exchange.Command) *exchange.OrdersView {
	v := new(exchange.OrdersView)
	from, _ := after(c)
	for _, o := range m.openOf(c.Account, c.Symbol) {
		if uint64(o.ID) <= from {
			continue
		}
		if len(v.Orders) == exchange.ViewPageMax {
			v.More = v.Orders[len(v.Orders)-1].ID
			break
		}
		v.Orders = append(v.Orders, exchange.OrderDetail{ID: o.ID, Symbol: m.where[o.ID], Terms: o.Terms,
			OnDisconnect: o.OnDisconnect, Executed: o.ChainExecuted(), Open: o.Open, Time: m.now})
	}
	return v
}

func (m *market) fillsView(c *exchange.Command) *exchange.FillsView {
	v, all := new(exchange.FillsView), m.fills[c.Account]
	from, has := after(c)
	if !has {
		from = uint64(max(0, len(all)-exchange.ViewPageMax))
	}
	v.Fills = all[min(from, uint64(len(all))):]
	if len(v.Fills) > exchange.ViewPageMax {
		v.Fills = v.Fills[:exchange.ViewPageMax]
		v.More = v.Fills[exchange.ViewPageMax-1].N
	}
	return v
}
