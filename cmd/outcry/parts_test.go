package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/cmd/internal/cli"
	"outcry/internal/door/xml/wire"
	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/postgres"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
)

// recordsUpTo makes a journal in the data directory to, with the records of from's journal up to seq.
func recordsUpTo(t *testing.T, from, to string, seq uint64) {
	t.Helper()
	j, err := journal.Open(filepath.Join(to, "journal"),
		journal.Options{Version: exchange.EventVersion, SegmentBytes: 8 << 20})
	require.NoError(t, err)
	require.NoError(t, journal.Scan(filepath.Join(from, "journal"), exchange.EventVersion,
		func(n uint64, record []byte) error {
			if n <= seq {
				_, err := j.Append(record)
				return err
			}
			return nil
		}))
	require.NoError(t, j.Close())
}

// projected writes the records of a journal to an empty database, which then looks as if the server had been killed
// after the last record.
func projected(t *testing.T, data, database string) {
	t.Helper()
	j, err := journal.Open(filepath.Join(data, "journal"),
		journal.Options{Version: exchange.EventVersion, SegmentBytes: 8 << 20})
	require.NoError(t, err)
	store, err := postgres.Open(background, database, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, store.SetJournal(background, j.ID(), "journal"))
	p, err := postgres.NewProjector(postgres.ProjectorOptions{Store: store, Journal: j, Trail: engine.NewTrail(j),
		Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	require.NoError(t, p.WaitApplied(background, j.Appended()))
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, j.Close())
}

// TestAnOrderInPartsIsTheSameEverywhere executes an order in three parts. A server killed after the first part leaves
// a journal, or tables, or a backup of them. Each must pass verification unchanged, and must lead to the same final
// state.
func TestAnOrderInPartsIsTheSameEverywhere(t *testing.T) {
	budget.SkipShort(t, "long, and it starts servers")
	t.Parallel()
	const resting = 2*exchange.FillsMax + 100
	data, database := t.TempDir(), exchangetest.NewTables(t)
	p := exchangetest.Start(t, data, database, "--segment=8388608")
	openMarket(t, p)
	c := &cli.Client{Access: cli.Access{Addr: p.Addr, Timeout: time.Minute}}
	for left := resting; left > 0; left -= min(left, 1000) {
		tx := wire.NewTransactions("1")
		for range min(left, 1000) {
			tx.Order("A", "-0.00000001", "5")
		}
		_, err := exchangeXML(c, tx.Append(nil))
		require.NoError(t, err)
	}
	reply, err := exchangeXML(c, wire.NewTransactions("2").Order("A", fmt.Sprintf("0.%08d", resting+1),
		"5").Query(fmt.Sprint(resting+1)).Append(nil))
	require.NoError(t, err)
	answers, err := wire.ParseReply(reply)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(resting+1), answers[0].ID)
	require.Equal(t, "0.00000001", answers[1].Open)
	require.Len(t, answers[1].Executed, resting)
	last := p.Stop()

	printed := must(t, "journal", data)
	for n := 1; n <= 2; n++ {
		require.Contains(t, printed,
			fmt.Sprintf("order %d of account 2 continues after %d executions: buy 0.%08d A at 5; filled 0.00000001 at 5 with "+
				"order %d of account 1",
				resting+1, n*exchange.FillsMax, resting+1-n*exchange.FillsMax, n*exchange.FillsMax+1))
	}
	must(t, "verify", "--database-url="+database, data)

	cut := t.TempDir()
	recordsUpTo(t, data, cut, last.Seq-2)
	first := replayed(t, cut, last.Seq-2)
	require.Equal(t, exchange.OrderID(resting+1), first.Books["A"].Unfinished())

	finished := func(data, database string) {
		t.Helper()
		again := exchangetest.Start(t, data, database, "--segment=8388608")
		require.Equal(t, fmt.Sprintf("%x", first.Digest()), again.Loaded.Digest)
		c := &cli.Client{Access: cli.Access{Addr: again.Addr, Timeout: time.Minute}}
		require.Eventually(t, func() bool { // a start completes the order by itself
			reply, err := exchangeXML(c, wire.NewTransactions("2").Query(fmt.Sprint(resting+1)).Append(nil))
			require.NoError(t, err)
			answers, err := wire.ParseReply(reply)
			require.NoError(t, err)
			return len(answers[0].Executed) == resting
		}, time.Minute, 10*time.Millisecond)
		require.Equal(t, last.Digest, again.Stop().Digest)
		require.Contains(t, must(t, "verify", "--database-url="+database, data), fmt.Sprintf("%d executions", resting))
	}
	ofJournal := t.TempDir()
	recordsUpTo(t, cut, ofJournal, last.Seq)
	finished(ofJournal, pgtest.NewDatabase(t))

	ofTables := exchangetest.NewTables(t)
	projected(t, cut, ofTables)
	must(t, "verify", "--database-url="+ofTables, cut)
	file := filepath.Join(t.TempDir(), "backup")
	must(t, "backup", "--data="+cut, "--database-url="+ofTables, file)
	must(t, "restore", "--check", file)
	restored, elsewhere := filepath.Join(t.TempDir(), "data"), pgtest.NewDatabase(t)
	must(t, "restore", "--data="+restored, "--database-url="+elsewhere, file)
	finished(restored, elsewhere)
	finished(cut, ofTables)
	withRest, byJournal := filepath.Join(t.TempDir(), "data"), pgtest.NewDatabase(t)
	must(t, "restore", "--data="+withRest, "--database-url="+byJournal, "--journal="+cut, file)
	whole := exchangetest.Start(t, withRest, byJournal, "--segment=8388608")
	require.Equal(t, last.Digest, whole.Loaded.Digest, "the backup is of the first part, the journal has the others")
	whole.Stop()
}
