package exchange

import (
	"fmt"
	"strings"
)

// Ledger keeps the cash of each account, the shares of each account in each symbol, and how much of both open orders
// hold. Not safe for concurrent use: the engine guards it with one lock.
//
// Invariants: no value is negative; the balances and holds of all accounts add up
// to the balances they were opened with; the shares and holds in a symbol add up
// to what was deposited in it. They hold after every call. Check verifies them.
type Ledger struct {
	accounts    accountTable
	instruments map[Symbol]*Instrument
	opened      Cash          // sum of the opening balances of all accounts
	count       count[Cash]   // running count of all cash, see Reconcile
	open        int           // number of open orders of all accounts
	numbered    []*Instrument // by Instrument.number - 1
}

// Account is an account's cash and its open orders. Its fields are guarded like the
// Ledger, except ID, which never changes.
type Account struct {
	ID      AccountID
	balance Cash // free to spend
	held    Cash // set aside for open buys: the sum of limit × open shares
	// unsettled counts reservations whose record is not in the journal yet. A rejection
	// for insufficient funds must not be sent while they are the cause.
	unsettled int32
	open      int32        // number of open orders in all symbols
	openIn    *openIn      // number of open orders by symbol; nil if they are all in one symbol
	latest    *position    // the position that was looked up last: the fills of an order need it again
	counted   uint32       // the round in which Ledger.count counted this account
	hash      uint32       // hash of ID in the accountTable
	chain     slot         // next account in the same bucket of the accountTable
	only      uint32       // number of the only symbol with open orders, if openIn is nil and open > 0
	more      *accountMore // nil in most accounts
}

// Instrument is a symbol in the ledger, with the positions of all accounts in it. Its
// fields are guarded like the Ledger, except Symbol, which never changes.
type Instrument struct {
	Symbol    Symbol
	deposited Position               // sum of all shares ever deposited
	number    uint32                 // number of the symbol, counted from 1
	positions map[*Account]*position // nil until there is a position
	count     count[Position]        // running count of all shares, see Ledger.Reconcile
}

// position is one account's position in one symbol.
type position struct {
	in      *Instrument
	shares  Position // free to sell
	held    Position // set aside for open sells
	counted uint32   // the round in which Instrument.count counted this position
}

// NewLedger returns a ledger without accounts and symbols.
func NewLedger() *Ledger {
	return &Ledger{accounts: newAccountTable(), instruments: make(map[Symbol]*Instrument)}
}

// Account returns an account, or nil if it does not exist.
func (l *Ledger) Account(id AccountID) *Account { return l.accounts.find(id) }

// Accounts returns the number of accounts.
func (l *Ledger) Accounts() int { return l.accounts.count }

// AccountDigits returns the length of the longest account id.
func (l *Ledger) AccountDigits() int { return l.accounts.digits }

// Instrument returns a symbol's instrument, or nil if the symbol was never made.
func (l *Ledger) Instrument(s Symbol) *Instrument { return l.instruments[s] }

// Balance returns what the account can spend and what open buys hold.
func (a *Account) Balance() (free, held Cash) { return a.balance, a.held }

// Position returns what the account can sell and what open sells hold.
func (in *Instrument) Position(a *Account) (free, held Position) {
	if h := in.positions[a]; h != nil {
		return h.shares, h.held
	}
	return Position{}, Position{}
}

// Deposited returns the sum of all shares ever deposited in the symbol.
func (in *Instrument) Deposited() Position { return in.deposited }

// MayOpen reports whether Open would open an account. It returns OK, AccountExists or
// BalanceTotalExceeded, and changes nothing.
func (l *Ledger) MayOpen(id AccountID, balance Cash) RejectReason {
	switch {
	case l.accounts.find(id) != nil:
		return AccountExists
	case l.opened.Add(balance).Cmp(CashTotalMax) >= 0:
		return BalanceTotalExceeded
	}
	return OK
}

// Open opens an account. It panics if MayOpen does not return OK.
func (l *Ledger) Open(id AccountID, balance Cash) {
	if r := l.MayOpen(id, balance); r != OK {
		panic(fmt.Sprintf("exchange: account %s cannot be opened: %s", id, r))
	}
	a := l.accounts.add(id)
	a.balance, a.counted = balance, l.count.round
	l.opened = l.opened.Add(balance)
	l.count.addGain(a.counted, balance)
}

