package postgres

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/testing/pgtest"
)

// TestTheProjectorCatchesUpAndLetsTheJournalGo also breaks its connection on the way.
func TestTheProjectorCatchesUpAndLetsTheJournalGo(t *testing.T) {
	url := pgtest.NewDatabase(t)
	s := mustOpen(t, url)
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion, SegmentBytes: 16 << 10})
	require.NoError(t, err)
	defer j.Close()
	p, err := NewProjector(ProjectorOptions{Store: s, Journal: j, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	h := newHistory(4)
	for n := range 5000 {
		e := h.next()
		_, err := j.Append(exchange.AppendEvent(nil, &e))
		require.NoError(t, err)
		if n%1000 == 500 {
			conn, err := pgx.Connect(background, url)
			require.NoError(t, err)
			_, err = conn.Exec(background,
				`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					WHERE application_name LIKE 'outcryd%' AND datname = current_database()`)
			require.NoError(t, err)
			require.NoError(t, conn.Close(background))
		}
	}
	require.NoError(t, p.WaitApplied(background, j.Appended()))
	require.Equal(t, j.Appended(), p.Applied())
	require.Eventually(t, func() bool { return j.SegmentCount() < 3 }, time.Minute, time.Millisecond,
		"segments behind applied_seq are deleted")
	cancel()
	require.NoError(t, <-ended)
	require.Error(t, p.WaitApplied(background, j.Appended()+1), "it has ended")
	snap, err := mustReopen(t, s, url).Load(background)
	require.NoError(t, err)
	restored, err := snap.Restore()
	require.NoError(t, err)
	compareStates(t, h.state, restored)
}

// TestSegmentsGoThatAnotherReaderHeld has a reader go on only after the last record
// was projected: nothing comes after it that would have the journal looked at.
func TestSegmentsGoThatAnotherReaderHeld(t *testing.T) {
	s := mustOpen(t, pgtest.NewDatabase(t))
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion, SegmentBytes: 16 << 10})
	require.NoError(t, err)
	defer j.Close()
	p, err := NewProjector(ProjectorOptions{Store: s, Journal: j, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	slow, err := j.NewReader(1)
	require.NoError(t, err)
	h := newHistory(5)
	for range 2000 {
		e := h.next()
		_, err := j.Append(exchange.AppendEvent(nil, &e))
		require.NoError(t, err)
	}
	require.NoError(t, j.Wait(background, j.Appended())) // so that it is one batch
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	committed := func() bool { // and has looked at the segments
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.wanted != nil
	}
	require.Eventually(t, committed, time.Minute, time.Millisecond)
	require.Equal(t, j.Appended(), p.Applied())
	require.Greater(t, j.SegmentCount(), 2)
	slow.Close()
	require.Eventually(t, func() bool { return j.SegmentCount() == 1 }, time.Minute, time.Millisecond)
	cancel()
	require.NoError(t, <-ended)
}

// TestRecordsGatherWhileNobodyWaits lets them gather without end: a record that
// comes to an idle exchange is written at once, later ones together, as soon as
// somebody waits for them.
func TestRecordsGatherWhileNobodyWaits(t *testing.T) {
	s := mustOpen(t, pgtest.NewDatabase(t))
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion})
	require.NoError(t, err)
	defer j.Close()
	batches := make(chan int, 100)
	p, err := NewProjector(ProjectorOptions{Store: s, Journal: j, Log: slog.New(slog.DiscardHandler),
		OnBatch: func(records int, _ int64, _ time.Duration) { batches <- records }})
	require.NoError(t, err)
	p.gather = time.Hour
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	h := newHistory(7)
	next := func() uint64 {
		e := h.next()
		seq, err := j.Append(exchange.AppendEvent(nil, &e))
		require.NoError(t, err)
		require.NoError(t, j.Wait(background, seq))
		return seq
	}
	next()
	require.Equal(t, 1, <-batches)
	next()
	next()
	require.NoError(t, p.WaitApplied(background, next()))
	require.Equal(t, 3, <-batches)
	waited := make(chan error, 1)
	last := h.seq + 10
	go func() { waited <- p.WaitApplied(background, last) }()
	for h.seq < last {
		next()
		require.Equal(t, 1, <-batches, "one by one while somebody waits for the last")
	}
	require.NoError(t, <-waited)
	cancel()
	require.NoError(t, <-ended, "the end does not wait")
}
