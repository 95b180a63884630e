package postgres

import (
	"cmp"
	"fmt"

	"outcry/internal/exchange"
)

// batch is what a run of journal records changes in the tables. Balances,
// positions and resting orders are added up, so that each row is written once a
// batch however often it changed.
type batch struct {
	first, last uint64 // seqs; first is last+1 when the batch is empty

	opened    map[exchange.AccountID]openedRow // accounts made in this batch
	accounts  map[exchange.AccountID]*cashChange
	made      map[exchange.Symbol]uint64            // symbols made in this batch → seq
	placed    map[exchange.Symbol]exchange.Position // symbols made or placed into
	positions map[positionKey]*sharesChange

	halts map[exchange.Symbol]*exchange.Halt // those that are halted at the end, and nil for those that are no longer

	// What was set for accounts and symbols, as it is at the end.
	accountRules map[exchange.AccountID]exchange.AccountRules
	symbolRules  map[exchange.Symbol]exchange.SymbolRules
	switches     map[exchange.AccountID]int64

	traded map[exchange.Symbol]*exchange.Traded

	// The rows that the logs get.
	placementLog, orderLog, partLog, cancelLog, haltLog, refs     copyRows[record]
	amendLog, holdLog, causeLog, accountLog, symbolLog, switchLog copyRows[record]
	executionLog                                                  copyRows[execution]

	row       record    // of the record that is added, or of one of its cancels
	execution execution // that is added

	orders   []restingRow                         // of this batch, at its end
	accepted map[exchange.OrderID]int             // orders of this batch → index in orders
	taken    map[exchange.OrderID]exchange.Shares // open shares that older orders lost by executions
	reduced  map[exchange.OrderID]exchange.Shares // likewise by amends
	// older orders that were canceled, with all that was open before the batch
	canceled map[exchange.OrderID]exchange.Shares
}

type openedRow struct {
	seq     uint64
	balance exchange.Cash
}

type cashChange struct {
	balance, held exchange.Cash
	fills         accountFills
}

type sharesChange struct{ shares, held exchange.Position }

type positionKey struct {
	symbol  exchange.Symbol
	account exchange.AccountID
}

func (k positionKey) compare(l positionKey) int {
	return cmp.Or(cmp.Compare(k.symbol, l.symbol), cmp.Compare(k.account, l.account))
}

func newBatch() *batch {
	return &batch{
		placementLog: newCopy(placementLog), orderLog: newCopy(orderLog), partLog: newCopy(partLog),
		cancelLog: newCopy(cancelLog), haltLog: newCopy(haltLog), refs: newCopy(refTable),
		amendLog: newCopy(amendLog), holdLog: newCopy(holdLog), causeLog: newCopy(causeLog),
		accountLog: newCopy(accountLog), symbolLog: newCopy(symbolLog), switchLog: newCopy(switchLog),
		executionLog: newCopy(executionLog),

		accountRules: make(map[exchange.AccountID]exchange.AccountRules),
		symbolRules:  make(map[exchange.Symbol]exchange.SymbolRules),
		switches:     make(map[exchange.AccountID]int64),

		opened:    make(map[exchange.AccountID]openedRow),
		accounts:  make(map[exchange.AccountID]*cashChange),
		made:      make(map[exchange.Symbol]uint64),
		placed:    make(map[exchange.Symbol]exchange.Position),
		positions: make(map[positionKey]*sharesChange),
		halts:     make(map[exchange.Symbol]*exchange.Halt),
		traded:    make(map[exchange.Symbol]*exchange.Traded),
		accepted:  make(map[exchange.OrderID]int),
		taken:     make(map[exchange.OrderID]exchange.Shares),
		reduced:   make(map[exchange.OrderID]exchange.Shares),
		canceled:  make(map[exchange.OrderID]exchange.Shares),
	}
}

// reset empties b; its first record will be the one after seq.
func (b *batch) reset(seq uint64) {
	b.first, b.last = seq+1, seq
	clear(b.opened)
	clear(b.accounts)
	clear(b.made)
	clear(b.placed)
	clear(b.positions)
	clear(b.halts)
	clear(b.accountRules)
	clear(b.symbolRules)
	clear(b.switches)
	clear(b.traded)
	for _, log := range b.logs() {
		log.reset()
	}
	b.executionLog.reset()
	b.orders = b.orders[:0]
	clear(b.accepted)
	clear(b.taken)
	clear(b.reduced)
	clear(b.canceled)
}

