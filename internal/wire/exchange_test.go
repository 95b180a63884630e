package wire

import "outcry/internal/exchange"

// market is an exchange on one goroutine that keeps nothing on disk: what the
// tests of this package have commands executed by.
type market struct {
	state *exchange.State
	where map[exchange.OrderID]exchange.Symbol
	now   int64
}

func newMarket() *market {
	return &market{exchange.NewState(), map[exchange.OrderID]exchange.Symbol{}, 1519348326}
}

// answer is what a server does with a frame.
func (m *market) answer(frame []byte) string {
	var r Request
	r.Decode(frame)
	results := make([]exchange.Result, len(r.Commands))
	for i := range r.Commands {
		m.execute(&r.Commands[i], &results[i])
	}
	return string(r.AppendReply(nil, results))
}

// execute does a command, but one that was done before with the same ref.
func (m *market) execute(c *exchange.Command, r *exchange.Result) {
	a := m.state.Ledger.Account(c.Account)
	if c.Ref == "" || a == nil {
		m.do(c, r)
	} else if use, used := m.state.Refs.Find(a, c.Ref); !c.Kind.Makes() {
		if r.Order = use.Order; use.Order == 0 {
			r.Reason = exchange.UnknownOrder
			return
		}
		m.do(c, r)
		return
	} else if used {
		if r.Order = use.Order; !use.Same(c.Use()) {
			r.Reason = exchange.RefUsed
		}
		return
	} else {
		m.do(c, r)
	}
	if c.Ref != "" && r.Reason == exchange.OK {
		use := c.Use()
		use.Order = r.Order
		m.state.Refs.Add(m.state.Ledger.Account(c.Account), c.Ref, use)
	}
}

func (m *market) do(c *exchange.Command, r *exchange.Result) {
	ledger := m.state.Ledger
	switch c.Kind {
	case exchange.OpenAccount:
		if r.Reason = ledger.MayOpen(c.Account, c.Balance); r.Reason == exchange.OK {
			ledger.Open(c.Account, c.Balance)
		}
	case exchange.MakeSymbol:
		m.state.List(c.Symbol)
	case exchange.DepositShares:
		instrument := ledger.Instrument(c.Symbol)
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

func (m *market) trade(c *exchange.Command, r *exchange.Result) {
	if c.Kind == exchange.PlaceOrder {
		m.placeOrder(c, r)
		return
	}
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

func (m *market) placeOrder(c *exchange.Command, r *exchange.Result) {
	ledger, instrument := m.state.Ledger, m.state.Ledger.Instrument(c.Symbol)
	if instrument == nil {
		r.Reason = exchange.UnknownSymbol
		return
	}
	o := c.NewOrder(ledger.Account(c.Account))
	o.ID = m.state.OrderID + 1
	if r.Reason = ledger.Reserve(instrument, &o); r.Reason != exchange.OK {
		r.CashHave, _ = o.Account.Balance()
		r.SharesHave, _ = instrument.Position(o.Account)
		return
	}
	m.state.OrderID++
	ledger.Settle(instrument, &o, m.state.Books[c.Symbol].Submit(&o, m.now, nil))
	m.where[o.ID] = c.Symbol
	r.Order = o.ID
}
