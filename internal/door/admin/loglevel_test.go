package admin

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLogLevelChangesAtRunTime(t *testing.T) {
	var log bytes.Buffer
	o := options()
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: o.LogLevel}))
	s := serve(t, o)
	for _, step := range []struct {
		body   string
		status int
		answer string
		level  slog.Level
		logged string
	}{
		{"DEBUG", 200, "DEBUG\n", slog.LevelDebug, "from=INFO to=DEBUG"},
		{" warn\n", 200, "WARN\n", slog.LevelWarn, "from=DEBUG to=WARN"},
		{"ERROR", 200, "ERROR\n", slog.LevelError, "from=WARN to=ERROR"},
		{"loud", 400, "\"loud\" is not a level: DEBUG, INFO, WARN or ERROR\n", slog.LevelError, ""},
		{"ERROR+1000", 400, "\"ERROR+1000\" is not a level: DEBUG, INFO, WARN or ERROR\n", slog.LevelError, ""},
		{"INFO-1", 400, "\"INFO-1\" is not a level: DEBUG, INFO, WARN or ERROR\n", slog.LevelError, ""},
		{"", 400, "\"\" is not a level: DEBUG, INFO, WARN or ERROR\n", slog.LevelError, ""},
		{strings.Repeat("x", 65), 400, "the body did not arrive, or is not a level: http: request body too large\n",
			slog.LevelError, ""},
		{"INFO", 200, "INFO\n", slog.LevelInfo, "from=ERROR to=INFO"},
	} {
		log.Reset()
		response, body := do(t, s, "PUT", "/loglevel", step.body)
		require.Equal(t, step.status, response.StatusCode)
		require.Equal(t, step.answer, body)
		require.Equal(t, step.level, o.LogLevel.Level())
		_, shown := do(t, s, "GET", "/loglevel", "")
		require.Equal(t, step.level.String()+"\n", shown)
		require.Contains(t, log.String(), step.logged)
		require.Equal(t, step.logged != "", log.Len() > 0)
	}
}

func TestPagesFromElsewhereDoNotChangeTheLogLevel(t *testing.T) {
	o := options()
	s := serve(t, o)
	response, _ := do(t, s, "PUT", "/loglevel", "DEBUG", "Origin", "https://elsewhere.example")
	require.Equal(t, 403, response.StatusCode)
	response, _ = do(t, s, "PUT", "/loglevel", "DEBUG", "Host", "elsewhere.example")
	require.Equal(t, 403, response.StatusCode)
	require.Equal(t, slog.LevelInfo, o.LogLevel.Level())
}
