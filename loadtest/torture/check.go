package torture

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/jackc/pgx/v5"

	"outcry/internal/wire"
)

const (
	linearClients = 4
	linearTimeout = 60 * time.Second
	verifyTimeout = 5 * time.Minute

	oldMax     = 2000 // closed orders of earlier rounds that are remembered
	oldQueries = 100  // of which so many are asked for in each round
	queryBatch = 50   // queries in a frame
)

// openMarket opens accounts and symbols, before anything is broken.
func (r *runner) openMarket(ctx context.Context) error {
	c := new(wire.Create)
	open := func(id, balance string) {
		c.Account(wire.Account{ID: id, Balance: balance})
		cash, _ := new(big.Int).SetString(balance+"0000000000000000", 10)
		r.truth.openAccount(id, cash)
	}
	for n := range accountCount {
		r.market.accounts = append(r.market.accounts, fmt.Sprint(n+1))
		open(fmt.Sprint(n+1), "1000000000000")
	}
	for n := range poorCount {
		r.market.poor = append(r.market.poor, fmt.Sprint(101+n))
		open(fmt.Sprint(101+n), "500")
	}
	for n := range symbolCount {
		sym := fmt.Sprintf("SYM%d", n)
		r.market.symbols = append(r.market.symbols, sym)
		r.place(c, sym, r.market.accounts, 1_000_000_000)
		r.place(c, sym, r.market.poor, 5)
	}
	return r.mustCreate(ctx, c)
}

// place adds the placement of whole shares with accounts.
func (r *runner) place(c *wire.Create, sym string, accounts []string, shares int64) {
	var all []wire.Placement
	for _, id := range accounts {
		all = append(all, wire.Placement{Account: id, Shares: fmt.Sprint(shares)})
		r.truth.placeShares(sym, id, product(shares, unit))
	}
	c.Symbol(sym, all...)
}

func (r *runner) mustCreate(ctx context.Context, c *wire.Create) error {
	answers, err := ask(ctx, r.target(), c.Append(nil))
	if err != nil {
		return fmt.Errorf("torture: create the market: %w", err)
	}
	for _, a := range answers {
		if a.Kind != "created" {
			return fmt.Errorf("torture: create the market: %+v", a)
		}
	}
	return nil
}

// listLinear makes the symbol of a round that is proved linearizable.
func (r *runner) listLinear(ctx context.Context, round int) error {
	r.linear = &linearHistory{sym: fmt.Sprintf("LIN%d", round), start: time.Now()}
	c := new(wire.Create)
	r.place(c, r.linear.sym, r.market.accounts[:linearClients], 1_000_000)
	return r.mustCreate(ctx, c)
}

// check holds the three views against each other, with the exchange up and no
// client trading.
func (r *runner) check(ctx context.Context) error {
	if err := r.retryAll(ctx); err != nil {
		return err
	}
	if err := r.waitCaughtUp(ctx); err != nil {
		return err
	}
	if err := r.checkTables(ctx); err != nil {
		return err
	}
	if err := r.checkAnswers(ctx); err != nil {
		return err
	}
	if err := r.checkConservation(ctx); err != nil {
		return err
	}
	if err := r.checkLinear(); err != nil {
		return err
	}
	r.forget()
	return nil
}

// checkStopped is check with the server gone in order: the tables have to be
// complete without it.
func (r *runner) checkStopped(ctx context.Context) error {
	if err := r.checkTables(ctx); err != nil {
		return fmt.Errorf("after an orderly stop: %w", err)
	}
	return r.verify(ctx)
}

// verify runs outcry verify, and demands that the digest of what it works out of
// the tables is that of the memory which the server had at its stop.
func (r *runner) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.patient(verifyTimeout))
	defer cancel()
	out, err := exec.CommandContext(ctx, r.client, "verify", "--database-url", r.pg.DirectURL(), r.data()).CombinedOutput()
	if err != nil {
		return fmt.Errorf("outcry verify: %w: %s", err, out)
	}
	_, tables, ok := strings.Cut(string(out), ", digest ")
	memory, told := r.server.LastAttr("digest")
	if !ok || !told || strings.TrimSpace(tables) != memory {
		return fmt.Errorf("memory had the digest %q at the stop, and outcry verify says: %s", memory, out)
	}
	r.report.Verified++
	return nil
}

// checkConservation looks at the gauges that are 0 at all times.
func (r *runner) checkConservation(ctx context.Context) error {
	for _, gauge := range []string{"outcry_cash_imbalance_dollars", "outcry_share_imbalance_symbols"} {
		v, err := r.server.Metric(ctx, gauge)
		if err != nil {
			return err
		}
		if v != 0 {
			return fmt.Errorf("%s is %v", gauge, v)
		}
	}
	return nil
}

// waitCaughtUp waits until Postgres has everything.
func (r *runner) waitCaughtUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.patient(catchUpTimeout))
	defer cancel()
	for {
		lag, err := r.server.Metric(ctx, "outcry_postgres_lag_records")
		if err == nil && lag == 0 {
			return nil
		}
		select {
		case <-r.server.Exited():
			return fmt.Errorf("the exchange ended by itself; its log ends with:\n%s", r.server.LogTail())
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the tables do not catch up within %s: %v records are missing (%w); the log ends with:\n%s",
				r.patient(catchUpTimeout), lag, errors.Join(err, ctx.Err()), r.server.LogTail())
		}
	}
}