// List creates a symbol and returns its instrument, or the existing one.
func (l *Ledger) List(s Symbol) *Instrument {
	in := l.instruments[s]
	if in == nil {
		in = &Instrument{Symbol: Symbol(strings.Clone(string(s))), number: uint32(len(l.instruments) + 1)}
		l.numbered = append(l.numbered, in)
		l.instruments[in.Symbol] = in
	}
	return in
}

// MayDeposit reports whether Deposit would deposit shares. It returns OK, UnknownAccount or
// PositionTotalExceeded, and changes nothing.
func (l *Ledger) MayDeposit(in *Instrument, id AccountID, p Position) RejectReason {
	switch {
	case l.accounts.find(id) == nil:
		return UnknownAccount
	case in.deposited.Add(p).Cmp(PositionTotalMax) >= 0:
		return PositionTotalExceeded
	}
	return OK
}

// Deposit adds shares to an account's position. It panics if MayDeposit does not
// return OK.
func (l *Ledger) Deposit(in *Instrument, id AccountID, p Position) {
	if r := l.MayDeposit(in, id, p); r != OK {
		panic(fmt.Sprintf("exchange: shares of %s cannot be deposited with account %s: %s", in.Symbol, id, r))
	}
	h := in.positionOf(l.accounts.find(id))
	h.shares = h.shares.Add(p)
	in.deposited = in.deposited.Add(p)
	in.count.addGain(h.counted, p)
}

// Reserve sets aside what o could spend: a buy holds Limit × Shares, a sell
// holds Shares. It returns OK, InsufficientFunds or InsufficientShares; unless it
// returns OK, l is unchanged. Every reservation is followed by Settle or
// Withdraw. A market buy needs ReserveMarket instead.
func (l *Ledger) Reserve(in *Instrument, o *Order) RejectReason {
	if o.Side == Buy {
		cost := Notional(o.Shares, o.Limit)
		if o.Account.balance.Cmp(cost) < 0 {
			return InsufficientFunds
		}
		o.Account.balance = o.Account.balance.Sub(cost)
		o.Account.held = o.Account.held.Add(cost)
	} else {
		h, s := in.find(o.Account), o.Shares.Position()
		if h == nil || h.shares.Cmp(s) < 0 {
			return InsufficientShares
		}
		h.shares = h.shares.Sub(s)
		h.held = h.held.Add(s)
	}
	l.openOrder(in, o.Account)
	o.Account.unsettled++
	return OK
}

// Unsettled reports whether the account has a reservation that is not settled
// yet: another symbol's goroutine is matching its order.
func (a *Account) Unsettled() bool { return a.unsettled > 0 }

// Settle moves cash and shares for the fills of a reserved order. The buyer's hold of
// its own limit × shares is used up: the seller gets price × shares, the buyer gets
// the shares and the rest of the hold. Shares that the order's own record canceled are
// released too. Settle is called once for each reservation, after the order's event
// has its place in the journal, with the fills from the Book.Submit of this order. The fills
// of further parts, from Book.Continue, go to SettleMore. Orders canceled by self-trade
// prevention go to ReleaseOwn, before the ledger's lock is released.
func (l *Ledger) Settle(in *Instrument, o *Order, fills []Fill) {
	o.Account.unsettled--
	l.SettleMore(in, o, fills)
}

// SettleMore is Settle for a further part of an order, after the part's event has its
// place in the journal.
func (l *Ledger) SettleMore(in *Instrument, o *Order, fills []Fill) {
	for i := range fills {
		f := &fills[i]
		if o.Side == Buy {
			limit := o.Limit
			if o.Type == Market {
				limit = f.Price // a market buy holds exactly that
			}
			l.exchange(in, o.Account, f.owner, limit, f)
		} else {
			l.exchange(in, f.owner, o.Account, f.Price, f)
		}
		if f.Closed {
			l.closeOrder(in, f.owner)
		}
	}
	if o.Open == 0 {
		if o.AtOnce {
			in.giveBack(o, o.Canceled)
		}
		l.closeOrder(in, o.Account)
	}
}

// Withdraw takes back the reservation of an order that is not accepted after all.
// It is called instead of Settle. A market buy needs WithdrawMarket instead.
func (l *Ledger) Withdraw(in *Instrument, o *Order) {
	o.Account.unsettled--
	in.giveBack(o, o.Shares)
	l.closeOrder(in, o.Account)
}