// logs are the rows of all records, in the order in which they are written.
func (b *batch) logs() [12]*copyRows[record] {
	return [...]*copyRows[record]{&b.placementLog, &b.orderLog, &b.partLog, &b.cancelLog, &b.haltLog, &b.refs,
		&b.amendLog, &b.holdLog, &b.causeLog, &b.accountLog, &b.symbolLog, &b.switchLog}
}

// full reports whether b, which is to have up to size records, takes no further one.
func (b *batch) full(size int) bool {
	return b.records() >= size || b.executionLog.n >= batchExecutionsMax
}

// records returns how many records are in b.
func (b *batch) records() int { return int(b.last + 1 - b.first) }

// add takes in the next record. The error says that it is not the next one, or of a kind
// that has no rows.
func (b *batch) add(seq uint64, e *exchange.Event) error {
	if seq != b.last+1 {
		return fmt.Errorf("postgres: journal record %d follows record %d", seq, b.last)
	}
	b.last = seq
	b.row = record{Event: *e, seq: seq}
	if e.Ref != "" {
		b.refs.add(&b.row)
	}
	switch e.Kind {
	case exchange.AccountOpened:
		b.opened[e.Account] = openedRow{seq, e.Balance}
		b.cash(e.Account, e.Balance, exchange.Cash{})
	case exchange.SymbolMade:
		b.made[e.Symbol] = seq
		b.placed[e.Symbol] = exchange.Position{}
		if e.SymbolRules != nil {
			b.ruleSymbol(e)
		}
	case exchange.SharesDeposited:
		b.placementLog.add(&b.row)
		b.placed[e.Symbol] = b.placed[e.Symbol].Add(e.Deposited)
		b.shares(e.Symbol, e.Account, e.Deposited, exchange.Position{})
	case exchange.OrderAccepted:
		b.accept(e)
	case exchange.OrderContinued:
		b.row.last = int32(e.Before + len(e.Fills))
		b.partLog.add(&b.row)
		b.execute(e)
		b.end(e)
	case exchange.OrderCanceled:
		b.cancel(e, 0)
	case exchange.OrdersCanceled:
		b.cancelAll(e)
	case exchange.SymbolHalted:
		b.haltLog.add(&b.row)
		b.halts[e.Symbol] = &exchange.Halt{Since: e.Time, Reason: e.Reason}
	case exchange.SymbolResumed:
		b.haltLog.add(&b.row)
		b.halts[e.Symbol] = nil
	case exchange.OrderReduced:
		b.reduce(e)
	case exchange.OrderReplaced:
		b.replace(e)
	case exchange.AccountRuled:
		b.accountLog.add(&b.row)
		b.accountRules[e.Account] = *b.row.accountRules()
	case exchange.SymbolRuled:
		b.ruleSymbol(e)
	case exchange.SwitchSet:
		b.switchLog.add(&b.row)
		b.switches[e.Account] = e.Due
	default:
		return fmt.Errorf("postgres: journal record %d is of unknown kind %s", seq, e.Kind)
	}
	return nil
}

// accept adds an order, its hold, and its fills.
func (b *batch) accept(e *exchange.Event) {
	b.reserve(e)
	b.orderLog.add(&b.row)
	b.accepted[e.Order] = len(b.orders)
	b.orders = append(b.orders, restingRow{amended: e.Amend != nil, OrderState: exchange.OrderState{
		ID: e.Order, Account: e.Account, Symbol: e.Symbol, Terms: e.Terms, Shares: e.Shares, Open: e.Shares,
		OnDisconnect: e.OnDisconnect}})
	b.execute(e)
	b.end(e)
}

// execute adds the fills of an order, or of a further part of it.
func (b *batch) execute(e *exchange.Event) {
	took := exchange.Shares(0)
	for i := range e.Fills {
		f := &e.Fills[i]
		took += f.Shares
		b.execution = execution{order: e.Order, resting: f.Resting, n: e.Before + i + 1, symbol: e.Symbol,
			buys: e.Side == exchange.Buy, Execution: exchange.Execution{Shares: f.Shares, Price: f.Price, Time: e.Time}}
		b.executionLog.add(&b.execution)
		b.take(f.Resting, f.Shares)
		b.settle(e, *f, b.execution.n)
	}
	b.take(e.Order, took)
	b.trade(e)
}

