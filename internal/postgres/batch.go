package postgres

import (
	"cmp"
	"fmt"
	"strings"

	"outcry/internal/exchange"
)

// batch holds the changes that consecutive journal records make to the tables. Changes to a balance, position
// or resting order are summed, so that each row is written once per batch, however often it changed.
type batch struct {
	first, last uint64 // seqs; first is last+1 when the batch is empty
	time        int64  // the latest time of the records; 0 when the batch is empty

	opened    map[exchange.AccountID]openedRow // accounts opened in this batch
	accounts  byName[exchange.AccountID, cashChange]
	made      map[exchange.Symbol]uint64            // symbols made in this batch → seq
	placed    map[exchange.Symbol]exchange.Position // symbols that were made or got deposits
	symbols   byName[exchange.Symbol, tradedChange]
	positions []sharesChange
	moved     map[positionKey]int32 // index in positions

	halts map[exchange.Symbol]*exchange.Halt // halt of each symbol whose halt changed; nil if trading resumed

	// Rules and switches of accounts and symbols that this batch changed, as of its end.
	accountRules map[exchange.AccountID]exchange.AccountRules
	symbolRules  map[exchange.Symbol]exchange.SymbolRules
	switches     map[exchange.AccountID]int64

	// Rows for the log tables. The numbers of executions count from the start of the batch until it is written.
	placementLog, orderLog, partLog, cancelLog, haltLog, refs     copyRows[record]
	amendLog, holdLog, causeLog, accountLog, symbolLog, switchLog copyRows[record]
	executions                                                    []executionNumbers
	executionLog                                                  copyRows[execution]
	placedLog                                                     copyRows[placedRow]

	row         *record // row of the record being added: plain, or rare if its event is not in plain
	plain, rare record
	canceling   record // row of a cancel, with the columns of cancel_log only
	executing   execution
	posting     exchange.Posting

	// orders of this batch as of its end, without those that their own record closed
	orders   []restingRow
	accepted orderIndex                            // order id → index in orders, from 1
	taken    map[exchange.OrderID]exchange.Shares  // shares that older orders lost by executions
	reduced  map[exchange.OrderID]exchange.Changes // shares that older orders lost by amends
	renamed  map[exchange.OrderID]exchange.Shares  // older orders to which an amend only gave a ref; the value is 0
	// canceled has older orders that were canceled, with the shares they had open before the batch.
	canceled map[exchange.OrderID]exchange.Shares
}

type openedRow struct {
	seq     uint64
	balance exchange.Cash
}

type cashChange struct {
	balance, held exchange.Cash
	fills         accountFills
	events        uint32 // number of records that changed the account, its orders or its rules
	seq           uint64 // seq of the last of those records
	position      int32  // index of the account's position that changed last
	placed        placedOrders

	before uint64 // the account's executions before the batch; set when the batch is written
}

// reset empties c, and keeps memory for the rows of the next batch.
func (c *cashChange) reset() {
	*c = cashChange{fills: accountFills{b: c.fills.b[:0]}, placed: placedOrders{b: c.placed.b[:0]}}
}

// event counts record seq for the account, at most once.
func (c *cashChange) event(seq uint64) {
	if c.seq != seq {
		c.seq = seq
		c.events++
	}
}

type sharesChange struct {
	at           positionKey
	symbol       exchange.Symbol
	account      exchange.AccountID
	shares, held exchange.Position
}

func (c *sharesChange) compare(d *sharesChange) int {
	return cmp.Or(cmp.Compare(c.symbol, d.symbol), cmp.Compare(c.account, d.account))
}

// positionKey has the places of a symbol and an account in their lists.
type positionKey struct{ symbol, account int32 }

