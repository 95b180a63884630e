package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/check"
	"outcry/internal/wire"
)

// What one session of the database does, or one client while Postgres stands still.

const (
	closedOrders  = 400 // of the abuser, that memory is to forget
	oldAsked      = 5   // of which so many are asked for in frames before an order
	behindMax     = 100 // orders of another connection, within which that order has to be executed
	timeoutsRound = 5   // times that sessions are ended
)

// abuseHistory asks for orders that only Postgres knows while it stands still. An order
// behind them on the same connection has to be executed meanwhile: another connection
// sees by the ids that it was.
func (r *runner) abuseHistory(ctx context.Context) error {
	old, err := r.closeOrders(ctx)
	if err != nil {
		return err
	}
	l, err := check.DialLine(ctx, r.abuser)
	if err != nil {
		return err
	}
	defer l.Close()
	thaw := r.pg.Freeze()
	defer thaw()
	if err := r.askUnknown(ctx); err != nil {
		return err
	}
	var frames [][]byte
	for _, id := range old[:oldAsked] {
		frames = append(frames, wire.NewTransactions(abuserName).Query(fmt.Sprint(id)).Cancel(fmt.Sprint(id)).Append(nil))
	}
	if err := l.Send(frames...); err != nil {
		return err
	}
	if _, err := r.placeBeside(ctx); err != nil { // frames that come together are executed together: let those be read
		return err
	}
	if err := l.Send(r.BulkFrame(dollarOrder, 1)); err != nil {
		return err
	}
	other, err := r.placeBeside(ctx)
	if err != nil {
		return err
	}
	thaw()
	return r.judgeBehind(l, old, other)
}

// closeOrders places orders and cancels them, and waits until memory has forgotten them.
func (r *runner) closeOrders(ctx context.Context) (ids []uint64, err error) {
	ids, refusal, err := r.PlaceMany(ctx, r.abuser, dollarOrder, closedOrders)
	if err != nil || refusal != "" {
		return nil, errors.Join(err, fmt.Errorf("the abuser's orders are refused: %q", refusal))
	}
	t := wire.NewTransactions(abuserName)
	for _, id := range ids {
		t.Cancel(fmt.Sprint(id))
	}
	answers, err := check.Ask(ctx, r.abuser, t.Append(nil))
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		if a.Kind != "canceled" {
			return nil, fmt.Errorf("a cancel is answered with %+v", a)
		}
	}
	return ids, errors.Join(r.awaitTables(ctx), r.turnSegment(ctx))
}

// awaitTables waits until the tables have what has been answered so far.
func (r *runner) awaitTables(ctx context.Context) error {
	highest := int64(r.HighestID())
	return r.await(ctx, "the tables have what was answered", func() (bool, error) {
		var last int64
		err := r.db.QueryRow(ctx, "SELECT coalesce(max(id), 0) FROM order_log").Scan(&last)
		return last >= highest, err
	})
}

// askUnknown demands that an order that there cannot be is unknown, whatever Postgres does.
func (r *runner) askUnknown(ctx context.Context) error {
	answers, err := check.Ask(ctx, r.abuser, wire.NewTransactions(abuserName).Query("1000000000000").Append(nil))
	if err == nil && !strings.HasPrefix(answers[0].Error, "there is no order") {
		err = fmt.Errorf("an id that was never given out is answered with %+v while Postgres stands still", answers[0])
	}
	return err
}

// placeBeside places orders one after another on another connection, and returns the
// newest id. So many round trips are more than a reader needs for some frames.
func (r *runner) placeBeside(ctx context.Context) (newest uint64, err error) {
	l, err := check.DialLine(ctx, r.abuser)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	for range behindMax {
		if err := l.Send(r.BulkFrame(dollarOrder, 1)); err != nil {
			return 0, err
		}
		answers, err := l.Reply(check.BulkReplyMax)
		if err != nil {
			return 0, fmt.Errorf("beside queries of old orders: %w", err)
		}
		ids, refusal := r.BulkTold(answers)
		if len(ids) == 0 {
			return 0, fmt.Errorf("beside queries of old orders: %s", refusal)
		}
		newest = ids[0]
	}
	return newest, nil
}

