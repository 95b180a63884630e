package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/postgres"
	"outcry/internal/process/phrase"
)

// checkJournal reads every byte of the journal and verifies its checksums.
func (v *verifier) checkJournal(context.Context) (figures string, err error) {
	var damage *journal.DamageError
	there, err := journal.Exists(v.dir)
	if errors.As(err, &damage) {
		return "", err
	} else if err != nil {
		return "", unchecked(err)
	}
	if !there {
		return "there is none", nil
	}
	var e exchange.Event
	v.say("reading the journal")
	v.found, err = v.readJournal(func(seq uint64, record []byte) error {
		v.sayRecord("reading the journal", seq, 0)
		if err := exchange.DecodeEvent(record, &e); err != nil {
			return fmt.Errorf("record %d: %w", seq, err)
		}
		return nil
	})
	switch {
	case errors.As(err, &damage), errors.Is(err, exchange.ErrEvent):
		return "", err
	case err != nil:
		return "", unchecked(err)
	}
	figures = fmt.Sprintf("%s with records %d to %d, every checksum matches", phrase.Number(v.found.Segments, "segment"),
		v.found.First, v.found.Last)
	if v.found.Last < v.found.First {
		figures = phrase.Number(v.found.Segments, "segment") + " without a record"
	}
	if v.found.Torn > 0 {
		figures += fmt.Sprintf("; a crash left %d bytes at offset %d of %s, which belong to no reply and are removed at "+
			"the next start",
			v.found.Torn, v.found.TornOffset, v.found.TornFile)
	}
	return figures, nil
}

// readTries is how often the journal of a running exchange is read again if a segment is deleted during the
// read.
const readTries = 10

// readJournal calls f for each record of the journal. If the exchange is running, it may start over from a
// later first record; then f sees smaller seqs again.
func (v *verifier) readJournal(f func(seq uint64, record []byte) error) (s journal.Summary, err error) {
	if !v.live {
		return journal.Inspect(v.dir, exchange.EventVersion, f)
	}
	for try := 1; ; try++ {
		if s, err = journal.Peek(v.dir, exchange.EventVersion); err != nil {
			return s, err
		}
		first := uint64(0)
		err = journal.Scan(v.dir, exchange.EventVersion, func(seq uint64, record []byte) error {
			if first == 0 {
				first = seq
			}
			s.Last = max(s.Last, seq)
			return f(seq, record)
		})
		if s.First = first; first == 0 {
			s.First = s.Last + 1
		}
		if !errors.Is(err, fs.ErrNotExist) || try == readTries {
			return s, err
		}
	}
}

// checkBelongs reports an error if the journal and the database do not belong together, or if records between
// them are missing.
func (v *verifier) checkBelongs(context.Context) (figures string, err error) {
	p, j := v.archive.Position(), v.found
	// With --ack postgres every reply waited for Postgres, so the journal may be lost.
	mayLose := p.Ack == "postgres"
	switch {
	case j.Segments == 0 && (p.Applied > 0 || p.Journal != [16]byte{}) && !mayLose:
		return "",
			fmt.Errorf("the database holds records up to %d of a journal, and there is no journal in %s", p.Applied, v.dir)
	case j.Segments == 0 && !mayLose:
		return "neither the database nor the directory holds a record", nil
	case j.Segments == 0:
		return fmt.Sprintf("the database holds records up to %d, and answers waited for it", p.Applied), nil
	case j.First > p.Applied+1 && !v.live: // if live, these segments were deleted after the snapshot
		return "", fmt.Errorf("the database holds records up to %d, and the journal begins at %d: those between are lost",
			p.Applied, j.First)
	case j.Last < p.Applied && !mayLose:
		return "", fmt.Errorf("the database holds records up to %d, and the journal reaches only to %d", p.Applied, j.Last)
	case p.Journal != [16]byte{} && p.Journal != j.ID && !(mayLose && j.Last < j.First):
		return "", fmt.Errorf("the journal in %s is %x, and the database follows %x: they belong to different exchanges",
			v.dir, j.ID, p.Journal)
	}
	return fmt.Sprintf("the database follows this journal, up to record %d", p.Applied), nil
}

