package exchange

import "fmt"

// Audit checks every invariant of the ledger and the books, by themselves and together:
// accounts hold exactly what open orders could spend. The error names the first
// violation. Audit walks the whole state.
func (s *State) Audit() error {
	if err := s.Ledger.Check(); err != nil {
		return err
	}
	if err := s.checkIndex(); err != nil {
		return err
	}
	cash, open := make(map[*Account]Cash), make(map[*Account]int)
	for sym, book := range s.Books {
		if err := book.Check(); err != nil {
			return fmt.Errorf("symbol %s: %w", sym, err)
		}
		if err := book.checkHolds(s.Ledger.Instrument(sym), cash, open); err != nil {
			return err
		}
	}
	for a := range s.Ledger.accounts.all() {
		if a.held != cash[a] {
			return fmt.Errorf("exchange: account %s holds %s, its open buys need %s", a.ID, a.held, cash[a])
		}
		if a.OpenOrders() != open[a] {
			return fmt.Errorf("exchange: account %s has %d open orders, counted %d", a.ID, open[a], a.open)
		}
	}
	return nil
}

// checkIndex checks that all books use the state's index, and that the index has no orders except those of the
// books. Book.Check checks that the index has all orders of the book.
func (s *State) checkIndex() error {
	orders := 0
	for sym, book := range s.Books {
		if book.index != s.Index {
			return fmt.Errorf("exchange: the book of symbol %s has its own index", sym)
		}
		orders += book.Resting() + book.Closed()
	}
	if n := s.Index.len(); n != orders {
		return fmt.Errorf("exchange: the index leads to %d orders, the books hold %d", n, orders)
	}
	return nil
}

// checkHolds compares the shares that accounts hold with the open sells, and the number of
// open orders of each account in the symbol with the ledger's count. It adds the cash that
// open buys need to cash, and the number of open orders to open.
func (b *Book) checkHolds(in *Instrument, cash map[*Account]Cash, open map[*Account]int) error {
	shares, orders := make(map[*Account]Position), make(map[*Account]int)
	for o := range b.Orders() {
		if o.Open > 0 {
			orders[o.Account]++
			open[o.Account]++
		}
		if o.Side == Buy {
			needed := Notional(o.Open, o.Limit)
			if o.Type == Market {
				needed = b.HoldOf(&o)
			}
			needed = cash[o.Account].Add(needed)
			if needed.Cmp(o.Account.held) > 0 { // stop before a damaged sum overflows
				return fmt.Errorf("exchange: account %s holds %s, its open buys need %s or more",
					o.Account.ID, o.Account.held, needed)
			}
			cash[o.Account] = needed
		} else {
			shares[o.Account] = shares[o.Account].Add(o.Open.Position())
		}
	}
	for a, h := range in.positions {
		if h.held != shares[a] {
			return fmt.Errorf("exchange: account %s holds %s of %s, its open sells need %s", a.ID, h.held, in.Symbol, shares[a])
		}
		delete(shares, a)
	}
	for a, n := range orders {
		if counted := a.OpenOrdersIn(in); counted != n {
			return fmt.Errorf("exchange: account %s has %d open orders in %s, counted %d", a.ID, n, in.Symbol, counted)
		}
	}
	for a, needed := range shares { // what remains are accounts without a position
		if needed.Sign() != 0 {
			return fmt.Errorf("exchange: account %s has no position in %s, its open sells need %s", a.ID, in.Symbol, needed)
		}
	}
	return nil
}