func newBatch() *batch {
	return &batch{
		placementLog: newCopy(placementLog), orderLog: newFastCopy(orderLog, putOrder), partLog: newCopy(partLog),
		cancelLog: newFastCopy(cancelLog, putCancel), haltLog: newCopy(haltLog), refs: newCopy(refTable),
		amendLog: newCopy(amendLog), holdLog: newCopy(holdLog), causeLog: newCopy(causeLog),
		accountLog: newCopy(accountLog), symbolLog: newCopy(symbolLog), switchLog: newCopy(switchLog),
		executionLog: newFastCopy(executionLog, putExecution), placedLog: newCopy(placedLog),

		accountRules: make(map[exchange.AccountID]exchange.AccountRules),
		symbolRules:  make(map[exchange.Symbol]exchange.SymbolRules),
		switches:     make(map[exchange.AccountID]int64),

		opened:   make(map[exchange.AccountID]openedRow),
		accounts: newByName[exchange.AccountID]((*cashChange).reset),
		made:     make(map[exchange.Symbol]uint64),
		placed:   make(map[exchange.Symbol]exchange.Position),
		symbols:  newByName[exchange.Symbol]((*tradedChange).reset),
		moved:    make(map[positionKey]int32),
		halts:    make(map[exchange.Symbol]*exchange.Halt),
		taken:    make(map[exchange.OrderID]exchange.Shares),
		reduced:  make(map[exchange.OrderID]exchange.Changes),
		renamed:  make(map[exchange.OrderID]exchange.Shares),
		canceled: make(map[exchange.OrderID]exchange.Shares),
	}
}

// reset empties b. Its first record must be seq+1.
func (b *batch) reset(seq uint64) {
	b.first, b.last, b.time = seq+1, seq, 0
	clear(b.opened)
	b.accounts.reset()
	clear(b.made)
	clear(b.placed)
	b.symbols.reset()
	b.positions = b.positions[:0]
	clear(b.moved)
	clear(b.halts)
	clear(b.accountRules)
	clear(b.symbolRules)
	clear(b.switches)
	for _, log := range b.logs() {
		log.reset()
	}
	b.executionLog.reset()
	clear(b.executions) // executions have pointers to accounts
	b.executions = b.executions[:0]
	b.orders = b.orders[:0]
	b.accepted.reset()
	clear(b.taken)
	clear(b.reduced)
	clear(b.renamed)
	clear(b.canceled)
}

// logs returns the rows of all log tables in the order in which they are written.
func (b *batch) logs() [12]*copyRows[record] {
	return [...]*copyRows[record]{&b.placementLog, &b.orderLog, &b.partLog, &b.cancelLog, &b.haltLog, &b.refs,
		&b.amendLog, &b.holdLog, &b.causeLog, &b.accountLog, &b.symbolLog, &b.switchLog}
}

// full reports whether b has size records or the maximum number of executions.
func (b *batch) full(size int) bool {
	return b.records() >= size || len(b.executions) >= batchExecutionsMax
}

// records returns the number of records in b.
func (b *batch) records() int { return int(b.last + 1 - b.first) }

// add adds the next record. It returns an error if seq is not the next one or the event's kind is unknown.
func (b *batch) add(seq uint64, kept *exchange.KeptEvent) error {
	if seq != b.last+1 {
		return fmt.Errorf("postgres: journal record %d follows record %d", seq, b.last)
	}
	e := kept.Event(&b.plain.Event)
	if b.row = &b.plain; e == &b.plain.Event {
		b.plain.seq = seq
	} else {
		b.row = &b.rare
		b.rare = record{Event: *e, seq: seq, called: e.Ref}
		defer func() { b.rare = record{} }() // the trail may use its memory again, or drop it
	}
	b.last, b.time = seq, max(b.time, e.Time)
	if e.Ref != "" {
		b.refs.add(b.row)
	}
	for i := 0; e.Posting(i, &b.posting); i++ {
		b.post(&b.posting)
	}
	switch e.Kind {
	case exchange.AccountOpened:
		b.opened[e.Account] = openedRow{seq, e.Balance}
		b.event(e.Account)
	case exchange.SymbolMade:
		b.made[e.Symbol] = seq
		b.placed[e.Symbol] = exchange.Position{}
		if e.SymbolRules != nil {
			b.ruleSymbol(e)
		}
	case exchange.SharesDeposited:
		b.placementLog.add(b.row)
		b.placed[e.Symbol] = b.placed[e.Symbol].Add(e.Deposited)
		b.event(e.Account)
	case exchange.OrderAccepted:
		return b.accept(e)
	case exchange.OrderContinued:
		b.row.last = int32(e.Before + len(e.Fills))
		b.partLog.add(b.row)
		b.take(e.Order, b.execute(e, b.event(e.Account)))
		b.end(e)
	case exchange.OrderCanceled:
		b.event(e.Account)
		b.cancel(e.Order, e.Shares, 0, exchange.CanceledByOwner)
	case exchange.OrdersCanceled:
		b.cancelAll(e)
	case exchange.SymbolHalted:
		b.haltLog.add(b.row)
		b.halts[e.Symbol] = &exchange.Halt{Since: e.Time, Reason: strings.Clone(e.Reason)}
	case exchange.SymbolResumed:
		b.haltLog.add(b.row)
		b.halts[e.Symbol] = nil
	case exchange.OrderReduced:
		b.reduce(e)
	case exchange.OrderReplaced:
		return b.replace(e)
	case exchange.AccountRuled:
		b.accountLog.add(b.row)
		b.row.unshare()
		b.accountRules[e.Account] = *b.row.accountRules()
	case exchange.SymbolRuled:
		b.ruleSymbol(e)
	case exchange.SwitchSet:
		b.switchLog.add(b.row)
		b.switches[e.Account] = e.Due
	default:
		return fmt.Errorf("postgres: journal record %d is of unknown kind %s", seq, e.Kind)
	}
	return nil
}