// checkHistory replays all records in the tables, from the first one on, and compares each execution and the orders
// open at the end.
func (v *verifier) checkHistory(ctx context.Context) (figures string, err error) {
	opening, err := v.archive.Opening(ctx)
	if err != nil {
		return "", unchecked(err)
	}
	if v.state, err = opening.Restore(); err != nil {
		return "", fmt.Errorf("the tables opening_*: %w", err)
	}
	fills, err := v.archive.CountFills(ctx)
	if err != nil {
		return "", unchecked(err)
	}
	var orders, executions, cancels int
	v.last = v.archive.Position().Applied
	v.say("executing the history again")
	err = v.archive.History(ctx, func(seq uint64, e *exchange.Event) error {
		v.sayRecord("executing the history again", seq, v.last)
		executions += len(e.Fills)
		switch e.Kind {
		case exchange.OrderAccepted, exchange.OrderReplaced:
			orders++
		case exchange.OrderCanceled:
			cancels++
		case exchange.OrdersCanceled:
			cancels += len(e.Cancels)
		case exchange.AccountOpened, exchange.SymbolMade, exchange.SharesDeposited, exchange.SymbolHalted,
			exchange.SymbolResumed, exchange.OrderContinued, exchange.OrderReduced, exchange.AccountRuled,
			exchange.SymbolRuled, exchange.SwitchSet:
		}
		if err := v.redo(seq, e); err != nil {
			return err
		}
		return fills.Add(seq, e)
	})
	if err != nil {
		return "", ofTables(err)
	}
	refs, err := v.compareTables(ctx, fills)
	if err != nil {
		return "", err
	}
	figures = fmt.Sprintf("%s replayed: %s with %s, %s; open at the end: %s",
		phrase.Number(int(v.last-opening.Seq), "record"), phrase.Number(orders, "order"),
		phrase.Number(executions, "execution"),
		phrase.Number(cancels, "cancel"), phrase.Number(len(v.tables.Orders), "order"))
	if refs > 0 {
		figures += fmt.Sprintf("; %s, each of one record", phrase.Number(int(refs), "ref"))
	}
	if opening.Seq > 0 {
		figures += fmt.Sprintf("; records before %d are of an older version, and are checked only against its tables",
			opening.Seq+1)
	}
	return figures, nil
}

// compareTables compares the replayed state with the tables, and returns how many refs the tables have.
func (v *verifier) compareTables(ctx context.Context, fills *postgres.FillCounter) (refs int64, err error) {
	v.say("comparing the tables")
	if v.tables, err = v.archive.Tables(ctx); err != nil {
		return 0, unchecked(err)
	}
	if err := v.state.SameOrders(v.tables); err != nil {
		return 0, fmt.Errorf("resting_orders: %w", err)
	}
	for _, check := range []func(context.Context) error{v.archive.CheckOrders, v.archive.CheckMarket,
		v.archive.CheckCandles, v.archive.CheckPlaced, fills.Check} {
		if err := check(ctx); err != nil {
			return 0, ofTables(err)
		}
	}
	if refs, err = v.archive.CheckRefs(ctx); err != nil {
		return 0, ofTables(err)
	}
	return refs, nil
}

// redo applies a record read from the tables to the replayed state. A *postgres.RowError names the row that
// differs from the replay.
func (v *verifier) redo(seq uint64, e *exchange.Event) error {
	err := v.state.Apply(e)
	var fills *exchange.FillsError
	switch {
	case errors.As(err, &fills):
		place, recorded, now := fills.First()
		return &postgres.RowError{Table: "execution_log", Key: fmt.Sprintf("order_id %d, n %d", e.Order, e.Before+place+1),
			Reason: fmt.Sprintf("the row has %s, but the book fills %s", orNothing(recorded), orNothing(now))}
	case err != nil:
		table, key := postgres.RecordRow(e, seq)
		return &postgres.RowError{Table: table, Key: key, Reason: err.Error()}
	}
	v.state.ForgetClosed(e)
	return nil
}

func orNothing(f *exchange.Fill) string {
	if f == nil {
		return "nothing"
	}
	return f.String()
}

// ofTables returns the *postgres.RowError in err if the archive named a wrong row. Any other error means that
// the archive could not be read, and is marked as unchecked.
func ofTables(err error) error {
	var row *postgres.RowError
	if errors.As(err, &row) {
		return row
	}
	return unchecked(err)
}

// checkMoney compares each balance and each position with those of the replay, and checks the totals.
func (v *verifier) checkMoney(context.Context) (figures string, err error) {
	if err := v.state.SameHoldings(v.tables); err != nil {
		return "", err
	}
	if err := v.state.Audit(); err != nil {
		return "", err
	}
	total := exchange.Cash{}
	for _, a := range v.tables.Accounts {
		total = total.Add(a.Balance).Add(a.Held)
	}
	return fmt.Sprintf("the balances of %s add up to the %s dollars that they were opened with, %s to the shares placed "+
		"of %s; each matches its history",
		phrase.Number(len(v.tables.Accounts), "account"), total, phrase.Number(len(v.tables.Positions), "position"),
		phrase.Number(len(v.tables.Symbols), "symbol")), nil
}

