package postgres

import (
	"context"
	"fmt"

	"outcry/internal/exchange"
)

// FillCounter counts each account's executions and events and each symbol's trades while a history is read,
// and compares them with the counts in the tables.
type FillCounter struct {
	archive  *Archive
	accounts map[exchange.AccountID]*countedFills
	trades   map[exchange.Symbol]uint64
}

// countedFills has the counts of an account.
type countedFills struct {
	before uint64 // executions of records up to exact_after, which fill_log does not have
	n      uint64
	hash   uint64 // hash of the executions that fill_log has

	events, seq uint64 // number of events, and the record of the last one
}

// event counts an event of the account, at most once per record.
func (c *countedFills) event(seq uint64) {
	if c.seq != seq {
		c.seq = seq
		c.events++
	}
}

// add counts an execution, taken from a row of fill_log or from a history.
func (c *countedFills) add(f accountFill) {
	const prime = 1099511628211 // FNV's
	side := uint64(0)
	if f.isTaker {
		side = 1
	}
	for _, v := range [...]uint64{uint64(f.taker), uint64(f.n), side} {
		c.hash = (c.hash ^ v) * prime
	}
	for i := range len(f.sym) {
		c.hash = (c.hash ^ uint64(f.sym[i])) * prime
	}
	c.n++
}

// CountFills starts a count from the state that Opening returns. The error says why that state could not be
// read.
func (a *Archive) CountFills(ctx context.Context) (*FillCounter, error) {
	c := &FillCounter{archive: a, accounts: make(map[exchange.AccountID]*countedFills),
		trades: make(map[exchange.Symbol]uint64)}
	if a.state.historyAfter == 0 {
		return c, nil
	}
	var id exchange.AccountID
	var n uint64
	err := load(ctx, a.tx, `SELECT r.account, count(*)
		FROM outcry.execution_log x JOIN outcry.order_log o ON o.id = x.order_id
		CROSS JOIN LATERAL (VALUES (x.order_id), (x.resting_id)) side (id)
		JOIN outcry.order_log r ON r.id = side.id WHERE o.seq IS NULL GROUP BY r.account`, []any{&id, &n}, func() error {
		c.accounts[id] = &countedFills{before: n, n: n}
		return nil
	})
	if err != nil {
		return c, err
	}
	var sym exchange.Symbol
	err = load(ctx, a.tx, `SELECT x.sym, count(*) FROM outcry.execution_log x JOIN outcry.order_log o ON o.id = x.order_id
		WHERE o.seq IS NULL GROUP BY x.sym`, []any{&sym, &n}, func() error {
		c.trades[sym] = n
		return nil
	})
	if err != nil {
		return c, err
	}
	opened := opening.accounts.pick("id")
	err = load(ctx, a.tx, opened.query(""), []any{&id}, func() error {
		c.of(id).events = 1 // everything before history counts as one event
		return nil
	})
	return c, err
}

// of returns the account's counts.
func (c *FillCounter) of(id exchange.AccountID) *countedFills {
	counted := c.accounts[id]
	if counted == nil {
		counted = new(countedFills)
		c.accounts[id] = counted
	}
	return counted
}

// Add counts a record. It must be called for each record while Archive.History passes it on. A *RowError names
// an execution with a wrong number.
func (c *FillCounter) Add(seq uint64, e *exchange.Event) error {
	if ofAccount(e) {
		c.of(e.Account).event(seq)
	}
	for i := range e.Fills {
		c.trades[e.Symbol]++
		f := accountFill{taker: e.Order, n: e.Before + i + 1}
		if seq > c.archive.state.numberedAfter {
			f.sym = e.Symbol
		}
		want := numbers{trade: c.trades[e.Symbol], maker: c.add(seq, e.Fills[i].Account, f)}
		f.isTaker = true
		want.taker = c.add(seq, e.Account, f)
		if got := c.archive.numbers[i]; got != want && f.sym != "" {
			return &RowError{"execution_log", fmt.Sprintf("order_id %d, n %d", e.Order, f.n), fmt.Sprintf(
				"trade, taker_fill and resting_fill are %d, %d and %d; counted are %d, %d and %d", got.trade, got.taker, got.maker,
				want.trade, want.taker, want.maker)}
		}
	}
	return nil
}

// ofAccount reports whether a record is an event of the account that it names.
func ofAccount(e *exchange.Event) bool {
	switch e.Kind {
	case exchange.AccountOpened, exchange.SharesDeposited, exchange.OrderAccepted, exchange.OrderContinued,
		exchange.OrderCanceled, exchange.OrderReplaced:
		return true
	case exchange.OrderReduced:
		return e.Shares > 0
	case exchange.OrdersCanceled:
		return len(e.Cancels) > 0
	case exchange.SymbolMade, exchange.SymbolHalted, exchange.SymbolResumed, exchange.AccountRuled,
		exchange.SymbolRuled, exchange.SwitchSet:
	}
	return false
}

// add counts an execution of an account and returns its number.
func (c *FillCounter) add(seq uint64, id exchange.AccountID, f accountFill) uint64 {
	counted := c.of(id)
	counted.event(seq)
	if counted.add(f); seq <= c.archive.state.exactAfter {
		counted.before, counted.hash = counted.n, 0
	}
	return counted.n
}

// Check compares each account's counts, and each row of fill_log, with the values counted here. A *RowError names the
// first one that differs.
func (c *FillCounter) Check(ctx context.Context) error {
	counts := accountTable.pick("id", "fills", "n")
	var a accountRow
	err := load(ctx, c.archive.tx, counts.query(" ORDER BY id"), counts.into(&a), func() error {
		want := c.accounts[a.ID]
		if want == nil {
			want = new(countedFills)
		}
		if a.Fills != want.n {
			return &RowError{"accounts", "id " + string(a.ID),
				fmt.Sprintf("fills is %d, but the account has %d executions", a.Fills, want.n)}
		}
		if a.Events != want.events {
			return &RowError{"accounts", "id " + string(a.ID),
				fmt.Sprintf("n is %d, but the account has %d events", a.Events, want.events)}
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows := make(map[exchange.AccountID]*countedFills)
	var row fillRow
	err = load(ctx, c.archive.tx, fillLog.query(" ORDER BY account, last"), fillLog.into(&row), func() error {
		return c.check(rows, &row)
	})
	if err != nil {
		return err
	}
	for id, want := range c.accounts {
		got := rows[id]
		if got == nil {
			got = &countedFills{n: want.before}
		}
		if got.n != want.n || got.hash != want.hash {
			return &RowError{"fill_log", "account " + string(id),
				fmt.Sprintf("its rows end with execution %d, but there are %d, or a row differs", got.n, want.n)}
		}
	}
	return nil
}

// check checks the next row of fill_log. rows has the counts of the rows so far.
func (c *FillCounter) check(rows map[exchange.AccountID]*countedFills, row *fillRow) error {
	got, want := rows[row.account], c.accounts[row.account]
	if got == nil && want != nil {
		got = &countedFills{n: want.before}
		rows[row.account] = got
	}
	key := fmt.Sprintf("account %s, last %d", row.account, row.last)
	if got == nil || row.count == 0 || row.first() != got.n+1 {
		return &RowError{"fill_log", key, fmt.Sprintf("its %d executions do not follow those before it", row.count)}
	}
	err := readFills(row.fills, func(f accountFill) bool {
		got.add(f)
		return true
	})
	if err == nil && got.n != row.last {
		err = fmt.Errorf("its number of executions is %d, which is wrong", row.count)
	}
	if err != nil {
		return &RowError{"fill_log", key, err.Error()}
	}
	return nil
}
