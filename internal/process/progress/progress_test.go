package progress

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// screen keeps what was written.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// take returns the text written since its last call.
func (s *screen) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.text.Reset()
	return s.text.String()
}

// at delivers a tick at the given time after begun. The second tick ensures that the first was handled.
func at(ticks chan time.Time, begun time.Time, after time.Duration) {
	ticks <- begun.Add(after)
	ticks <- begun // too early to show anything
}

func TestATerminalHasOneLineThatIsRewritten(t *testing.T) {
	s, ticks, begun := &screen{}, make(chan time.Time), time.Unix(1000, 0)
	l := start(s, 20, begun, ticks)
	at(ticks, begun, 2*time.Second)
	require.Empty(t, s.take(), "Say was not called yet")
	l.Say("reading")
	at(ticks, begun, 999*time.Millisecond)
	require.Empty(t, s.take(), "work of less than a second shows nothing")
	at(ticks, begun, time.Second)
	require.Equal(t, "\r\x1b[Kreading (1s)", s.take())
	l.Say("writing many, many records")
	at(ticks, begun, 1250*time.Millisecond)
	require.Equal(t, "\r\x1b[Kwriting many, many ", s.take(), "the line is cut to fit the terminal")
	_, err := io.WriteString(l, "a warning\n")
	require.NoError(t, err)
	require.Equal(t, "\r\x1b[Ka warning\n", s.take())
	l.Say("done soon")
	at(ticks, begun, time.Minute)
	require.Equal(t, "\r\x1b[Kdone soon (1m0s)", s.take())
	l.Stop()
	require.Equal(t, "\r\x1b[K", s.take(), "the line is erased")
}

func TestAFileHasALineEveryFewSeconds(t *testing.T) {
	s, ticks, begun := &screen{}, make(chan time.Time), time.Unix(1000, 0)
	l := start(s, 0, begun, ticks)
	l.Say("reading")
	at(ticks, begun, LineEvery-1)
	require.Empty(t, s.take())
	at(ticks, begun, LineEvery)
	require.Equal(t, "reading (5s)\n", s.take())
	at(ticks, begun, 2*LineEvery-1)
	require.Empty(t, s.take())
	at(ticks, begun, 2*LineEvery)
	require.Equal(t, "reading (10s)\n", s.take())
	l.Stop()
	require.Empty(t, s.take())
}

func TestALogHasALineAtEachTickUntilTheEnd(t *testing.T) {
	s, ticks, n := &screen{}, make(chan time.Time), 0
	stop := logAt(ticks, slog.New(slog.NewTextHandler(s, nil)), "replaying", func() []any { n++; return []any{"seq", n} })
	ticks <- time.Time{}
	ticks <- time.Time{}
	stop()
	stop()
	require.Equal(t, 2, strings.Count(s.take(), "msg=replaying seq="))
}

func TestAFileIsNoTerminal(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/file")
	require.NoError(t, err)
	defer f.Close()
	require.Zero(t, columnsOf(f))
	require.Zero(t, columnsOf(&screen{}))
}