// checkRecords compares the journal's records with their rows, and applies the records that the database does
// not have yet.
func (v *verifier) checkRecords(ctx context.Context) (figures string, err error) {
	if v.found.Segments == 0 {
		return "there are none", nil
	}
	applied := v.archive.Position().Applied
	var rows *rows
	defer func() { rows.stop() }()
	var compared, later int
	var before uint64
	var e exchange.Event
	var wrong error
	_, err = v.readJournal(func(seq uint64, record []byte) error {
		v.sayRecord("comparing the journal with the tables", seq, v.found.Last)
		if wrong = exchange.DecodeEvent(record, &e); wrong != nil {
			return wrong
		}
		if seq <= before { // the journal is read again from the start
			rows.stop()
			rows, compared, later = nil, 0, 0
		}
		switch before = seq; {
		case seq > applied && v.live:
			later++
		case seq > applied:
			wrong = v.follow(seq, &e)
		case seq > v.archive.HistoryAfter():
			if rows == nil {
				rows = openRows(ctx, v.archive, seq)
			}
			compared++
			wrong = rows.same(seq, &e, seq > v.archive.ExactAfter())
		}
		return wrong
	})
	switch {
	case wrong != nil:
		return "", wrong
	case err != nil:
		return "", unchecked(err)
	}
	if err := v.state.Audit(); err != nil {
		return "", fmt.Errorf("after the journal's last record: %w", err)
	}
	if err := v.checkLateRefs(ctx); err != nil {
		return "", err
	}
	if v.live {
		return fmt.Sprintf("%s of the journal compared with the tables; later ones, which the snapshot does not have: %d",
			phrase.Number(compared, "record"), later), nil
	}
	return fmt.Sprintf("%s of the journal compared with the tables; later ones replayed: %d",
		phrase.Number(compared, "record"), v.last-applied), nil
}

// follow applies a journal record that the database does not have yet.
func (v *verifier) follow(seq uint64, e *exchange.Event) error {
	if err := v.state.Apply(e); err != nil {
		return fmt.Errorf("journal record %d does not replay as recorded: %w", seq, err)
	}
	v.last = seq
	if e.Ref != "" {
		v.lateRefs = append(v.lateRefs, exchange.RefKey{Account: e.Account, Ref: e.Ref})
	}
	return nil
}

// checkLateRefs returns an error if a ref of the records that the database lacks is already in the database.
// State.Apply has ruled out duplicates among these records.
func (v *verifier) checkLateRefs(ctx context.Context) error {
	for keys := range slices.Chunk(v.lateRefs, refsAskedMax) {
		used, err := v.archive.Refs(ctx, keys)
		if err != nil {
			return unchecked(err)
		}
		for _, key := range keys {
			if use, ok := used[key]; ok {
				return fmt.Errorf("the journal uses ref %s of account %s after record %d, and the database has it from before: %+v",
					key.Ref, key.Account, v.archive.Position().Applied, use)
			}
		}
	}
	return nil
}

// refsAskedMax is how many refs one query to the database asks for.
const refsAskedMax = 1000

// rows returns the records of the tables one by one.
type rows struct {
	next  func() (uint64, *exchange.Event, bool)
	close func()
	err   error // set when next ends with an error
}

// errEnough stops a read of the tables before its end.
var errEnough = errors.New("enough")

// openRows starts reading the tables at record first.
func openRows(ctx context.Context, a *postgres.Archive, first uint64) *rows {
	r := &rows{}
	r.next, r.close = iter.Pull2(func(yield func(uint64, *exchange.Event) bool) {
		r.err = a.Records(ctx, first, func(seq uint64, e *exchange.Event) error {
			if !yield(seq, e) {
				return errEnough
			}
			return nil
		})
	})
	return r
}

// stop ends the read. It accepts a nil receiver.
func (r *rows) stop() {
	if r != nil {
		r.close()
	}
}

// same compares record seq of the journal with the next record of the tables. Tables hold times in nanoseconds
// if exact, and in whole seconds if an older program wrote them.
func (r *rows) same(seq uint64, want *exchange.Event, exact bool) error {
	got, e, ok := r.next()
	switch {
	case !ok && r.err != nil:
		return ofTables(r.err)
	case !ok || got != seq:
		return fmt.Errorf("record %d of the journal has no row", seq)
	}
	if !exact {
		want.Time = exchange.Seconds(want.Time) * exchange.Second
	}
	if want.Kind <= exchange.SharesDeposited {
		want.Time = 0 // no table holds this time
	}
	if !e.Same(want) {
		table, key := postgres.RecordRow(e, seq)
		return &postgres.RowError{Table: table, Key: key,
			Reason: fmt.Sprintf("it says %s (time %s); journal record %d says %s (time %s)",
				Describe(e), postgres.TimeText(e.Time), seq, Describe(want), postgres.TimeText(want.Time))}
	}
	return nil
}
