package main

import (
	"bytes"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/journal"
	"outcry/internal/operate/settings"
)

// listener is a log writer that calls do for each line that contains text.
type listener struct {
	text string
	do   func()
}

func (l *listener) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(l.text)) {
		l.do()
	}
	return len(line), nil
}

// TestAStartWaitsForTheProcessBeforeIt: a killed process may hold the directory's lock for a moment longer.
func TestAStartWaitsForTheProcessBeforeIt(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	former, err := journal.Lock(strings.TrimPrefix(flags[0], "--data="))
	require.NoError(t, err)
	said := 0
	log := slog.New(slog.NewJSONHandler(&listener{"another process is using the data directory", func() {
		said++
		require.NoError(t, former.Unlock())
	}}, nil))
	c, err := settings.Parse(append(flags, "--listen=127.0.0.1:0", "--http=127.0.0.1:0", "--segment=1048576"), io.Discard)
	require.NoError(t, err)
	s := newServer(c, log, new(slog.LevelVar))
	s.setNotReady(errStarting)
	require.NoError(t, s.start(background))
	require.NoError(t, s.stop())
	require.Equal(t, 1, said)
}