// accept adds an order with its fills.
func (b *batch) accept(e *exchange.Event) error {
	if e.Hold != (exchange.Cash{}) {
		b.holdLog.add(b.row)
	}
	taker := b.event(e.Account)
	taker.placed.add(b.last, e.Symbol, e.Order)
	b.orderLog.add(b.row)
	if open := e.Shares - b.execute(e, taker); open > 0 {
		if b.accepted.find(e.Order) != 0 {
			return fmt.Errorf("postgres: journal record %d accepts order %d again", b.last, e.Order)
		}
		b.orders = append(b.orders, restingRow{})
		o := &b.orders[len(b.orders)-1] // in place: a literal would be built elsewhere and copied
		o.ID, o.Account, o.Symbol, o.Terms, o.Shares = e.Order, e.Account, e.Symbol, e.Terms, e.Shares
		o.Open, o.OnDisconnect, o.amended = open, e.OnDisconnect, e.Amend != nil
		b.accepted.add(e.Order, int32(len(b.orders)))
	}
	b.end(e)
	return nil
}

// find returns an order that was accepted in this batch, or nil.
func (b *batch) find(id exchange.OrderID) *restingRow {
	if n := b.accepted.find(id); n != 0 {
		return &b.orders[n-1]
	}
	return nil
}

// execute adds the fills of an order, or of a further part of it, and returns the shares that they executed. taker has
// the changes of the order's account.
func (b *batch) execute(e *exchange.Event, taker *cashChange) (took exchange.Shares) {
	if len(e.Fills) == 0 {
		return 0
	}
	market, x := b.trade(e), &b.executing
	x.order, x.symbol, x.buys, x.Time = e.Order, e.Symbol, e.Side == exchange.Buy, e.Time
	for i := range e.Fills {
		f := &e.Fills[i]
		took += f.Shares
		b.take(f.Resting, f.Shares)
		x.resting, x.n, x.Shares, x.Price = f.Resting, e.Before+i+1, f.Shares, f.Price
		b.number(market, market.Trades-uint64(len(e.Fills)-i-1), taker, b.account(f.Account))
	}
	return took
}

// take subtracts executed shares from an order's open shares.
func (b *batch) take(id exchange.OrderID, shares exchange.Shares) {
	if o := b.find(id); o != nil {
		o.Open -= shares
	} else if shares > 0 {
		b.taken[id] += shares
	}
}

// cancel adds a cancel of an order's open shares. n is the cancel's place in a record with several cancels, and 0
// in a record with one. why is 0 for an order that was replaced.
func (b *batch) cancel(id exchange.OrderID, shares exchange.Shares, n int32, why exchange.WhyCanceled) {
	row := &b.canceling
	row.Order, row.Shares, row.Time, row.seq, row.n, row.why = id, shares, b.row.Time, b.last, n, why
	b.cancelLog.add(row)
	if o := b.find(id); o != nil {
		o.Open = 0
	} else {
		b.canceled[id] = shares + b.taken[id] + b.reduced[id].Reduced
		delete(b.taken, id)
		delete(b.reduced, id)
		delete(b.renamed, id)
	}
}

