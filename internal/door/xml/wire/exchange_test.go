package wire

import "outcry/internal/exchange"

// market is an exchange on one goroutine that keeps nothing on disk. The tests of this package use it to
// execute commands.
type market struct {
	state   *exchange.State
	where   map[exchange.OrderID]exchange.Symbol
	now     int64
	reports map[exchange.OrderID]exchange.Status // status of each order right after it was accepted
	fills   map[exchange.AccountID][]exchange.AccountFill
	request Request // the only connection's request, reused so that a <session> stays in effect
}

func newMarket() *market {
	return &market{state: exchange.NewState(), where: map[exchange.OrderID]exchange.Symbol{}, now: 1519348326,
		reports: map[exchange.OrderID]exchange.Status{}, fills: map[exchange.AccountID][]exchange.AccountFill{}}
}

// answer executes a frame's commands as a server does and returns the reply.
func (m *market) answer(frame []byte) string {
	r := &m.request
	r.Decode(frame, nil)
	if _, sets := r.Connection(); sets {
		r.CancelOnDisconnect(true)
	}
	results := make([]exchange.Result, len(r.Commands))
	for i := range r.Commands {
		m.execute(&r.Commands[i], &results[i])
	}
	return string(r.AppendReply(nil, results))
}

// ref returns the ref that a command gives to what it makes, not a ref by which it names an order.
func ref(c *exchange.Command) exchange.Ref {
	if c.Kind.Makes() {
		return c.Ref
	}
	if c.Kind == exchange.AmendOrder && c.More != nil {
		return c.More.NewRef
	}
	return ""
}

// execute executes a command, unless one with the same ref was executed before.
func (m *market) execute(c *exchange.Command, r *exchange.Result) {
	a := m.state.Ledger.Account(c.Account)
	if a != nil && c.Ref != "" && !c.Kind.Makes() { // the ref names an order
		use, _ := m.state.Refs.Find(a, c.Ref)
		if use.First() == 0 {
			r.Reason = exchange.UnknownOrder
			return
		}
		r.Order = m.state.Books[use.Symbol].Newest(use.First())
	}
	if own := ref(c); own != "" && a != nil {
		if use, used := m.state.Refs.Find(a, own); used {
			m.again(c, r, use)
			return
		}
	}
	m.do(c, r)
	if own := ref(c); own != "" && r.Reason == exchange.OK {
		use := c.Use()
		use.Order = r.Order
		if use.Amend != nil {
			o := m.find(r.Order)
			use.Symbol = m.where[r.Order]
			use.Amend.First, use.Amend.Named, use.Amend.Amended = o.First(), r.Order, *r.Amended
		}
		m.state.Refs.Add(m.state.Ledger.Account(c.Account), own, use)
	}
}

// again sets the result of a command whose ref was used before; use is that earlier use.
func (m *market) again(c *exchange.Command, r *exchange.Result, use exchange.RefUse) {
	asked := c.Use()
	if c.Kind == exchange.AmendOrder {
		o := m.find(c.Names(r))
		if o.ID == 0 {
			r.Reason = exchange.UnknownOrder
			return
		}
		asked.Symbol, asked.Amend.First = m.where[o.ID], o.First()
	}
	if !use.Same(asked) {
		r.Reason = exchange.RefUsed
		return
	}
	if r.Order = use.Order; use.Amend != nil {
		r.Order, r.Amended = use.Amend.Named, &use.Amend.Amended
		r.Status = m.reports[use.Amend.By]
		return
	}
	r.Status = m.reports[use.Order]
}

// find returns the order with the id, or the zero Order if there is no such order.
func (m *market) find(id exchange.OrderID) exchange.Order {
	book := m.state.Books[m.where[id]]
	if book == nil {
		return exchange.Order{}
	}
	o, _ := book.Find(id)
	return o
}

func (m *market) do(c *exchange.Command, r *exchange.Result) {
	ledger := m.state.Ledger
	switch c.Kind {
	case exchange.OpenAccount:
		if r.Reason = ledger.MayOpen(c.Account, c.Balance); r.Reason == exchange.OK {
			ledger.Open(c.Account, c.Balance)
		}
	case exchange.MakeSymbol:
		if m.state.Books[c.Symbol] == nil {
			m.state.List(c.Symbol)
			if c.More != nil {
				m.state.Books[c.Symbol].SetRules(c.More.Rules)
			}
		}
		m.sameRules(c, r)
	case exchange.DepositShares:
		instrument := ledger.Instrument(c.Symbol)
		if m.sameRules(c, r); r.Reason != exchange.OK {
			return
		}
		if r.Reason = ledger.MayDeposit(instrument, c.Account, c.Deposited); r.Reason == exchange.OK {
			ledger.Deposit(instrument, c.Account, c.Deposited)
		}
	default:
		if ledger.Account(c.Account) == nil {
			r.Reason = exchange.UnknownAccount
			return
		}
		m.trade(c, r)
	}
}

func (m *market) sameRules(c *exchange.Command, r *exchange.Result) {
	if c.More == nil {
		return
	}
	sent, rules := c.More.Rules, m.state.Books[c.Symbol].Rules()
	if sent.Tick != 0 && sent.Tick != max(rules.Tick, 1) || sent.Lot != 0 && sent.Lot != max(rules.Lot, 1) {
		r.Reason, r.Details = exchange.RulesDiffer, &exchange.RejectDetails{Rules: rules}
	}
}

func (m *market) trade(c *exchange.Command, r *exchange.Result) {
	switch c.Kind {
	case exchange.PlaceOrder:
		m.placeOrder(c, r)
	case exchange.QueryOrder, exchange.CancelOrder:
		m.queryOrCancel(c, r)
	case exchange.AmendOrder:
		m.amend(c, r)
	case exchange.CancelAll:
		m.cancelAll(c, r)
	case exchange.ShowAccount:
		r.Answer = &exchange.Answer{Account: m.accountView(c.Account)}
	case exchange.ListOrders:
		if c.Symbol != "" && m.state.Books[c.Symbol] == nil {
			r.Reason = exchange.UnknownSymbol
			return
		}
		r.Answer = &exchange.Answer{Orders: m.ordersView(c)}
	case exchange.ListFills:
		r.Answer = &exchange.Answer{Fills: m.fillsView(c)}
	}
}

func (m *market) queryOrCancel(c *exchange.Command, r *exchange.Result) {
	id := c.Names(r)
	book := m.state.Books[m.where[id]]
	if book == nil {
		r.Reason = exchange.UnknownOrder
		return
	}
	if c.Kind == exchange.CancelOrder {
		o, reason := book.Cancel(id, c.Account, m.now)
		if r.Reason = reason; reason != exchange.OK {
			return
		}
		m.state.Ledger.Release(m.state.Ledger.Instrument(m.where[id]), &o)
	}
	o, _ := book.Find(id)
	r.Status = o.Status()
}