// checkTables takes in what is new in the tables, demands that it follows from
// what was sent, and compares balances and positions.
func (r *runner) checkTables(ctx context.Context) (err error) {
	if r.db == nil || r.db.IsClosed() || r.db.Ping(ctx) != nil {
		if r.db, err = r.connect(ctx); err != nil {
			return err
		}
	}
	tx, err := r.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	defer tx.Rollback(ctx)
	if err := r.takeInAccounts(ctx, tx); err != nil {
		return err
	}
	found, err := r.truth.read(ctx, tx)
	if err != nil {
		return err
	}
	if err := r.truth.advance(found); err != nil {
		return err
	}
	if err := r.truth.compare(ctx, tx); err != nil {
		return err
	}
	if err := r.countRows(ctx, tx); err != nil {
		return err
	}
	return r.history.match(r.truth)
}

// connect opens a connection past the proxy. The postmaster may be on its way.
func (r *runner) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, r.patient(catchUpTimeout))
	defer cancel()
	for {
		db, err := pgx.Connect(ctx, r.pg.DirectURL())
		if err == nil {
			return db, nil
		}
		if waitErr := wait(ctx, 20*time.Millisecond); waitErr != nil {
			return nil, fmt.Errorf("torture: Postgres does not come back: %w", err)
		}
	}
}

// countRows demands that there is no row besides those that were taken in.
func (r *runner) countRows(ctx context.Context, tx pgx.Tx) error {
	var orders, fills, cancels int64
	err := tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM order_log), (SELECT count(*) FROM executions), (SELECT count(*) FROM cancel_log)`).
		Scan(&orders, &fills, &cancels)
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	if t := r.truth; orders != t.accepted || fills != t.fills || cancels != t.cancels {
		return fmt.Errorf("the tables have %d orders, %d executions and %d cancels; %d, %d and %d came one after another",
			orders, fills, cancels, t.accepted, t.fills, t.cancels)
	}
	return nil
}

// takeInAccounts compares accounts and placements with what was asked for.
func (r *runner) takeInAccounts(ctx context.Context, tx pgx.Tx) error {
	var opened, placed []string
	err := collect(ctx, tx, &opened, `SELECT id || ' ' || trim_scale(opened) FROM accounts WHERE id LIKE '9_________'`)
	if err == nil {
		err = collect(ctx, tx, &placed, `SELECT account || ' ' || sym || ' ' || trim_scale(shares + held) FROM positions WHERE account LIKE '9_________'`)
	}
	if err != nil {
		return err
	}
	return r.history.matchAccounts(r.truth, opened, placed)
}

func collect(ctx context.Context, tx pgx.Tx, to *[]string, sql string) error {
	rows, err := tx.Query(ctx, sql)
	if err == nil {
		*to, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	return nil
}

// checkAnswers asks the exchange for every order of the round, and for some of
// earlier rounds, which it may know from Postgres only.
func (r *runner) checkAnswers(ctx context.Context) error {
	if len(r.truth.touched) == 0 {
		return errors.New("no order of this round is in the tables")
	}
	var asked []*order
	abused := 0
	for id := range r.truth.touched {
		o := r.truth.orders[id]
		if isAbuser(o.account) {
			abused++
			if abused > abusedAskedMax || len(o.executed) > abusedFillsMax {
				continue
			}
		}
		asked = append(asked, o)
	}
	for range min(oldQueries, len(r.old)) {
		asked = append(asked, r.old[r.r.IntN(len(r.old))])
	}
	var frames [][]byte
	for batch := range slices.Chunk(asked, queryBatch) {
		t := wire.NewTransactions(r.market.accounts[0])
		for _, o := range batch {
			t.Query(fmt.Sprint(o.id))
		}
		frames = append(frames, t.Append(nil))
	}
	replies, err := askAll(ctx, r.target(), frames)
	if err != nil {
		return err
	}
	for n, answers := range replies {
		for i, a := range answers {
			o := asked[n*queryBatch+i]
			if want := o.status(); !reflect.DeepEqual(a, want) {
				return fmt.Errorf("order %d is %+v in the tables, and the exchange answers %+v", o.id, want, a)
			}
		}
	}
	r.report.Queried += int64(len(asked))
	return nil
}

// checkLinear proves the round's symbol linearizable.
func (r *runner) checkLinear() error {
	ops := r.linear.finish(r.truth.orders, func(s *sentOrder) (uint64, bool) { return s.id, s.id > 0 })
	switch porcupine.CheckOperationsTimeout(model, ops, linearTimeout) {
	case porcupine.Illegal:
		return fmt.Errorf("the %d commands of symbol %s are not linearizable", len(ops), r.linear.sym)
	case porcupine.Unknown:
		return fmt.Errorf("whether the %d commands of symbol %s are linearizable was not found out within %s", len(ops), r.linear.sym, linearTimeout)
	}
	r.report.LinearOps += int64(len(ops))
	return nil
}

// forget drops what is closed and checked, but for a sample.
func (r *runner) forget() {
	for id := range r.truth.touched {
		o := r.truth.orders[id]
		if o.open > 0 {
			continue
		}
		delete(r.truth.orders, id)
		if isAbuser(o.account) {
			continue // it has no serial number
		}
		r.keepOld(r.history.orders[serial(o.amount)])
		delete(r.history.orders, serial(o.amount))
		delete(r.history.ids, id)
		if len(r.old) < oldMax {
			r.old = append(r.old, o)
		} else if at := r.r.IntN(20 * oldMax); at < oldMax {
			r.old[at] = o
		}
	}
	clear(r.truth.touched)
}

// keepOld remembers an order that is sent again in later rounds, if it has a ref.
func (r *runner) keepOld(s *sentOrder) {
	switch at := r.r.IntN(20 * oldMax); {
	case s == nil || s.ref == "":
	case len(r.oldSent) < oldMax:
		r.oldSent = append(r.oldSent, s)
	case at < oldMax:
		r.oldSent[at] = s
	}
}
