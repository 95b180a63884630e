package trailtest

import (
	"fmt"

	"outcry/internal/exchange"
)

// Pairs makes the events of an exchange in which every second order rests and the next one of its symbol executes it.
// All orders are for one share at one price. The accounts are 1 to Accounts; the symbols are S0, S1 and so on.
type Pairs struct {
	Accounts, Symbols int
	Depth             int // how many orders rest at each symbol before the first one is executed

	ids     []exchange.AccountID
	names   []exchange.Symbol
	resting [][]exchange.Fill // orders that rest at a symbol, oldest first
	order   exchange.OrderID
	fills   [1]exchange.Fill
}

// Opening returns the events that make the accounts and the symbols, and give each account cash and shares.
func (p *Pairs) Opening() (all []exchange.Event) {
	for s := range p.Symbols {
		p.names = append(p.names, exchange.Symbol(fmt.Sprintf("S%d", s)))
		all = append(all, exchange.Event{Kind: exchange.SymbolMade, Symbol: p.names[s]})
	}
	p.resting = make([][]exchange.Fill, p.Symbols)
	for a := range p.Accounts {
		id := exchange.AccountID(fmt.Sprint(a + 1))
		p.ids = append(p.ids, id)
		all = append(all, exchange.Event{Kind: exchange.AccountOpened, Account: id, Balance: exchange.Notional(1e18, 1e18)})
		for s := range p.Symbols {
			all = append(all, exchange.Event{Kind: exchange.SharesDeposited, Account: id, Symbol: p.names[s],
				Deposited: exchange.Shares(1e18).Position()})
		}
	}
	return all
}

// Next returns the event of the next order. It is valid until the next call.
func (p *Pairs) Next() exchange.Event {
	p.order++
	n := int(p.order)
	s := n % p.Symbols
	e := exchange.Event{Kind: exchange.OrderAccepted, Order: p.order, Account: p.ids[n*7919%p.Accounts],
		Symbol: p.names[s], Terms: exchange.Terms{Side: exchange.Buy, Limit: 100e8}, Shares: 1e8, Time: 1e18 + int64(n)*5000}
	if rest := p.resting[s]; n/p.Symbols%2 == 1 && len(rest) > p.Depth {
		e.Side = exchange.Sell
		p.fills[0] = rest[0]
		e.Fills, p.resting[s] = p.fills[:], rest[1:]
		return e
	}
	p.resting[s] = append(p.resting[s], exchange.Fill{Resting: p.order, Account: e.Account, Shares: 1e8, Price: 100e8})
	return e
}
