package mutation

import "outcry/loadtest/harness"

const (
	shard   = "internal/engine/shard.go"
	closing = "internal/engine/closed.go"
	ledger  = "internal/exchange/ledger.go"
	writing = "internal/postgres/write.go"
)

// gone is what is said where something that was answered is no more: an order, an
// account, an execution, or a cancel.
const gone = `was answered with .* lost|was told to have executed|was told to be canceled|was answered, the exchange says: there is no order|a client that sends again sees: order (id )?\d+( was given to|'s ref is taken| is answered again| is asked for by its ref)`

// sentAgain is what is said where an order that was sent again was done again.
const sentAgain = `is answered again with .* and not with|is there a second time|one order is there as|'s ref is taken for another order|asked for by its ref`

// someKills is a run in which every bug that shows after a kill has its chance.
var someKills = map[string]int{"kill": 10, "stop": 1}

var bugs = []Bug{
	{
		Name: "answer-before-sync", Promise: "durable before visible: replies do not wait for the journal", plan: someKills,
		noticed: gone,
		edits: []harness.Edit{
			{File: "internal/engine/log.go", Old: "err := d.log.Wait(ctx, seq); err != nil ||", New: "err := ctx.Err(); err != nil ||"},
			{File: "internal/engine/log.go", Old: "{ d.log.Notify(seq, wake) }", New: "{ d.log.Notify(0, wake) }"},
		},
	}, {
		Name: "no-sync", Promise: "durable: the journal is written and not synced", pkg: "./internal/journal", test: "CrashAtEveryStep",
		noticed: `^TestCrashAtEveryStep`,
		edits: []harness.Edit{{File: "internal/journal/flusher.go",
			Old: "if err := j.current.sync(); err != nil {\n\t\t\t\treturn fmt.Errorf(\"sync records", New: "if err := error(nil); err != nil {\n\t\t\t\treturn fmt.Errorf(\"sync records"}},
	}, {
		Name: "sync-failure-ignored", Promise: "durable: a sync that failed counts as done", pkg: "./internal/journal", test: "CrashAtEveryStep|OneFailedCall",
		noticed: `^TestCrashAtEveryStep|^TestOneFailedCall`,
		edits: []harness.Edit{{File: "internal/journal/flusher.go",
			Old: "if err := j.current.sync(); err != nil {\n\t\t\t\treturn fmt.Errorf(\"sync records", New: "if err := j.current.sync(); err != nil && seq == 0 {\n\t\t\t\treturn fmt.Errorf(\"sync records"}},
	}, {
		Name: "settle-before-append", Promise: "append before settle: others spend what the journal does not have yet", plan: map[string]int{"kill-behind": 8},
		noticed: `does not come out as recorded|does not add up`,
		edits: []harness.Edit{
			{File: shard, Old: "import (\n", New: "import (\n\t\"time\"\n\n"},
			{File: shard, Old: "\tseq, err := d.append(bytes)\n\tif err != nil {\n\t\treturn err\n\t}\n\te.settle(d.instrument, o, d.fills)\n",
				New: "\te.settle(d.instrument, o, d.fills)\n\tif len(d.fills) > 0 {\n\t\ttime.Sleep(time.Millisecond)\n\t}\n\tseq, err := d.append(bytes)\n\tif err != nil {\n\t\treturn err\n\t}\n"},
		},
	}, {
		Name: "skip-one-refund", Promise: "money: now and then a buyer does not get back what a better price left over", plan: someKills,
		noticed: `does not add up|does not come out as recorded|cash_imbalance|account .* has|was accepted, now insufficient_funds`,
		edits: []harness.Edit{{File: ledger, Old: "\tbuyer.balance = buyer.balance.Add(hold.Sub(price))\n",
			New: "\tif f.Shares%50 != 0 {\n\t\tbuyer.balance = buyer.balance.Add(hold.Sub(price))\n\t}\n"}},
	}, {
		Name: "cancel-refunds-twice", Promise: "money: now and then a cancel gives back twice what was held", plan: someKills,
		// Postgres takes no record that leaves an account below nothing, so that an
		// orderly stop may find the tables incomplete.
		noticed: `does not add up|does not come out as recorded|cash_imbalance|account .* has|was accepted, now insufficient_funds|after an orderly stop: .* lost`,
		edits: []harness.Edit{{File: ledger, Old: "\t\to.Account.balance = o.Account.balance.Add(hold)\n\t\treturn\n",
			New: "\t\to.Account.balance = o.Account.balance.Add(hold)\n\t\tif o.ID%20 == 0 {\n\t\t\to.Account.balance = o.Account.balance.Add(hold)\n\t\t}\n\t\treturn\n"}},
	}, {
		Name: "forget-fill-on-replay", Promise: "crash: a replay leaves out the last fill of an order", plan: someKills,
		noticed: `does not add up|does not come out as recorded|history: .* was accepted, now insufficient_(funds|shares)`,
		edits: []harness.Edit{{File: "internal/exchange/state.go", Old: "\ts.Ledger.Settle(li, o, s.fills)\n",
			New: "\ts.Ledger.Settle(li, o, s.fills[:max(len(s.fills), 1)-1])\n"}},
	}, {
		Name: "apply-batch-twice", Promise: "projection: now and then what positions gain in a batch is written twice", plan: someKills,
		noticed: `does not add up|has .* of`,
		edits: []harness.Edit{{File: writing, Old: "\t\tw.positions(b)\n",
			New: "\t\tw.positions(b)\n\t\tif b.last%10 == 0 {\n\t\t\tfor key, c := range b.positions {\n\t\t\t\tif c.shares.Sign() < 0 || c.held.Sign() < 0 {\n" +
				"\t\t\t\t\tdelete(b.positions, key)\n\t\t\t\t}\n\t\t\t}\n\t\t\tw.positions(b)\n\t\t}\n"}},
	}, {
		Name: "lose-an-execution", Promise: "projection: now and then an execution does not get its row", plan: someKills,
		noticed: `does not add up|stays open|executed`,
		edits: []harness.Edit{{File: "internal/postgres/batch.go", Old: "\t\tb.executionLog.execution(e, i)\n",
			New: "\t\tif b.last%10 != 0 {\n\t\t\tb.executionLog.execution(e, i)\n\t\t}\n"}},
	}, {
		Name: "drop-last-batch", Promise: "crash: recovery drops the last batch of the journal", plan: someKills,
		noticed: gone + `|the database holds records up to` +
			`|position \[LIN\d+ \d+\] has .* by the orders and executions it is` + // shares that were placed for a round, and answered
			`|violates check constraint "(accounts|positions)_\w+_check"` + // the tables have what was done with what is gone
			`|journal record \d+ does not come out as recorded`, // and so have later records
		edits: []harness.Edit{{File: "internal/journal/recover.go", Old: "\tif err := errors.Join(r.rewriteLastBatch(s, f), ",
			New: "\tif last := &r.segments[len(r.segments)-1]; r.batch > segmentHeader {\n\t\tr.next, last.end = r.durable+1, int64(r.batch)\n\t\ts = *last\n\t\tclear(r.bytes[r.batch:])\n\t\t_, _ = f.WriteAt(r.bytes[r.batch:], int64(r.batch))\n\t}\n\tif err := errors.Join(r.rewriteLastBatch(s, f), "}},
	}, {
		Name: "ids-again", Promise: "ids: after a restart they begin below those that were given out", plan: someKills,
		noticed: `two orders|submitted out of order|in the tables, and the exchange answers .*Error:there is no order`,
		edits:   []harness.Edit{{File: "internal/engine/engine.go", Old: "e.lastOrder.Store(uint64(o.State.OrderID))", New: "e.lastOrder.Store(uint64(o.State.OrderID) - min(5, uint64(o.State.OrderID)))"}},
	}, {
		Name: "newest-first", Promise: "priority: at one price the newest order goes first", plan: someKills,
		noticed: `by price and time`,
		edits:   []harness.Edit{{File: "internal/exchange/book.go", Old: "b.fill(o, opposite.best.oldest,", New: "b.fill(o, opposite.best.last,"}},
	}, {
		Name: "forget-before-commit", Promise: "queries: closed orders leave memory before Postgres has them", plan: map[string]int{"postgres-freeze": 8},
		noticed: `was answered, the exchange says: there is no order`,
		edits:   []harness.Edit{{File: closing, Old: "seq := e.options.Projection.Applied()", New: "seq := uint64(1 << 62)"}},
	}, {
		Name: "cancel-all-keeps-a-hold", Promise: "money: a cancel of all forgets to give back what one of its orders held", pkg: "./internal/engine", test: "CancelAll|Operations",
		noticed: `^TestACancelAll|^TestOperations|^TestOnAFullDisk`,
		edits: []harness.Edit{{File: "internal/engine/cancelall.go", Old: "\t\tfor i := range h.open {\n\t\t\to := &h.open[i]\n",
			New: "\t\tfor i := range h.open {\n\t\t\tif i == 1 {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\to := &h.open[i]\n"}},
	}, {
		Name: "cancel-all-in-two", Promise: "all or nothing: a cancel of all misses symbols in which the account has placed orders meanwhile", pkg: "./internal/engine", test: "OneMoment|CameMeanwhile",
		noticed: `^TestACancelAllTakesSymbolsThatCameMeanwhile|^TestACancelAllIsOneMoment`,
		edits:   []harness.Edit{{File: "internal/engine/cancelall.go", Old: "\t\tif len(more) == 0 {\n", New: "\t\tif len(more) == 0 || len(c.held) > 0 {\n"}},
	}, {
		Name: "halt-forgotten", Promise: "halts: a start does not know them", pkg: "./cmd/outcryd", test: "Halt|Model",
		noticed: `^TestAHaltOutlivesACrash|^TestSessionsAndOperators`,
		edits:   []harness.Edit{{File: "internal/exchange/snapshot.go", Old: "st.List(sym.Symbol).halt = sym.Halt", New: "st.List(sym.Symbol)"}},
	}, {
		Name: "stop-without-postgres", Promise: "an orderly stop leaves complete tables: it does not wait for them", plan: map[string]int{"stop": 10},
		noticed: `after an orderly stop: .* lost`,
		edits:   []harness.Edit{{File: "cmd/outcryd/server.go", Old: "s.projector.WaitApplied(ctx, last)", New: "ctx.Err()"}},
	}, {
		Name: "forget-refs-at-restart", Promise: "refs: those that the journal has and Postgres does not are forgotten at a start", plan: map[string]int{"kill": 8, "kill-behind": 3},
		noticed: sentAgain,
		edits:   []harness.Edit{{File: "internal/engine/engine.go", Old: "e.refs.table, e.refs.filter = o.State.Refs, newRefFilter()", New: "e.refs.table, e.refs.filter = exchange.NewRefs(), newRefFilter()"}},
	}, {
		Name: "forget-old-refs", Promise: "refs: those that Postgres has at a start are taken for unused", plan: someKills,
		noticed: sentAgain,
		edits:   []harness.Edit{{File: "internal/engine/refs.go", Old: "err = e.options.History.EachRef(ctx, yield)", New: "err = ctx.Err()"}},
	}, {
		Name: "refs-race", Promise: "refs: two sessions use one at the same time", pkg: "./internal/engine", test: "Ref",
		noticed: `^TestOneOfManySessionsUsesARef|^TestNothingIsToldOfARefThatIsBeingUsed`,
		edits:   []harness.Edit{{File: "internal/engine/refs.go", Old: "case e.refs.table.Claim(account, c.Ref):", New: "case e.refs.table.Claim(account, c.Ref), true:"}},
	}, {
		Name: "end-without-a-word", Promise: "never silent: an orderly stop does not say so on the connections that it ends", plan: map[string]int{"stop": 2},
		noticed: `without a reason`,
		edits:   []harness.Edit{{File: "internal/gateway/session.go", Old: "\t\treturn textDraining\n", New: "\t\treturn \"\"\n"}},
	}, {
		Name: "disk-not-asked", Promise: "durable: the journal asks the file system to sync, and the real one does nothing", pkg: "./internal/journal", test: "Disk",
		noticed: `^TestARecordIsOnTheDiskBeforeItsWaitEnds`,
		edits:   []harness.Edit{{File: "internal/journal/fs.go", Old: "return durable.Data(f.File)", New: "return nil"}},
	}, {
		Name: "name-not-synced", Promise: "durable: a new segment's name is not synced", pkg: "./internal/journal", test: "Name|FailedSync",
		noticed: `^TestASegmentHasItsNameBeforeItsRecords`,
		edits:   []harness.Edit{{File: "internal/journal/flusher.go", Old: "func() error { return j.fs.syncDir(j.dir) }", New: "func() error { return nil }"}},
	}, {
		Name: "commit-not-synced", Promise: "--ack postgres: Postgres answers a commit before it is on disk, where that is its default", pkg: "./internal/postgres", test: "OnDisk",
		noticed: `^TestWhatIsCommittedIsOnDiskWhateverTheDefaultIs`,
		edits:   []harness.Edit{{File: "internal/postgres/session.go", Old: "\t\"synchronous_commit\":                  \"on\",\n"}},
	}, {
		Name: "query-before-commit", Promise: "--ack postgres: queries tell of what Postgres does not have", pkg: "./cmd/outcryd", test: "AckPostgresTells",
		noticed: `^TestAckPostgresTellsNothing`,
		edits:   []harness.Edit{{File: "internal/engine/log.go", Old: "bool { return d.seq() >= seq }", New: "bool { return d.log.Synced() >= seq }"}},
	}, {
		Name: "market-before-commit", Promise: "--ack postgres: market data tells of what Postgres does not have", pkg: "./cmd/outcryd", test: "AckPostgresTells",
		noticed: `^TestAckPostgresTellsNothing`,
		edits:   []harness.Edit{{File: "cmd/outcryd/market.go", Old: "return s.engine.DurableSeq()", New: "return s.journal.Synced()"}},
	}, {
		Name: "backup-not-synced", Promise: "durable: a backup has its name before its bytes are on disk", pkg: "./internal/backup", test: "Durable",
		noticed: `^TestABackupHasItsNameOnceItIsDurable`,
		edits:   []harness.Edit{{File: "internal/backup/file.go", Old: "errors.Join(buffered.Flush(), durable.File(f))", New: "buffered.Flush()"}},
	}, {
		Name: "overwrite-not-waited-for", Promise: "a full disk: where writing over takes room, the process ends", pkg: "./internal/journal", test: "Overwrite",
		noticed: `^TestARefusedOverwriteIsWaitedFor`,
		edits:   []harness.Edit{{File: "internal/journal/flusher.go", Old: "if err := j.put(rest[:n]); err != nil {", New: "if _, err := j.current.WriteAt(rest[:n], j.at); err != nil {"}},
	},
}