// exchange moves cash and shares for one fill. limit is the limit of the buy; if the buy
// was resting, that is the price of the fill.
func (l *Ledger) exchange(in *Instrument, buyer, seller *Account, limit Price, f *Fill) {
	hold, price := Notional(f.Shares, limit), Notional(f.Shares, f.Price)
	buyer.held = use(buyer.held, hold)
	buyer.balance = buyer.balance.Add(hold.Sub(price))
	seller.balance = seller.balance.Add(price)

	s := f.Shares.Position()
	from, to := in.find(seller), in.positionOf(buyer)
	from.held = use(from.held, s)
	to.shares = to.shares.Add(s)

	// The running sum does not change if both are counted, or neither is.
	if seller.counted != buyer.counted {
		l.count.addGain(seller.counted, price)
		l.count.addGain(buyer.counted, Cash{}.Sub(price))
	}
	if to.counted != from.counted {
		in.count.addGain(to.counted, s)
		in.count.addGain(from.counted, Position{}.Sub(s))
	}
}

// Release returns the remaining hold of a canceled order to the account, and counts it as closed.
func (l *Ledger) Release(in *Instrument, o *Order) {
	in.giveBack(o, o.Canceled)
	l.closeOrder(in, o.Account)
}

// giveBack releases o's hold for some of its shares: their cash can be spent again, or they can be sold again.
func (in *Instrument) giveBack(o *Order, shares Shares) {
	if o.Side == Buy {
		if o.Type == Market {
			return // a market buy holds nothing for unexecuted shares
		}
		hold := Notional(shares, o.Limit)
		o.Account.held = use(o.Account.held, hold)
		o.Account.balance = o.Account.balance.Add(hold)
		return
	}
	h, s := in.find(o.Account), shares.Position()
	h.held = use(h.held, s)
	h.shares = h.shares.Add(s)
}

// quantity is the type of an amount that can be held.
type quantity[T any] interface {
	Cash | Position
	Sub(T) T
	Sign() int
}

// use takes part of a hold. A hold that would go below zero means that money or
// shares were spent twice: a bug.
func use[T quantity[T]](held, part T) T {
	held = held.Sub(part)
	if held.Sign() < 0 {
		panic("exchange: a hold went below zero")
	}
	return held
}

// find returns the account's position, or nil if it has none.
func (in *Instrument) find(a *Account) *position {
	if h := a.latest; h != nil && h.in == in {
		return h
	}
	h := in.positions[a]
	if h != nil {
		a.latest = h
	}
	return h
}

// positionOf returns the account's position, and creates an empty one if it has none.
func (in *Instrument) positionOf(a *Account) *position {
	h := in.find(a)
	if h == nil {
		h = &position{in: in, counted: in.count.round}
		if in.positions == nil {
			in.positions = make(map[*Account]*position)
		}
		in.positions[a] = h
		a.latest = h
	}
	return h
}

// Check adds everything up and returns an error that names the first violated invariant. It is for tests, the end of a
// replay, and audits.
func (l *Ledger) Check() error {
	total := Cash{}
	for a := range l.accounts.all() {
		if a.balance.Sign() < 0 || a.held.Sign() < 0 || a.unsettled < 0 {
			return fmt.Errorf("exchange: account %s has %s free, %s held, %d unsettled", a.ID, a.balance, a.held, a.unsettled)
		}
		if total = total.Add(a.balance).Add(a.held); total.Cmp(l.opened) > 0 {
			break // stop before a damaged sum overflows
		}
	}
	if total != l.opened {
		return fmt.Errorf("exchange: accounts were opened with %s in total and have %s", l.opened, total)
	}
	for s, in := range l.instruments {
		total := Position{}
		for a, h := range in.positions {
			if h.shares.Sign() < 0 || h.held.Sign() < 0 {
				return fmt.Errorf("exchange: account %s has %s free, %s held of %s", a.ID, h.shares, h.held, s)
			}
			if total = total.Add(h.shares).Add(h.held); total.Cmp(in.deposited) > 0 {
				break
			}
		}
		if total != in.deposited {
			return fmt.Errorf("exchange: %s of %s were deposited, accounts have %s", in.deposited, s, total)
		}
	}
	return nil
}
