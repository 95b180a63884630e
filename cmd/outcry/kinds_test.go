package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/engine"
	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
	"outcry/internal/postgres"
	"outcry/internal/testing/exchangetest"
	"outcry/internal/testing/pgtest"
	"outcry/internal/view/accounts"
	feeds "outcry/internal/view/market"
)

// TestNobodyPassesOverARecordOfAnUnknownKind appends a record of an unknown kind to a journal. Every reader of
// records must stop there with an error that names the kind, and must apply nothing after it.
func TestNobodyPassesOverARecordOfAnUnknownKind(t *testing.T) {
	t.Parallel()
	newest := exchange.EventKind(0)
	for k := range exchange.EventKinds() {
		newest = k
	}
	for _, kind := range []exchange.EventKind{0, newest + 1, 0x3f} {
		l := liveShortly(t)
		file := takenOf(t, l)
		j, err := journal.Open(filepath.Join(l.data, "journal"),
			journal.Options{Version: exchange.EventVersion, SegmentBytes: 1 << 16})
		require.NoError(t, err)
		applied := j.Appended()
		unknown := []byte{0x80 | byte(kind), 0, 0}
		for _, record := range [][]byte{unknown,
			exchange.AppendEvent(nil, &exchange.Event{Kind: exchange.SymbolMade, Symbol: "C"})} {
			_, err = j.Append(record)
			require.NoError(t, err)
		}
		require.NoError(t, j.Wait(background, j.Appended()))
		for name, err := range readersOf(t, l, j, applied) {
			require.ErrorContains(t, err, fmt.Sprintf("unknown kind %d", kind), name)
			require.ErrorContains(t, err, fmt.Sprintf("record %d", applied+1), name)
		}
		for name, err := range map[string]error{
			"DecodeEvent": exchange.DecodeEvent(unknown, new(exchange.Event)),
			"Check":       (&exchange.Event{Kind: kind, Account: "1", Symbol: "A"}).Check(),
			"DecodeKept":  exchange.KeptDecoder()(unknown, new(exchange.KeptEvent)),
		} {
			require.ErrorContains(t, err, fmt.Sprintf("unknown kind %d", kind), name)
		}
		require.Error(t, exchange.NewState().Apply(&exchange.Event{Kind: kind, Symbol: "A"}))
		require.Panics(t, func() { exchange.AppendEvent(nil, &exchange.Event{Kind: kind}) })

		var stderr bytes.Buffer
		server := exec.Command(exchangetest.Server(t), "--data="+l.data, "--listen=127.0.0.1:0", "--http=",
			"--database-url="+l.database)
		server.Stderr = &stderr
		require.Error(t, server.Run())
		require.Contains(t, stderr.String(), fmt.Sprintf("unknown kind %d", kind))
		refused(t, fmt.Sprintf("unknown kind %d", kind), "journal", l.data)
		stdout, stderrText, _ := l.verified()
		require.Contains(t, stdout+stderrText, fmt.Sprintf("unknown kind %d", kind))
		refused(t, fmt.Sprintf("unknown kind %d", kind), "restore", "--data="+filepath.Join(t.TempDir(), "data"),
			"--database-url="+pgtest.NewDatabase(t), "--journal="+l.data, file)
	}
}

// readersOf has each reader follow a journal after record applied, and returns the error with which each one ends.
// It closes the journal.
func readersOf(t *testing.T, l *life, j *journal.Journal, applied uint64) map[string]error {
	t.Helper()
	defer j.Close()
	store, err := postgres.Open(background, l.database, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer store.Close()
	snap, err := store.Load(background)
	require.NoError(t, err)
	traded, trades, err := store.LoadMarket(background)
	require.NoError(t, err)
	all := engine.NewTrail(j)
	follow := trail.FollowOptions{After: applied, HoldMax: 1 << 20}
	records, err := all.Follow(follow)
	require.NoError(t, err)
	feed := feeds.NewFeed(feeds.Options{Records: records, Log: slog.New(slog.DiscardHandler)},
		&feeds.Snapshot{Seq: applied, Symbols: snap.Symbols, Orders: snap.Orders, Traded: traded, Trades: trades})
	ctx, cancel := context.WithTimeout(background, time.Minute)
	defer cancel()
	feed.Run(ctx) // returns at the unknown kind
	records, err = all.Follow(follow)
	require.NoError(t, err)
	view := accounts.NewView(accounts.Options{Records: records, Log: slog.New(slog.DiscardHandler)}, snap)
	view.Run(ctx)
	p, err := postgres.NewProjector(postgres.ProjectorOptions{Store: store, Journal: j, Trail: all, Applied: applied,
		Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	projected := p.Run(ctx)
	position, err := store.Position(background)
	require.NoError(t, err)
	require.Equal(t, applied, position.Applied, "the tables do not count it as theirs")
	return map[string]error{"market feed": feed.Err(), "view of accounts": view.Err(), "projector": projected}
}
