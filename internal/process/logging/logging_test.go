package logging

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// logBuffer keeps what was logged.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// logged returns the lines logged since the last call.
func logged(t *testing.T, b *logBuffer) (lines []map[string]any) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		var attrs map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &attrs))
		lines = append(lines, attrs)
	}
	b.text.Reset()
	return lines
}

func TestALineThatComesTooOftenIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b logBuffer
		l := New(&b, slog.LevelInfo, "limit")
		for n := range 3 * repeatsMax {
			l.With("client", n).Info("closed", "n", n)
		}
		l.Warn("closed")
		l.Info("another")
		for range 3 * repeatsMax {
			l.Error("broken")
		}
		lines := logged(t, &b)
		require.Len(t, lines, repeatsMax+2+3*repeatsMax, "levels and messages count separately, and errors are always logged")
		require.EqualValues(t, repeatsMax-1, lines[repeatsMax-1]["n"])
		require.EqualValues(t, 2*repeatsMax, l.repeats.suppressed.Load())

		time.Sleep(repeatsWindow)
		synctest.Wait()
		lines = logged(t, &b)
		require.Len(t, lines, 1)
		require.Equal(t, leftOut, lines[0]["msg"])
		require.Equal(t, "INFO", lines[0]["level"])
		require.Equal(t, "closed", lines[0]["message"])
		require.EqualValues(t, 2*repeatsMax, lines[0]["suppressed"])
		require.NotContains(t, lines[0], "limit")

		l.Info("closed")
		time.Sleep(10 * repeatsWindow)
		require.Len(t, logged(t, &b), 1, "left out lines are reported once")
	})
}

// TestConnectionsThatIdleOutDoNotHideOthers ends many connections because of one limit, and one because of
// another.
func TestConnectionsThatIdleOutDoNotHideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b logBuffer
		l := New(&b, slog.LevelInfo, "limit")
		for n := range 2 * repeatsMax {
			l.Info("a connection is closed", "connection", n, "limit", "idle_timeout")
		}
		l.Info("a connection is closed", "connection", 1000, "limit", "frame")
		lines := logged(t, &b)
		require.Len(t, lines, repeatsMax+1)
		require.EqualValues(t, 1000, lines[repeatsMax]["connection"])
		l.repeats.reportAll() // as at the end of the program
		lines = logged(t, &b)
		require.Len(t, lines, 1)
		require.Equal(t, "idle_timeout", lines[0]["limit"])
		require.EqualValues(t, repeatsMax, lines[0]["suppressed"])
		time.Sleep(repeatsWindow)
		synctest.Wait()
		require.Empty(t, logged(t, &b), "they were already reported")
	})
}

func TestMessagesThatAreAlwaysNewAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b logBuffer
		l := New(&b, slog.LevelInfo, "limit")
		for n := range 10 * messagesMax {
			l.Info(fmt.Sprint("message ", n))
		}
		require.Len(t, logged(t, &b), messagesMax+repeatsMax)
		require.LessOrEqual(t, len(l.repeats.messages), messagesMax+1)
		l.Warn("what matters more")
		l.Error("what matters most")
		require.Len(t, logged(t, &b), 2, "other levels have their own count")
		time.Sleep(repeatsWindow)
		synctest.Wait()
		lines := logged(t, &b)
		require.Len(t, lines, 1)
		require.EqualValues(t, 9*messagesMax-repeatsMax, lines[0]["suppressed"])
		require.NotContains(t, lines[0], "message", "the count is shared by many messages")
		for n := range messagesMax {
			l.Info(fmt.Sprint("later ", n))
		}
		require.Len(t, logged(t, &b), messagesMax, "the counts of earlier messages were dropped")
		require.LessOrEqual(t, len(l.repeats.messages), messagesMax+1)
	})
}

func TestTheLevelChangesWhileTheLogIsUsed(t *testing.T) {
	var b logBuffer
	l := New(&b, slog.LevelWarn, "limit")
	l.Info("no")
	l.Level.Set(slog.LevelDebug)
	l.Debug("yes")
	require.Len(t, logged(t, &b), 1)
}
