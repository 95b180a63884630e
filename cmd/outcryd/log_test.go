package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// logged returns the lines of a log, and forgets them.
func logged(t *testing.T, b *bytes.Buffer) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(b.String()) {
		var attrs map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &attrs))
		lines = append(lines, attrs)
	}
	b.Reset()
	return lines
}

func TestALineThatComesTooOftenIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := newLog(&b, slog.LevelInfo)
		for n := range 3 * repeatsMax {
			l.With("client", n).Info("closed", "n", n)
		}
		l.Warn("closed")
		l.Info("another")
		lines := logged(t, &b)
		require.Len(t, lines, repeatsMax+2, "other levels and messages are others")
		require.EqualValues(t, repeatsMax-1, lines[repeatsMax-1]["n"])
		require.EqualValues(t, 2*repeatsMax, l.repeats.suppressed.Load())

		time.Sleep(repeatsWindow)
		l.Info("closed")
		l.Info("closed")
		lines = logged(t, &b)
		require.Len(t, lines, 2)
		require.EqualValues(t, 2*repeatsMax, lines[0]["suppressed"])
		require.NotContains(t, lines[1], "suppressed")
	})
}

func TestMessagesThatAreAlwaysNewAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := newLog(&b, slog.LevelInfo)
		for n := range 10 * messagesMax {
			l.Info(fmt.Sprint("message ", n))
		}
		require.Len(t, logged(t, &b), messagesMax+repeatsMax)
		require.LessOrEqual(t, len(l.repeats.messages), messagesMax+1)
		time.Sleep(repeatsWindow)
		for n := range messagesMax {
			l.Info(fmt.Sprint("later ", n))
		}
		require.Len(t, logged(t, &b), messagesMax-1+min(1, repeatsMax), "those of before made room, but for one that has something to tell")
		require.LessOrEqual(t, len(l.repeats.messages), messagesMax+1)
	})
}

func TestTheLevelChangesWhileTheLogIsUsed(t *testing.T) {
	var b bytes.Buffer
	l := newLog(&b, slog.LevelWarn)
	l.Info("no")
	l.level.Set(slog.LevelDebug)
	l.Debug("yes")
	require.Len(t, logged(t, &b), 1)
}