// post adds a record's changes to an account's cash and shares.
func (b *batch) post(p *exchange.Posting) {
	a := b.accounts.find(p.Account)
	if p.Cash != (exchange.Cash{}) || p.HeldCash != (exchange.Cash{}) {
		c := &a.value
		c.balance, c.held = c.balance.Add(p.Cash), c.held.Add(p.HeldCash)
	}
	if p.Shares != (exchange.Position{}) || p.HeldShares != (exchange.Position{}) {
		c := b.sharesOf(a, b.symbols.find(p.Symbol))
		c.shares, c.held = c.shares.Add(p.Shares), c.held.Add(p.HeldShares)
	}
}

// event counts the record as an event of the account, and returns the account's changes.
func (b *batch) event(id exchange.AccountID) *cashChange {
	c := b.account(id)
	c.event(b.last)
	return c
}

// account returns the changes of an account.
func (b *batch) account(id exchange.AccountID) *cashChange { return &b.accounts.find(id).value }

// sharesOf returns the changes of an account's position, which are valid until the next call.
func (b *batch) sharesOf(
	a *namedValue[exchange.AccountID, cashChange], s *namedValue[exchange.Symbol, tradedChange],
) *sharesChange {
	if n := int(a.value.position); n < len(b.positions) {
		if c := &b.positions[n]; c.at == (positionKey{s.n, a.n}) {
			return c
		}
	}
	key := positionKey{s.n, a.n}
	n, found := b.moved[key]
	if !found {
		n = int32(len(b.positions))
		b.moved[key] = n
		b.positions = append(b.positions, sharesChange{at: key, symbol: s.name, account: a.name})
	}
	a.value.position = n
	return &b.positions[n]
}

// replace adds an amend that replaces an order by a new one.
func (b *batch) replace(e *exchange.Event) error {
	b.amendLog.add(b.row)
	old := &b.row.amendment().Old
	b.cancel(old.Order, old.Shares, 0, exchange.NotCanceled)
	b.row.called = "" // the ref belongs to the amend
	return b.accept(e)
}

// ruleSymbol adds the rules that a record sets for a symbol.
func (b *batch) ruleSymbol(e *exchange.Event) {
	b.symbolLog.add(b.row)
	b.symbolRules[e.Symbol] = *b.row.symbolRules()
}

// end adds the cancels in the record of an order or a part of it: of the account's own orders that the order met,
// and of the order's unexecuted rest.
func (b *batch) end(e *exchange.Event) {
	for i := range e.Own {
		b.cancel(e.Own[i].Order, e.Own[i].Shares, int32(i+1), exchange.CanceledSTP)
	}
	if e.Rest > 0 {
		b.cancel(e.Order, e.Rest, 0, e.RestWhy())
	}
}

// cancelAll adds a record that cancels several orders.
func (b *batch) cancelAll(e *exchange.Event) {
	if e.Cause != exchange.ByOperator {
		b.causeLog.add(b.row)
	}
	if e.Cause == exchange.BySwitch {
		b.switches[e.Account] = 0 // the dead man's switch is off now
	}
	if len(e.Cancels) > 0 {
		b.event(e.Account)
	}
	for i := range e.Cancels {
		b.cancel(e.Cancels[i].Order, e.Cancels[i].Shares, int32(i+1), e.Cause.Why())
	}
}

// reduce adds an amend of an order that keeps its place in the book.
func (b *batch) reduce(e *exchange.Event) {
	b.amendLog.add(b.row)
	o := b.find(e.Order)
	if e.Shares == 0 { // the amend changes nothing and only uses a ref
		if o != nil {
			o.renamed = true
		} else {
			b.renamed[e.Order] = 0
		}
		return
	}
	b.event(e.Account)
	if o != nil {
		o.Open -= e.Shares
		o.amended = true
		o.Changes = exchange.Changes{Reduced: o.Reduced + e.Shares, ReducedAt: e.Time}
	} else {
		b.reduced[e.Order] = exchange.Changes{Reduced: b.reduced[e.Order].Reduced + e.Shares, ReducedAt: e.Time}
	}
}
