package postgres

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"outcry/internal/exchange"
)

// The statements of a batch.
const (
	advance = `UPDATE people.exchange_state SET applied_seq = $1, time_ns = greatest(time_ns, $4)
		WHERE epoch = $2 AND applied_seq = $3`

	// changeAccounts returns the number of each account's last execution.
	changeAccounts = `UPDATE people.accounts a
		SET balance = trim_scale(a.balance + d.balance), held = trim_scale(a.held + d.held), fills = a.fills + d.count,
			n = a.n + d.events
		FROM unnest($1::text[], $2::numeric[], $3::numeric[], $4::integer[], $5::integer[])
			AS d (id, balance, held, count, events)
		WHERE a.id = d.id RETURNING a.id, a.fills`

	placeSymbols = `INSERT INTO people.symbols AS s (sym, placed, seq)
		SELECT * FROM unnest($1::text[], $2::numeric[], $3::bigint[])
		ON CONFLICT (sym) DO UPDATE SET placed = trim_scale(s.placed + excluded.placed)`

	haltSymbols = `UPDATE people.symbols s
		SET halted_at = d.halted_at, halted_nanos = d.halted_nanos, halt_reason = d.halt_reason
		FROM unnest($1::text[], $2::bigint[], $3::integer[], $4::text[]) AS d (sym, halted_at, halted_nanos, halt_reason)
		WHERE s.sym = d.sym`
	resumeSymbols = `UPDATE people.symbols SET halted_at = NULL, halted_nanos = NULL, halt_reason = NULL
		WHERE sym = ANY ($1::text[])`

	changePositions = `UPDATE people.positions p
		SET shares = trim_scale(p.shares + d.shares), held = trim_scale(p.held + d.held)
		FROM unnest($1::text[], $2::text[], $3::numeric[], $4::numeric[]) AS d (sym, account, shares, held)
		WHERE p.sym = d.sym AND p.account = d.account`

	// makePositions inserts the positions that do not exist. ON CONFLICT would first check that no change is
	// negative.
	makePositions = `INSERT INTO people.positions (sym, account, shares, held)
		SELECT * FROM unnest($1::text[], $2::text[], $3::numeric[], $4::numeric[]) AS d (sym, account, shares, held)
		WHERE NOT EXISTS (SELECT FROM people.positions p WHERE p.sym = d.sym AND p.account = d.account)`

	addTraded = `INSERT INTO people.market AS m (sym, trades, shares, notional, last_price, last_time, last_nanos)
		SELECT sym, trades, shares, trim_scale(rounds * 1000000000000000000000 + rest), last_price, last_time, last_nanos
		  FROM unnest($1::text[], $2::bigint[], $3::numeric[], $4::bigint[], $5::numeric[], $6::numeric[], $7::bigint[],
		              $8::integer[])
		    AS d (sym, trades, shares, rounds, rest, last_price, last_time, last_nanos)
		ON CONFLICT (sym) DO UPDATE SET trades = m.trades + excluded.trades, shares = trim_scale(m.shares + excluded.shares),
			notional = trim_scale(m.notional + excluded.notional),
			last_price = excluded.last_price, last_time = excluded.last_time, last_nanos = excluded.last_nanos
		RETURNING sym, trades, (SELECT max(start) FROM people.candles c WHERE c.sym = m.sym AND c.seconds = 1)`

	// Amends change orders first, because the executions and cancels of the batch apply to the amended orders.
	reduceOrders = `UPDATE outcry.resting_orders r SET open = r.open - d.shares, instructions = r.instructions | 512,
			reduced = coalesce(r.reduced, 0) + d.shares, reduced_at_ns = d.at
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS d (id, shares, at) WHERE r.id = d.id`
	renameOrders = `UPDATE outcry.resting_orders r SET instructions = r.instructions | 1024
		FROM unnest($1::bigint[], $2::bigint[]) AS d (id, shares) WHERE r.id = d.id`

	// Orders that lose all their open shares are deleted first; then the others are reduced.
	closeOrders = `DELETE FROM outcry.resting_orders r USING unnest($1::bigint[], $2::bigint[]) AS d (id, shares)
		WHERE r.id = d.id AND r.open = d.shares`
	shrinkOrders = `UPDATE outcry.resting_orders r SET open = r.open - d.shares
		FROM unnest($1::bigint[], $2::bigint[]) AS d (id, shares) WHERE r.id = d.id`
)

