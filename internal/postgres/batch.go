package postgres

import (
	"cmp"
	"fmt"

	"outcry/internal/exchange"
	"outcry/internal/exchange/idmap"
)

// batch is what a run of journal records changes in the tables. Balances,
// positions and resting orders are added up, so that each row is written once a
// batch however often it changed.
type batch struct {
	first, last uint64 // seqs; first is last+1 when the batch is empty
	time        int64  // the latest of its records; 0 when it is empty

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

	traded map[exchange.Symbol]*tradedChange

	// The rows that the logs get. Those of executions are put together when they are written: their numbers go on after
	// those in the tables.
	placementLog, orderLog, partLog, cancelLog, haltLog, refs     copyRows[record]
	amendLog, holdLog, causeLog, accountLog, symbolLog, switchLog copyRows[record]
	executions                                                    []numberedExecution
	executionLog                                                  copyRows[execution]
	placedLog                                                     copyRows[placedRow]

	row record // of the record that is added, or of one of its cancels

	orders   []restingRow                          // of this batch, at its end, but for those that their own record closed
	accepted idmap.Map                             // orders of this batch → index in orders, from 1
	taken    map[exchange.OrderID]exchange.Shares  // open shares that older orders lost by executions
	reduced  map[exchange.OrderID]exchange.Changes // likewise by amends
	renamed  map[exchange.OrderID]exchange.Shares  // none: older orders to which an amend only gave a ref
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
	events        uint32 // records that changed what the account sees of itself
	seq           uint64 // the last of them
	placed        placedOrders

	before uint64 // how many executions it had before the batch, once that is known
}

// event counts a record, once.
func (c *cashChange) event(seq uint64) {
	if c.seq != seq {
		c.seq = seq
		c.events++
	}
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
		executionLog: newCopy(executionLog), placedLog: newCopy(placedLog),

		accountRules: make(map[exchange.AccountID]exchange.AccountRules),
		symbolRules:  make(map[exchange.Symbol]exchange.SymbolRules),
		switches:     make(map[exchange.AccountID]int64),

		opened:    make(map[exchange.AccountID]openedRow),
		accounts:  make(map[exchange.AccountID]*cashChange),
		made:      make(map[exchange.Symbol]uint64),
		placed:    make(map[exchange.Symbol]exchange.Position),
		positions: make(map[positionKey]*sharesChange),
		halts:     make(map[exchange.Symbol]*exchange.Halt),
		traded:    make(map[exchange.Symbol]*tradedChange),
		taken:     make(map[exchange.OrderID]exchange.Shares),
		reduced:   make(map[exchange.OrderID]exchange.Changes),
		renamed:   make(map[exchange.OrderID]exchange.Shares),
		canceled:  make(map[exchange.OrderID]exchange.Shares),
	}
}

// reset empties b; its first record will be the one after seq.
func (b *batch) reset(seq uint64) {
	b.first, b.last, b.time = seq+1, seq, 0
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
	clear(b.executions) // they hold on to accounts
	b.executions = b.executions[:0]
	b.orders = b.orders[:0]
	b.accepted = idmap.Map{}
	clear(b.taken)
	clear(b.reduced)
	clear(b.renamed)
	clear(b.canceled)
}

// logs are the rows of all records, in the order in which they are written.
func (b *batch) logs() [12]*copyRows[record] {
	return [...]*copyRows[record]{&b.placementLog, &b.orderLog, &b.partLog, &b.cancelLog, &b.haltLog, &b.refs,
		&b.amendLog, &b.holdLog, &b.causeLog, &b.accountLog, &b.symbolLog, &b.switchLog}
}

// full reports whether b, which is to have up to size records, takes no further one.
func (b *batch) full(size int) bool {
	return b.records() >= size || len(b.executions) >= batchExecutionsMax
}

// records returns how many records are in b.
func (b *batch) records() int { return int(b.last + 1 - b.first) }