// take takes executed shares from what is open of an order.
func (b *batch) take(id exchange.OrderID, shares exchange.Shares) {
	if m, ok := b.accepted[id]; ok {
		b.orders[m].Open -= shares
	} else if shares > 0 {
		b.taken[id] += shares
	}
}

// trade adds what an order's fills come to.
func (b *batch) trade(e *exchange.Event) {
	if len(e.Fills) == 0 {
		return
	}
	traded := b.traded[e.Symbol]
	if traded == nil {
		traded = new(exchange.Traded)
		b.traded[e.Symbol] = traded
	}
	for i := range e.Fills {
		t := e.Trade(i)
		traded.Add(&t)
	}
}

// settle moves what one fill moves, the n-th of its order, and counts it for both accounts, the
// resting order's first. A resting order's limit is the price.
func (b *batch) settle(e *exchange.Event, f exchange.Fill, n int) {
	pays, shares := exchange.Notional(f.Shares, f.Price), f.Shares.Position()
	none, noShares := exchange.Cash{}, exchange.Position{}
	if e.Side == exchange.Buy {
		held := pays
		if e.Type != exchange.Market { // which holds exactly what its fills cost
			held = exchange.Notional(f.Shares, e.Limit)
		}
		b.cash(f.Account, pays, none).fills.add(e.Order, n, false)
		b.shares(e.Symbol, f.Account, noShares, noShares.Sub(shares))
		b.cash(e.Account, held.Sub(pays), none.Sub(held)).fills.add(e.Order, n, true)
		b.shares(e.Symbol, e.Account, shares, noShares)
		return
	}
	b.cash(f.Account, none, none.Sub(pays)).fills.add(e.Order, n, false)
	b.shares(e.Symbol, f.Account, shares, noShares)
	b.cash(e.Account, pays, none).fills.add(e.Order, n, true)
	b.shares(e.Symbol, e.Account, noShares, noShares.Sub(shares))
}

// cancel adds a cancel and gives back the hold. n is its place in a cancel of many
// orders, 0 if it is by itself.
func (b *batch) cancel(e *exchange.Event, n int32) {
	if e.Type != exchange.Market || e.Side != exchange.Buy { // which holds nothing for what it does not get
		b.hold(e, -e.Shares)
	}
	b.row = record{Event: *e, seq: b.last, n: n}
	b.cancelLog.add(&b.row)
	if m, ok := b.accepted[e.Order]; ok {
		b.orders[m].Open = 0
	} else {
		b.canceled[e.Order] = e.Shares + b.taken[e.Order] + b.reduced[e.Order]
		delete(b.taken, e.Order)
		delete(b.reduced, e.Order)
	}
}

// hold moves what some shares of an order could spend from free to held; a
// negative number of shares moves it back.
func (b *batch) hold(e *exchange.Event, s exchange.Shares) {
	back := s < 0
	if back {
		s = -s
	}
	if e.Side == exchange.Buy {
		held := exchange.Notional(s, e.Limit)
		free := exchange.Cash{}.Sub(held)
		if back {
			held, free = free, held
		}
		b.cash(e.Account, free, held)
		return
	}
	held := s.Position()
	free := exchange.Position{}.Sub(held)
	if back {
		held, free = free, held
	}
	b.shares(e.Symbol, e.Account, free, held)
}

// cash adds to what an account's row changes by, and returns that.
func (b *batch) cash(id exchange.AccountID, balance, held exchange.Cash) *cashChange {
	c := b.accounts[id]
	if c == nil {
		c = new(cashChange)
		b.accounts[id] = c
	}
	c.balance, c.held = c.balance.Add(balance), c.held.Add(held)
	return c
}

// shares adds to what a position's row changes by.
func (b *batch) shares(s exchange.Symbol, id exchange.AccountID, shares, held exchange.Position) {
	key := positionKey{s, id}
	c := b.positions[key]
	if c == nil {
		c = new(sharesChange)
		b.positions[key] = c
	}
	c.shares, c.held = c.shares.Add(shares), c.held.Add(held)
}