// write applies a batch in one transaction that also moves applied_seq from the record before the batch to its
// last one. It returns the number of rows written. ErrTaken means that this server may write no more. After
// any other error the transaction may have been committed; reconnect finds out.
func (s *Store) write(ctx context.Context, b *batch) (rows int64, err error) {
	if s.conn == nil {
		return 0, errors.New("postgres: not connected")
	}
	w := &writer{ctx: ctx, conn: s.conn}
	err = pgx.BeginFunc(ctx, s.conn, func(pgx.Tx) error {
		moved := w.run(advance, parameter(b.last), parameter(uint64(s.epoch)), parameter(b.first-1),
			parameter(uint64(b.time)))
		if moved != 1 && w.err == nil {
			return ErrTaken
		}
		w.accounts(b)
		w.symbols(b)
		w.positions(b)
		w.resting(b)
		w.traded(b)
		for _, log := range b.logs() {
			copyInto(w, log)
		}
		copyInto(w, b.executed())
		copyInto(w, b.placedBy())
		w.halts(b)
		w.rules(b)
		return w.err
	})
	if err != nil {
		return 0, fmt.Errorf("postgres: write records %d to %d: %w", b.first, b.last, err)
	}
	return w.rows, nil
}

// parameter encodes v as a bigint for a statement.
func parameter(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// writer executes the statements of one batch. After an error its methods do nothing.
type writer struct {
	ctx  context.Context
	conn *session
	rows int64
	err  error
}

// run executes a statement and returns the number of rows that it changed. The statement is prepared once per
// connection. The parameters are in binary format.
func (w *writer) run(sql string, parameters ...[]byte) (changed int64) {
	return w.query(nil, sql, parameters...)
}

// query executes a statement that returns rows, and calls f for each with its columns in binary format, which
// are valid until f returns.
func (w *writer) query(f func(columns [][]byte), sql string, parameters ...[]byte) (changed int64) {
	if w.err != nil {
		return 0
	}
	statement, err := w.conn.Prepare(w.ctx, sql)
	if err != nil {
		w.err = err
		return 0
	}
	binaries := []int16{pgx.BinaryFormatCode}
	result := w.conn.PgConn().ExecStatement(w.ctx, statement, parameters, binaries, binaries)
	for f != nil && result.NextRow() {
		f(result.Values())
	}
	tag, err := result.Close()
	w.err = err
	w.rows += tag.RowsAffected()
	return tag.RowsAffected()
}

// expect sets an error if the number of rows that the statements changed is not n: the tables then do not
// match the journal. what names the rows.
func (w *writer) expect(n int, changed int64, what string) {
	if w.err == nil && changed != int64(n) {
		w.err = fmt.Errorf("%d rows changed instead of %d in %s", changed, n, what)
	}
}

// copyInto writes rows to their table.
func copyInto[R any](w *writer, rows *copyRows[R]) {
	if w.err != nil || rows.n == 0 {
		return
	}
	var tag pgconn.CommandTag
	tag, w.err = w.conn.PgConn().CopyFrom(w.ctx, bytes.NewReader(append(rows.b, copyTrailer...)), w.conn.in(rows.sql()))
	w.rows += tag.RowsAffected()
	w.expect(rows.n, tag.RowsAffected(), rows.table.name)
}

// accounts inserts new accounts and changes the others, and records the executions of both.
func (w *writer) accounts(b *batch) {
	opened, fills := newCopy(newAccounts), newCopy(fillLog)
	ids, balances, helds, counts, events := newArray(texts), newArray(numerics), newArray(numerics), newArray(integers),
		newArray(integers)
	for _, a := range b.accounts.all {
		id, c := a.name, &a.value
		if o, ok := b.opened[id]; ok {
			c.before = 0
			opened.add(&accountRow{seq: o.seq, AccountState: exchange.AccountState{ID: id, Opened: o.balance,
				Balance: c.balance, Held: c.held, Fills: uint64(c.fills.n), Events: uint64(c.events)}})
			continue
		}
		ids.text(string(id))
		balances.cash(c.balance)
		helds.cash(c.held)
		counts.integer(int32(c.fills.n))
		events.integer(int32(c.events))
	}
	copyInto(w, &opened)
	if ids.n > 0 {
		changed := w.query(func(columns [][]byte) {
			c := b.account(exchange.AccountID(columns[0]))
			c.before = binary.BigEndian.Uint64(columns[1]) - uint64(c.fills.n)
		}, changeAccounts, ids.bytes(), balances.bytes(), helds.bytes(), counts.bytes(), events.bytes())
		w.expect(ids.n, changed, "accounts")
	}
	for _, a := range b.accounts.all {
		a.value.fills.rows(&fills, a.name, a.value.before)
	}
	copyInto(w, &fills)
}

// symbols inserts new symbols and adds to the others. Only new symbols need a seq; the rows of the others
// already have one.
func (w *writer) symbols(b *batch) {
	symbols, placed, seqs := newArray(texts), newArray(numerics), newArray(bigints)
	for s, p := range b.placed {
		symbols.text(string(s))
		placed.position(p)
		seqs.bigint(int64(b.made[s]))
	}
	if symbols.n > 0 {
		w.expect(symbols.n, w.run(placeSymbols, symbols.bytes(), placed.bytes(), seqs.bytes()), "symbols")
	}
}

// halts records which symbols are halted and which are no longer halted.
func (w *writer) halts(b *batch) {
	halted, since, nanos, reasons := newArray(texts), newArray(bigints), newArray(integers), newArray(texts)
	resumed := newArray(texts)
	for sym, h := range b.halts {
		if h == nil {
			resumed.text(string(sym))
			continue
		}
		halted.text(string(sym))
		since.bigint(exchange.Seconds(h.Since))
		nanos.integer(nanosOf(h.Since))
		reasons.text(h.Reason)
	}
	if halted.n > 0 {
		w.expect(halted.n, w.run(haltSymbols, halted.bytes(), since.bytes(), nanos.bytes(), reasons.bytes()),
			"symbols that are halted")
	}
	if resumed.n > 0 {
		w.expect(resumed.n, w.run(resumeSymbols, resumed.bytes()), "symbols that are resumed")
	}
}

// positions changes existing positions, and then inserts those that did not exist. Most exist.
func (w *writer) positions(b *batch) {
	symbols, accounts, shares, helds := newArray(texts), newArray(texts), newArray(numerics), newArray(numerics)
	// The order is that of the index, so that neighbouring rows are found in the same pages.
	changes := make([]*sharesChange, len(b.positions))
	for i := range changes {
		changes[i] = &b.positions[i]
	}
	slices.SortFunc(changes, (*sharesChange).compare)
	for _, c := range changes {
		symbols.text(string(c.symbol))
		accounts.text(string(c.account))
		shares.position(c.shares)
		helds.position(c.held)
	}
	if symbols.n == 0 {
		return
	}
	parameters := [][]byte{symbols.bytes(), accounts.bytes(), shares.bytes(), helds.bytes()}
	changed := w.run(changePositions, parameters...)
	if changed < int64(symbols.n) {
		changed += w.run(makePositions, parameters...)
	}
	w.expect(symbols.n, changed, "positions")
}

// resting updates resting_orders to the orders that are open at the end of the batch.
func (w *writer) resting(b *batch) {
	w.reduced(b)
	ids, shares := newOrders(b.renamed)
	if ids.n > 0 {
		w.expect(ids.n, w.run(renameOrders, ids.bytes(), shares.bytes()), "resting_orders, of orders with a new ref")
	}
	ids, shares = newOrders(b.canceled)
	if ids.n > 0 {
		w.expect(ids.n, w.run(closeOrders, ids.bytes(), shares.bytes()), "resting_orders, of canceled orders")
	}
	ids, shares = newOrders(b.taken)
	if ids.n > 0 {
		left := maps.Clone(b.taken) // a copy, since the batch may be written again
		w.query(func(columns [][]byte) {
			delete(left, exchange.OrderID(binary.BigEndian.Uint64(columns[0])))
		}, closeOrders+` RETURNING r.id`, ids.bytes(), shares.bytes())
		if ids, shares = newOrders(left); ids.n > 0 {
			w.expect(ids.n, w.run(shrinkOrders, ids.bytes(), shares.bytes()), "resting_orders")
		}
	}
	rows := newFastCopy(restingTable, putResting)
	for i := range b.orders {
		if o := &b.orders[i]; o.Open > 0 {
			rows.add(o)
		}
	}
	copyInto(w, &rows)
}

// reduced subtracts the shares by which amends reduced orders of earlier batches.
func (w *writer) reduced(b *batch) {
	ids, shares, times := newArray(bigints), newArray(bigints), newArray(bigints)
	for _, id := range slices.Sorted(maps.Keys(b.reduced)) {
		ids.bigint(int64(id))
		shares.bigint(int64(b.reduced[id].Reduced))
		times.bigint(b.reduced[id].ReducedAt)
	}
	if ids.n > 0 {
		changed := w.run(reduceOrders, ids.bytes(), shares.bytes(), times.bytes())
		w.expect(ids.n, changed, "resting_orders, of reduced orders")
	}
}

// newOrders returns the ids and the shares of orders, sorted by id so that neighbouring rows are found in the
// same pages.
func newOrders(orders map[exchange.OrderID]exchange.Shares) (ids, shares array) {
	ids, shares = newArray(bigints), newArray(bigints)
	for _, id := range slices.Sorted(maps.Keys(orders)) {
		ids.bigint(int64(id))
		shares.bigint(int64(orders[id]))
	}
	return ids, shares
}

// traded adds the batch's trades to the totals of their symbols and to their candles.
func (w *writer) traded(b *batch) {
	symbols, trades, shares, rounds, rests := newArray(texts), newArray(bigints), newArray(numerics), newArray(bigints),
		newArray(numerics)
	prices, times, nanos := newArray(numerics), newArray(bigints), newArray(integers)
	for s := range b.traded() {
		t := &s.value
		symbols.text(string(s.name))
		trades.bigint(int64(t.Trades))
		shares.position(t.Shares)
		rounds.bigint(int64(t.Notional.Rounds))
		rests.cash(t.Notional.Rest)
		prices.position(exchange.Shares(t.Last).Position())
		times.bigint(exchange.Seconds(t.Time))
		nanos.integer(nanosOf(t.Time))
	}
	if symbols.n == 0 {
		return
	}
	newest := make(map[exchange.Symbol]int64, symbols.n)
	changed := w.query(func(columns [][]byte) {
		sym := exchange.Symbol(columns[0])
		t := &b.symbols.find(sym).value
		t.before = binary.BigEndian.Uint64(columns[1]) - t.Trades
		if start := columns[2]; start != nil {
			newest[sym] = int64(binary.BigEndian.Uint64(start)) * exchange.Second
		}
	}, addTraded, symbols.bytes(), trades.bytes(), shares.bytes(), rounds.bytes(), rests.bytes(), prices.bytes(),
		times.bytes(), nanos.bytes())
	w.expect(symbols.n, changed, "market")
	w.candles(b, newest)
}

// The statements that record rules of accounts and symbols. In the tables that people read, NULL means that a
// rule is not set.
const (
	ruleAccounts = `UPDATE people.accounts a
		SET blocked_at = CASE WHEN d.blocked THEN d.at END, blocked_nanos = CASE WHEN d.blocked THEN d.nanos END,
			block_reason = CASE WHEN d.blocked THEN d.reason END, stp = nullif(d.stp, 'none'),
			shares_max = nullif(d.shares_max, 0), notional_max = nullif(d.notional_max, 0), open_max = nullif(d.open_max, 0)
		FROM unnest($1::text[], $2::boolean[], $3::bigint[], $4::integer[], $5::text[], $6::text[], $7::numeric[],
		            $8::numeric[], $9::bigint[])
			AS d (id, blocked, at, nanos, reason, stp, shares_max, notional_max, open_max) WHERE a.id = d.id`
	switchAccounts = `UPDATE people.accounts a SET cancel_at_ns = nullif(d.due, 0)
		FROM unnest($1::text[], $2::bigint[]) AS d (id, due) WHERE a.id = d.id`
	ruleSymbols = `UPDATE people.symbols s
		SET tick = nullif(d.tick, 0), lot = nullif(d.lot, 0), protect = nullif(d.protect, 0), band = nullif(d.band, 0)
		FROM unnest($1::text[], $2::numeric[], $3::numeric[], $4::numeric[], $5::numeric[])
			AS d (sym, tick, lot, protect, band)
		WHERE s.sym = d.sym`
)

// rules records the rules that were set for accounts and symbols.
func (w *writer) rules(b *batch) {
	if len(b.accountRules) > 0 {
		w.accountRules(b)
	}
	if len(b.switches) > 0 {
		ids, dues := newArray(texts), newArray(bigints)
		for id, due := range b.switches {
			ids.text(string(id))
			dues.bigint(due)
		}
		w.expect(ids.n, w.run(switchAccounts, ids.bytes(), dues.bytes()), "accounts with a switch")
	}
	if len(b.symbolRules) > 0 {
		names, ticks, lots := newArray(texts), newArray(numerics), newArray(numerics)
		protects, bands := newArray(numerics), newArray(numerics)
		for sym, r := range b.symbolRules {
			names.text(string(sym))
			ticks.position(exchange.Shares(r.Tick).Position())
			lots.position(r.Lot.Position())
			protects.position(exchange.Shares(r.Protect).Position())
			bands.position(exchange.Shares(r.Band).Position())
		}
		w.expect(names.n, w.run(ruleSymbols, names.bytes(), ticks.bytes(), lots.bytes(), protects.bytes(), bands.bytes()),
			"symbols with rules")
	}
}

// accountRules records the rules that were set for accounts.
func (w *writer) accountRules(b *batch) {
	ids, blocked, at, nanos := newArray(texts), newArray(booleans), newArray(bigints), newArray(integers)
	reasons, stps := newArray(texts), newArray(texts)
	shares, notionals, opens := newArray(numerics), newArray(numerics), newArray(bigints)
	for id, r := range b.accountRules {
		block := exchange.Halt{}
		if r.Block != nil {
			block = *r.Block
		}
		ids.text(string(id))
		blocked.boolean(r.Block != nil)
		at.bigint(exchange.Seconds(block.Since))
		nanos.integer(nanosOf(block.Since))
		reasons.text(block.Reason)
		stps.text(r.STP.String())
		shares.position(r.SharesMax.Position())
		notionals.cash(r.NotionalMax)
		opens.bigint(r.OpenMax)
	}
	w.expect(ids.n, w.run(ruleAccounts, ids.bytes(), blocked.bytes(), at.bytes(), nanos.bytes(), reasons.bytes(),
		stps.bytes(), shares.bytes(), notionals.bytes(), opens.bytes()), "accounts with rules")
}
