package postgres

import (
	"context"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/exchange"
	"outcry/internal/journal"
	"outcry/internal/journal/trail"
	"outcry/internal/testing/trailtest"
)

// TestTheProjectorCatchesUpAndLetsTheJournalGo also breaks the projector's connection.
func TestTheProjectorCatchesUpAndLetsTheJournalGo(t *testing.T) {
	url := newTables(t)
	s := mustOpen(t, url)
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion, SegmentBytes: 16 << 10})
	require.NoError(t, err)
	defer j.Close()
	records := trail.New(j, trailtest.Options)
	p, err := NewProjector(ProjectorOptions{Store: s, Journal: j, Trail: records, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	h := newHistory(4)
	for n := range 5000 {
		e := h.next()
		put(t, j, records, &e)
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

// TestSegmentsGoThatAnotherReaderHeld lets a reader continue only after the last record was projected. No
// later record then triggers the deletion of segments.
func TestSegmentsGoThatAnotherReaderHeld(t *testing.T) {
	s := mustOpen(t, newTables(t))
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion, SegmentBytes: 16 << 10})
	require.NoError(t, err)
	defer j.Close()
	records := trail.New(j, trailtest.Options)
	p, err := NewProjector(ProjectorOptions{Store: s, Journal: j, Trail: records, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	slow, err := j.NewReader(1)
	require.NoError(t, err)
	h := newHistory(5)
	for range 2000 {
		e := h.next()
		put(t, j, records, &e)
	}
	require.NoError(t, j.Wait(background, j.Appended())) // all records are then in one batch
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	committed := func() bool { // the commit has ended, including its deletion of segments
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

// TestRecordsGatherWhileNobodyWaits sets no limit to gathering. The first record on an idle exchange is
// written at once; later ones gather until a call waits for them.
func TestRecordsGatherWhileNobodyWaits(t *testing.T) {
	s := mustOpen(t, newTables(t))
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion})
	require.NoError(t, err)
	defer j.Close()
	records := trail.New(j, trailtest.Options)
	batches := make(chan int, 100)
	p, err := NewProjector(ProjectorOptions{Store: s, Journal: j, Trail: records, Log: slog.New(slog.DiscardHandler),
		OnBatch: func(n int, _ int64, _ time.Duration) { batches <- n }})
	require.NoError(t, err)
	p.gather = func(time.Duration, int) bool { return true }
	ctx, cancel := context.WithCancel(background)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	h := newHistory(7)
	next := func() uint64 {
		e := h.next()
		seq := put(t, j, records, &e)
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

// TestHowLongRecordsGather checks gatherTime, and gatherTimeBusy while the load lasts.
func TestHowLongRecordsGather(t *testing.T) {
	for gathered := time.Duration(0); gathered < gatherTime; gathered += gatherStep {
		require.True(t, gatherOn(gathered, 0), gathered)
	}
	for gathered := gatherTime; gathered < gatherTimeBusy; gathered += gatherStep {
		require.True(t, gatherOn(gathered, gatherFew), gathered)
		require.False(t, gatherOn(gathered, gatherFew-1), gathered)
	}
	require.False(t, gatherOn(gatherTimeBusy, math.MaxInt))
}

// TestAFullBatchGathersNoLonger checks that a full batch is written although no call waits, and that gather
// receives the number of records per step.
func TestAFullBatchGathersNoLonger(t *testing.T) {
	const size = 20
	s := mustOpen(t, newTables(t))
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion})
	require.NoError(t, err)
	defer j.Close()
	records := trail.New(j, trailtest.Options)
	batches := make(chan int, 100)
	p, err := NewProjector(ProjectorOptions{Store: s, Journal: j, Trail: records, Log: slog.New(slog.DiscardHandler),
		OnBatch: func(n int, _ int64, _ time.Duration) { batches <- n }})
	require.NoError(t, err)
	p.size = size - size/8 - 1 // the second batch may have size records
	steps := make(chan int)
	ctx, cancel := context.WithCancel(background)
	p.gather = func(_ time.Duration, came int) bool {
		select {
		case steps <- came:
		case <-ctx.Done():
		}
		return true
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	h := newHistory(7)
	add := func(n int) {
		for range n {
			e := h.next()
			put(t, j, records, &e)
		}
		require.NoError(t, j.Wait(background, j.Appended()))
	}
	add(1)
	require.Equal(t, 1, <-batches)
	require.Zero(t, <-steps)
	add(5)
	for came := 0; came < 5; {
		came += <-steps
	}
	require.Zero(t, <-steps)
	require.Empty(t, batches)
	add(size)
	for records := 0; records == 0; {
		select {
		case <-steps:
		case records = <-batches:
			require.GreaterOrEqual(t, records, size-size/8-1)
		}
	}
	cancel()
	require.NoError(t, <-ended)
}

// TestTheNextBatchIsMadeWhileOneIsWritten also checks that the next batch is as large as allowed.
func TestTheNextBatchIsMadeWhileOneIsWritten(t *testing.T) {
	const records, size = 500, 100
	p := mustProjector(t, mustOpen(t, newTables(t)), records)
	p.size = size
	ctx, cancel := context.WithCancel(background)
	ahead := -1
	p.options.OnBatch = func(int, int64, time.Duration) {
		if ahead < 0 {
			ahead = p.ahead.records()
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	require.NoError(t, p.WaitApplied(background, records))
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, size, ahead)
}

// TestARecordThatCannotBeReadEndsTheProjector: this holds even if the record belongs to the batch that is filled while
// another is written.
func TestARecordThatCannotBeReadEndsTheProjector(t *testing.T) {
	const size = 100
	j := mustJournal(t, size)
	for range 2 {
		_, err := j.Append([]byte{0xff})
		require.NoError(t, err)
	}
	require.NoError(t, j.Wait(background, size+2))
	p := mustProjectorOf(t, mustOpen(t, newTables(t)), j)
	p.size = size
	require.ErrorContains(t, p.Run(background), "journal record 101: ")
	require.EqualValues(t, size, p.Applied())
}

// panicVariable makes TestAProjectorThatPanicsEndsTheProcess run a projector that panics, in the goroutine it names.
const panicVariable = "OUTCRY_TEST_PANIC"

// TestAProjectorThatPanicsEndsTheProcess: Postgres would have no further records, so the process must end. It ends
// whether the projector's own goroutine panics, or the one that fills the next batch.
func TestAProjectorThatPanicsEndsTheProcess(t *testing.T) {
	if where := os.Getenv(panicVariable); where != "" {
		runPanicking(t, where)
		return
	}
	for _, where := range []string{"run", "ahead"} {
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAProjectorThatPanicsEndsTheProcess$")
		c.Env = append(os.Environ(), panicVariable+"="+where)
		out, err := c.CombinedOutput()
		require.Error(t, err, "%s", out)
		require.Contains(t, string(out), "panic: a bug", where)
		require.NotContains(t, string(out), "the process continues")
	}
}

// runPanicking runs a projector as the server does. The decoder panics.
func runPanicking(t *testing.T, where string) {
	j, err := journal.Open(t.TempDir(), journal.Options{Version: exchange.EventVersion})
	require.NoError(t, err)
	_, err = j.Append([]byte("a record"))
	require.NoError(t, err)
	require.NoError(t, j.Wait(background, 1))
	o := trailtest.Options
	o.Decode = func() func([]byte, *exchange.KeptEvent) error {
		return func([]byte, *exchange.KeptEvent) error { panic("a bug") }
	}
	p, err := NewProjector(ProjectorOptions{Journal: j, Trail: trail.New(j, o), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	var running sync.WaitGroup
	if where == "ahead" {
		p.fillAhead(background)
		p.endAhead()
	} else {
		running.Go(func() { err = p.Run(background) })
		running.Wait()
	}
	t.Log("the process continues", err)
}
