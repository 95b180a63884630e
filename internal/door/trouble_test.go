package door

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// lineLog keeps the log lines.
type lineLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// lines returns the log lines of all levels, without time.
func (l *lineLog) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var attrs map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &attrs))
		delete(attrs, "time")
		all = append(all, attrs)
	}
	return all
}

func (l *lineLog) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// TestAClosedConnectionIsOneLineWithItsNumber has two clients trade. Then the second sends a malformed frame.
// The log must have one line, with the reason that the client gets.
func TestAClosedConnectionIsOneLineWithItsNumber(t *testing.T) {
	l, log := listen(t), new(lineLog)
	s := start(t, l, newFake(), Options{Log: log.logger()})
	first, second := dial(t, l), dial(t, l)
	for _, c := range []*client{first, second, second} {
		c.send(query(1), query(2))
		require.Equal(t, answer(1), c.reply())
		require.Equal(t, answer(2), c.reply())
	}
	second.send("what?\n")
	reply, err := io.ReadAll(second.in)
	require.NoError(t, err)
	const reason = `a frame begins with its length in bytes, alone on a line, not with "what?"`
	require.Contains(t, string(reply), reason+" (connection 2)</error></results>")
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	eventually(t, func() bool { return s.count() == 0 })
	require.Equal(t, []map[string]any{{"level": "INFO", "msg": "a connection is closed", "connection": 2.0,
		"client": second.LocalAddr().String(), "frame": 5.0, "limit": "length_line", "reason": reason}}, log.lines(t))
}

func TestARefusedConnectionIsOneLineWithItsNumber(t *testing.T) {
	l, log := listen(t), new(lineLog)
	s := start(t, l, newFake(), Options{Log: log.logger(), ConnectionsMax: 1})
	first := dial(t, l)
	first.send(query(1))
	require.Equal(t, answer(1), first.reply())
	second := dial(t, l)
	reply, err := io.ReadAll(second.in)
	require.NoError(t, err)
	require.Contains(t, string(reply), "(connection 2)")
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
	eventually(t, func() bool { return s.count() == 0 })
	lines := log.lines(t)
	require.Len(t, lines, 1)
	require.Equal(t, "WARN", lines[0]["level"])
	require.InDelta(t, 2, lines[0]["connection"], 0)
	require.NotContains(t, lines[0], "frame")
}

// TestAFailureIsOneLineForEachConnection lets the exchange fail while a reply waits to become durable, and
// while a command is executed.
func TestAFailureIsOneLineForEachConnection(t *testing.T) {
	gone := errors.New("the disk is gone")
	for name, x := range map[string]*fake{"execute": {executeErr: gone}, "durable": {durableErr: gone}} {
		t.Run(name, func(t *testing.T) {
			l, log := listen(t), new(lineLog)
			s := start(t, l, x, Options{Log: log.logger()})
			c := dial(t, l)
			c.send(query(1))
			reply, err := io.ReadAll(c.in)
			require.NoError(t, err)
			require.Contains(t, string(reply), "(connection 1)")
			require.NoError(t, c.Close())
			eventually(t, func() bool { return s.count() == 0 })
			lines := log.lines(t)
			require.Len(t, lines, 1)
			require.Contains(t, lines[0]["error"], "the disk is gone")
			require.InDelta(t, 1, lines[0]["connection"], 0)
			require.InDelta(t, 1, lines[0]["frame"], 0)
		})
	}
}