// add takes in the next record. The error says that it is not the next one, or of a kind
// that has no rows.
func (b *batch) add(seq uint64, e *exchange.Event) error {
	if seq != b.last+1 {
		return fmt.Errorf("postgres: journal record %d follows record %d", seq, b.last)
	}
	b.last, b.time = seq, max(b.time, e.Time)
	b.row = record{Event: *e, seq: seq, called: e.Ref}
	if e.Ref != "" {
		b.refs.add(&b.row)
	}
	switch e.Kind {
	case exchange.AccountOpened:
		b.opened[e.Account] = openedRow{seq, e.Balance}
		b.cash(e.Account, e.Balance, exchange.Cash{}).event(seq)
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
		b.event(e.Account)
	case exchange.OrderAccepted:
		return b.accept(e)
	case exchange.OrderContinued:
		b.row.last = int32(e.Before + len(e.Fills))
		b.partLog.add(&b.row)
		b.event(e.Account)
		b.take(e.Order, b.execute(e))
		b.end(e)
	case exchange.OrderCanceled:
		b.event(e.Account)
		b.cancel(e, 0, exchange.CanceledByOwner)
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
		return b.replace(e)
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
func (b *batch) accept(e *exchange.Event) error {
	b.reserve(e)
	b.event(e.Account).placed.add(b.last, e.Symbol, e.Order)
	b.orderLog.add(&b.row)
	if open := e.Shares - b.execute(e); open > 0 {
		if b.accepted.Find(uint64(e.Order)) != 0 {
			return fmt.Errorf("postgres: journal record %d accepts order %d again", b.last, e.Order)
		}
		b.orders = append(b.orders, restingRow{amended: e.Amend != nil, OrderState: exchange.OrderState{
			ID: e.Order, Account: e.Account, Symbol: e.Symbol, Terms: e.Terms, Shares: e.Shares, Open: open,
			OnDisconnect: e.OnDisconnect}})
		b.accepted.Add(uint64(e.Order), uint64(len(b.orders)))
	}
	b.end(e)
	return nil
}

// find returns an order of this batch, nil if it is none.
func (b *batch) find(id exchange.OrderID) *restingRow {
	if n := b.accepted.Find(uint64(id)); n != 0 {
		return &b.orders[n-1]
	}
	return nil
}

// execute adds the fills of an order, or of a further part of it, and returns how many shares they have.
func (b *batch) execute(e *exchange.Event) (took exchange.Shares) {
	market := b.trade(e)
	for i := range e.Fills {
		f := &e.Fills[i]
		took += f.Shares
		b.take(f.Resting, f.Shares)
		x := numberedExecution{market: market, execution: execution{order: e.Order, resting: f.Resting, n: e.Before + i + 1,
			symbol: e.Symbol, buys: e.Side == exchange.Buy,
			Execution: exchange.Execution{Shares: f.Shares, Price: f.Price, Time: e.Time}}}
		x.trade = market.Trades - uint64(len(e.Fills)-i-1)
		b.settle(e, *f, &x)
		b.executions = append(b.executions, x)
	}
	return took
}

// take takes executed shares from what is open of an order.
func (b *batch) take(id exchange.OrderID, shares exchange.Shares) {
	if o := b.find(id); o != nil {
		o.Open -= shares
	} else if shares > 0 {
		b.taken[id] += shares
	}
}

// settle moves what one fill moves, and counts it for both accounts, the resting order's first. A resting order's
// limit is the price.
func (b *batch) settle(e *exchange.Event, f exchange.Fill, x *numberedExecution) {
	pays, shares := exchange.Notional(f.Shares, f.Price), f.Shares.Position()
	none, noShares := exchange.Cash{}, exchange.Position{}
	if e.Side == exchange.Buy {
		held := pays
		if e.Type != exchange.Market { // which holds exactly what its fills cost
			held = exchange.Notional(f.Shares, e.Limit)
		}
		x.of(b.cash(f.Account, pays, none), b.cash(e.Account, held.Sub(pays), none.Sub(held)), b.last)
		b.shares(e.Symbol, f.Account, noShares, noShares.Sub(shares))
		b.shares(e.Symbol, e.Account, shares, noShares)
		return
	}
	x.of(b.cash(f.Account, none, none.Sub(pays)), b.cash(e.Account, pays, none), b.last)
	b.shares(e.Symbol, f.Account, shares, noShares)
	b.shares(e.Symbol, e.Account, noShares, noShares.Sub(shares))
}

// cancel adds a cancel and gives back the hold. n is its place in a cancel of many
// orders, 0 if it is by itself. Of an order that was replaced there is no reason.
func (b *batch) cancel(e *exchange.Event, n int32, why exchange.WhyCanceled) {
	if e.Type != exchange.Market || e.Side != exchange.Buy { // which holds nothing for what it does not get
		b.hold(e, -e.Shares)
	}
	b.row = record{Event: *e, seq: b.last, n: n, why: why}
	b.cancelLog.add(&b.row)
	if o := b.find(e.Order); o != nil {
		o.Open = 0
	} else {
		b.canceled[e.Order] = e.Shares + b.taken[e.Order] + b.reduced[e.Order].Reduced
		delete(b.taken, e.Order)
		delete(b.reduced, e.Order)
		delete(b.renamed, e.Order)
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

// event counts the record for an account that it changes, and returns what that has.
func (b *batch) event(id exchange.AccountID) *cashChange {
	c := b.cash(id, exchange.Cash{}, exchange.Cash{})
	c.event(b.last)
	return c
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
