package exchange

import "fmt"

// Snapshot is the state of an exchange after a journal record, as a database
// keeps it: everything needed to continue, and no history.
type Snapshot struct {
	Seq       uint64  // the last record included in the state
	OrderID   OrderID // the highest order id given out, 0 if none was
	Time      int64   // time of the latest record included, nanoseconds since the Unix epoch; 0 if unknown
	Accounts  []AccountState
	Symbols   []SymbolState
	Positions []PositionState
	Orders    []OrderState // open orders, sorted by id
}

// AccountState is an account in a Snapshot.
type AccountState struct {
	ID                    AccountID
	Opened, Balance, Held Cash
	Fills                 uint64        // executions of all its orders, each side counted; only for the view of accounts
	Events                uint64        // number of its newest AccountEvent; only for the view of accounts
	Rules                 *AccountRules // nil if none are set
	Due                   int64         // when the dead man's switch fires, nanoseconds since the epoch; 0 if off
}

// SymbolState is a symbol in a Snapshot.
type SymbolState struct {
	Symbol    Symbol
	Deposited Position
	Halt      *Halt // nil unless the symbol is halted
	Rules     SymbolRules
	Last      Price  // price of the newest trade, 0 before the first
	Trades    uint64 // number of trades; only for the view of accounts
}

// PositionState is an account's position in a symbol in a Snapshot.
type PositionState struct {
	Symbol       Symbol
	Account      AccountID
	Shares, Held Position
}

// OrderState is an order in a Snapshot.
type OrderState struct {
	ID      OrderID
	Account AccountID
	Symbol  Symbol
	Terms
	Time         int64 // when it was accepted, nanoseconds since the Unix epoch; only for the view of accounts
	Shares       Shares
	Open         Shares
	Executions   []Execution
	OnDisconnect bool
	Taken        TakenCount // 0 if unknown
	Lineage      *Lineage   // nil if the order was never amended and replaces none

	// Only for the view of accounts; as in OrderDetail.
	Unsent      Unsent
	Ref, NewRef Ref
}

// state returns o as an order of a snapshot, without its executions.
func (o *Order) state(sym Symbol) OrderState {
	return OrderState{ID: o.ID, Account: o.Account.ID, Symbol: sym, Terms: o.Terms, Shares: o.Shares,
		Open: o.Open, OnDisconnect: o.OnDisconnect, Taken: o.Taken, Lineage: o.Lineage}
}

// value formats an order of a snapshot, except its executions.
func (s *OrderState) value() string {
	text := fmt.Sprintf("account %s, %s, %s open", s.Account, s.Terms.Text(s.Shares, s.Symbol), s.Open)
	if !s.plain() || s.OnDisconnect {
		text += fmt.Sprintf(", %s, cod %t", s.words(), s.OnDisconnect)
	}
	if l := s.Lineage; l != nil {
		text += fmt.Sprintf(", of the chain of order %d, replaces %d, which executed %s, reduced by %s, at last at %d",
			l.First, l.Replaces, l.Executed, l.Reduced, l.ReducedAt)
	}
	return text
}

// Restore returns the state of the snapshot, audited. If the snapshot is inconsistent, which
// means that the stored data was modified, the error says what is wrong.
func (s *Snapshot) Restore() (*State, error) {
	st := NewState()
	st.OrderID, st.Time = s.OrderID, s.Time
	if err := s.restoreLedger(st.Ledger); err != nil {
		return nil, err
	}
	for _, sym := range s.Symbols {
		book := st.List(sym.Symbol)
		if sym.Last < 0 || sym.Last > limitMax || sym.Rules.Check() != nil {
			return nil, fmt.Errorf(
				"exchange: symbol %s is out of range: %s, last trade at %s",
				sym.Symbol,
				sym.value(),
				sym.Last,
			)
		}
		book.halt, book.last = sym.Halt, sym.Last
		book.SetRules(sym.Rules)
	}
	for i := range s.Orders {
		if err := s.Orders[i].restore(st); err != nil {
			return nil, err
		}
	}
	return st, st.Audit()
}

func (s *Snapshot) restoreLedger(l *Ledger) error {
	for _, a := range s.Accounts {
		if l.accounts.find(a.ID) != nil {
			return fmt.Errorf("exchange: account %s appears twice", a.ID)
		}
		if !inRange(CashTotalMax, a.Opened, a.Balance, a.Held) || !inRange(CashTotalMax, l.opened.Add(a.Opened)) {
			return fmt.Errorf("exchange: account %s is out of range: opened with %s, %s free, %s held",
				a.ID, a.Opened, a.Balance, a.Held)
		}
		account := l.accounts.add(a.ID)
		account.balance, account.held = a.Balance, a.Held
		if a.Rules != nil {
			if err := a.Rules.Check(); err != nil {
				return fmt.Errorf("exchange: account %s is out of range: %w", a.ID, err)
			}
			l.SetRules(account, a.Rules)
		}
		if a.Due != 0 {
			l.SetSwitch(account, a.Due)
		}
		l.opened = l.opened.Add(a.Opened)
	}
	for _, sym := range s.Symbols {
		if l.instruments[sym.Symbol] != nil {
			return fmt.Errorf("exchange: symbol %s appears twice", sym.Symbol)
		}
		if !inRange(PositionTotalMax, sym.Deposited) {
			return fmt.Errorf("exchange: symbol %s is out of range: %s placed", sym.Symbol, sym.Deposited)
		}
		l.List(sym.Symbol).deposited = sym.Deposited
	}
	for _, p := range s.Positions {
		in, a := l.instruments[p.Symbol], l.accounts.find(p.Account)
		if in == nil || a == nil || in.positions[a] != nil {
			return fmt.Errorf("exchange: the position of account %s in %s appears twice, or has no account or symbol",
				p.Account, p.Symbol)
		}
		if !inRange(PositionTotalMax, p.Shares, p.Held) {
			return fmt.Errorf("exchange: the position of account %s in %s is out of range: %s free, %s held",
				p.Account, p.Symbol, p.Shares, p.Held)
		}
		h := in.positionOf(a)
		h.shares, h.held = p.Shares, p.Held
	}
	return nil
}

// inRange reports whether all values are at least 0 and below max. Stored values may be
// anything, and their sums must not overflow before Audit checks them.
func inRange[T interface {
	Cmp(T) int
	Sign() int
}](max T, values ...T) bool {
	for _, v := range values {
		if v.Sign() < 0 || v.Cmp(max) >= 0 {
			return false
		}
	}
	return true
}

func (s *OrderState) restore(st *State) error {
	book, account := st.Books[s.Symbol], st.Ledger.accounts.find(s.Account)
	if book == nil || account == nil {
		return fmt.Errorf("exchange: order %d has no account %s or no symbol %s", s.ID, s.Account, s.Symbol)
	}
	o := &Order{ID: s.ID, Account: account, Terms: s.Terms, Shares: s.Shares, Open: s.Open, Executions: s.Executions,
		OnDisconnect: s.OnDisconnect, Taken: s.Taken, Lineage: s.Lineage}
	st.OrderID = max(st.OrderID, s.ID)
	if err := book.Restore(o); err != nil {
		return err
	}
	st.Ledger.openOrder(st.Ledger.Instrument(s.Symbol), account)
	return nil
}