// judgeBehind reads the replies to queries of old orders and to the order behind them.
func (r *runner) judgeBehind(l *check.Line, old []uint64, other uint64) error {
	if err := l.SetReadDeadline(time.Now().Add(check.ReplyTimeout)); err != nil {
		return err
	}
	for _, id := range old[:oldAsked] {
		answers, err := l.Reply(check.BulkReplyMax)
		if err != nil {
			return fmt.Errorf("a query of an old order has no reply: %w", err)
		}
		if len(answers) != 2 || answers[0].ID != fmt.Sprint(id) || answers[1].ID != fmt.Sprint(id) {
			return fmt.Errorf("a query of old order %d is answered with %+v", id, answers)
		}
	}
	answers, err := l.Reply(check.BulkReplyMax)
	if err != nil {
		return fmt.Errorf("an order behind queries of old orders has no reply: %w", err)
	}
	ids, refusal := r.BulkTold(answers)
	r.abuseNote("%d queries of old orders while Postgres stands still", oldAsked)
	switch {
	case len(ids) == 0:
		return fmt.Errorf("an order behind queries of old orders: %s", refusal)
	case ids[0] > other:
		return fmt.Errorf("an order behind %d queries of old orders was executed as %d, after %d of another connection: "+
			"they held it back",
			oldAsked, ids[0], behindMax)
	}
	return nil
}

// abuseLost loses the connections to Postgres without a goodbye: its sessions live on.
func (r *runner) abuseLost(ctx context.Context) error {
	for range 2 {
		r.pg.Lose()
		if err := errors.Join(r.goesOn(ctx), r.awaitTables(ctx)); err != nil {
			return err
		}
	}
	r.abuseNote("the connections to Postgres are lost twice, and its sessions live on")
	return nil
}

// abuseSessions ends the exchange's sessions, and gives its role timeouts that no batch keeps.
func (r *runner) abuseSessions(ctx context.Context) (err error) {
	settings := []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"}
	defer func() {
		for _, name := range settings {
			_, resetErr := r.db.Exec(context.WithoutCancel(ctx), "ALTER ROLE CURRENT_USER RESET "+name)
			err = errors.Join(err, resetErr)
		}
	}()
	for _, name := range settings {
		if _, err := r.db.Exec(ctx, "ALTER ROLE CURRENT_USER SET "+name+" = '2ms'"); err != nil {
			return fmt.Errorf("torture: %w", err)
		}
	}
	for range timeoutsRound {
		_, err := r.db.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name LIKE 'outcryd%' AND pid <> pg_backend_pid() AND datname = current_database()`)
		if err != nil {
			return fmt.Errorf("torture: %w", err)
		}
		if err = r.goesOn(ctx); err == nil {
			err = r.awaitTables(ctx)
		}
		if err != nil {
			return fmt.Errorf("with timeouts of 2 ms: %w", err)
		}
	}
	r.abuseNote("sessions end %d times, with timeouts of 2 ms for the role", timeoutsRound)
	return nil
}

// abuseLock locks a table as CREATE INDEX does, and kills the exchange while it waits for
// that. A start must not need the lock to end.
func (r *runner) abuseLock(ctx context.Context) error {
	tx, err := r.db.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	if _, err := tx.Exec(ctx, "LOCK TABLE orders, order_log, executions IN SHARE MODE"); err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	if err := r.goesOn(ctx); err != nil {
		return err
	}
	err = r.await(ctx, "the exchange waits for the lock", func() (waits bool, err error) {
		err = tx.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted").Scan(&waits)
		return waits, err
	})
	if err != nil {
		return err
	}
	r.End.MayBeGone.Store(true)
	r.server.Kill()
	if err := r.start(ctx, r.plain); err != nil {
		return fmt.Errorf("while a table is locked: %w", err)
	}
	r.abuseNote("killed and started while a table is locked")
	return nil
}
