package main

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/settings"
	"outcry/internal/testing/pgtest"
)

// TestAStopSaysHowFarPostgresIs stops a server while its Postgres is frozen, and checks the progress in the log.
func TestAStopSaysHowFarPostgresIs(t *testing.T) {
	before := sayEvery
	t.Cleanup(func() { sayEvery = before })
	sayEvery = time.Millisecond
	pg, _ := pgtest.NewCluster(t)
	c, err := settings.Parse([]string{"--listen=127.0.0.1:0", "--http=", "--data=" + t.TempDir(),
		"--database-url=" + pg.URL(), "--stop-timeout=5m"}, io.Discard)
	require.NoError(t, err)
	log := &logBuffer{}
	s := newServer(c, slog.New(slog.NewJSONHandler(log, nil)), new(slog.LevelVar))
	require.NoError(t, s.start(background))
	client := dial(t, readyLine(strings.NewReader(log.String()))["xml"])
	thaw := freeze(t, pg.Pid())
	client.must(t, `<create><account id="1" balance="1"/></create>`)
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	require.Eventually(t, func() bool {
		return strings.Contains(log.String(), `"msg":"bringing Postgres up to date","applied_seq":0,"of":1`)
	}, patience, time.Millisecond)
	thaw()
	require.NoError(t, <-stopped)
	require.NotContains(t, log.String(), "Postgres is not up to date")
}
