package throughput

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/lab/dialect"
	"outcry/internal/lab/grade/faulty"
	"outcry/internal/lab/grade/script"
	"outcry/internal/lab/load"
)

// short is a duration in which an idle machine handles some orders.
const short = 100 * time.Millisecond

// measured repeats Measure with longer durations until there are some orders; each try has new accounts.
func measured(t *testing.T, o Options) *Result {
	t.Helper()
	for o.Duration = short; ; o.Duration *= 2 {
		r, err := Measure(t.Context(), o)
		if errors.Is(err, errNothing) || errors.Is(err, errEchoNothing) {
			o.Salt += "7"
			continue
		}
		require.NoError(t, err, "%+v", o)
		return r
	}
}

// Without any echoed reply there is no share: dividing by zero would give infinity or NaN.
func TestWhatAnswersNothingHasNoRate(t *testing.T) {
	r := &Result{Rate: 1000}
	require.ErrorIs(t, r.compare(&load.Result{}), errEchoNothing)
	require.Zero(t, r.Share)
	require.NoError(t, r.compare(&load.Result{Requests: 10, Elapsed: time.Second}))
	require.InDelta(t, 100, r.Share, 1e-9)
}

func TestMeasure(t *testing.T) {
	for _, habits := range []dialect.Habits{{}, {OneFrame: true}, {Bare: true, AccountAttribute: true}} {
		addr, stop, err := faulty.Start(faulty.Options{Habits: habits})
		require.NoError(t, err)
		defer stop()
		for _, salt := range []string{"17653812345", "17653812346"} { // two runs have different accounts
			r := measured(t, Options{Addr: addr, Habits: habits, Salt: salt, Connections: 3})
			require.Positive(t, r.Requests)
			require.Zero(t, r.Errors)
			require.Positive(t, r.Asked)
			require.Zero(t, r.Wrong)
			require.Positive(t, r.Rate)
			require.Positive(t, r.Echo)
			require.InDelta(t, r.Rate/r.Echo, r.Share, 1e-9)
			require.LessOrEqual(t, r.P50, r.P99)
			require.Equal(t, script.Pass, Outcome(r, nil, []Step{{r.Share / 2, 1}}).Status)
		}
	}
}

// A server that answers fast but loses orders gets no points.
func TestOrdersThatAreNotThereCount(t *testing.T) {
	addr, stop, err := faulty.Start(faulty.Options{Faults: []string{"racing-ids"}})
	require.NoError(t, err)
	defer stop()
	r := measured(t, Options{Addr: addr, Salt: "1", Connections: 8})
	require.Positive(t, r.Wrong)
	out := Outcome(r, nil, []Step{{0, 1}})
	require.Equal(t, script.Fail, out.Status)
	require.Contains(t, out.Message, "differ from what was sent")
}

// The server answers orders, and hangs at the first query.
func TestAServerThatAnswersForNoOrderHasNoRate(t *testing.T) {
	addr, stop, err := faulty.Start(faulty.Options{})
	require.NoError(t, err)
	defer stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	defer running.Wait()
	defer l.Close()
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { forgets(c, addr) })
		}
	})
	for d := short; ; d *= 2 {
		_, err = Measure(t.Context(), Options{Addr: l.Addr().String(), Salt: strconv.Itoa(int(d)), Connections: 2,
			Duration: d})
		if !errors.Is(err, errNothing) && !errors.Is(err, errEchoNothing) {
			break
		}
	}
	require.ErrorContains(t, err, "the server answered queries of 0 of ")
}

// forgets handles a connection as a proxy to the server at addr, and stops at the first query.
func forgets(c net.Conn, addr string) {
	defer c.Close()
	up, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer up.Close()
	go func() { _, _ = io.Copy(c, up) }()
	for b := make([]byte, 1<<16); ; {
		n, err := c.Read(b)
		if err != nil || bytes.Contains(b[:n], []byte("<query")) {
			_, _ = io.Copy(io.Discard, c)
			return
		}
		if _, err := up.Write(b[:n]); err != nil {
			return
		}
	}
}

func TestMeasureSaysWhatIsWrong(t *testing.T) {
	for says, o := range map[string]Options{
		`salt "x" is not a number`: {Salt: "x"},
		"1001 connections":         {Salt: "1", Connections: 1001},
		"-1 connections":           {Salt: "1", Connections: -1},
		"1h0m0s: must be at most":  {Salt: "1", Duration: time.Hour},
		"connection refused":       {Salt: "1", Addr: "127.0.0.1:1"},
	} {
		_, err := Measure(t.Context(), o)
		require.ErrorContains(t, err, says)
	}
	out := Outcome(nil, errors.New("throughput: it is gone"), []Step{{0, 1}})
	require.Equal(t, script.Fail, out.Status)
	require.True(t, out.Trouble)
}

func TestOutcome(t *testing.T) {
	steps := []Step{{0.1, 2}, {0.5, 8}, {0.3, 4}}
	for share, want := range map[float64]struct {
		status script.Status
		share  float64
		says   string
	}{
		0.05: {script.Fail, 0, "the share is 5 %. The next step is at 10 %."},
		0.1:  {script.Part, 0.25, "The next step is at 30 %."},
		0.45: {script.Part, 0.5, "The next step is at 50 %."},
		0.5:  {script.Pass, 1, "1000 orders a second, each within 10µs (median) or 20µs (99 of 100)."},
		2:    {script.Pass, 1, "the share is 200 %."},
	} {
		r := &Result{Rate: 1000, Echo: 1000 / share, Share: share, P50: 10 * time.Microsecond, P99: 20 * time.Microsecond}
		out := Outcome(r, nil, steps)
		require.Equal(t, want.status, out.Status, share)
		require.InDelta(t, want.share, out.Share, 1e-9, share)
		require.Contains(t, out.Message, want.says)
		require.Equal(t, script.Skip, Outcome(r, nil, nil).Status)
	}
}

// A server that sends without end is an error, in both forms of replies.
func TestRepliesAreBounded(t *testing.T) {
	addr, stop, err := faulty.Start(faulty.Options{Hostile: "endless"})
	require.NoError(t, err)
	defer stop()
	for _, habits := range []dialect.Habits{{}, {Bare: true}} {
		_, err = Measure(t.Context(), Options{Addr: addr, Habits: habits, Salt: "1", Connections: 1000, Duration: short})
		require.ErrorContains(t, err, "bytes")
	}
}
