package main

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"outcry/internal/auth"
	"outcry/internal/operate/settings"
	"outcry/internal/testing/certtest"
)

// reload overwrites the settings file, sends SIGHUP, and waits until the log reports the outcome. It returns that log
// line, which has the given message.
func (p *program) reload(t *testing.T, file, text, message string) map[string]any {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	before := len(p.log.String())
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	var line map[string]any
	require.Eventually(t, func() bool {
		for text := range strings.Lines(p.log.String()[before:]) {
			if line = nil; json.Unmarshal([]byte(text), &line) == nil && line["msg"] == message {
				return true
			}
		}
		return false
	}, patience, 1e6, "log: %s", p.log)
	return line
}

const (
	msgReloaded  = "the settings are reloaded"
	msgNotTaken  = "the settings are not applied, and nothing has changed"
	msgRestart   = "changed settings need a restart"
	connectFrame = `<transactions id="1"><query id="1"/></transactions>`
)

// shows returns the body of the HTTP side's answer to a path.
func (p *program) shows(t *testing.T, path string) string {
	t.Helper()
	answer, err := http.Get("http://" + p.http + path)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(body)
}

func TestSettingsChangeWhileClientsAreConnected(t *testing.T) {
	raced(t)
	t.Parallel()
	flags, _ := dataFlags(t)
	file := filepath.Join(t.TempDir(), "outcryd.conf")
	require.NoError(t, os.WriteFile(file, []byte("max-connections = 2\nidle-timeout = 1h\nmax-stream-readers = 0\n"),
		0o600))
	p := start(t, append(flags, "--config="+file, "--max-symbols=77")...)
	idle, busy := dial(t, p.xml), dial(t, p.xml)
	idle.must(t, opening)
	busy.must(t, connectFrame)
	require.Contains(t, p.shows(t, "/api/v1/stream"), "readers")
	tooMany, err := dial(t, p.xml).r.Next()
	require.NoError(t, err)
	require.Contains(t, string(tooMany), "the exchange has 2 connections")
	require.Contains(t, p.shows(t, "/metrics"), "outcry_config_last_reload_successful 1")

	// One invalid setting rejects the whole file, including its valid settings.
	line := p.reload(t, file, "max-connections = 3\nmax-lag = 5\n", msgNotTaken)
	require.Contains(t, line["error"], file+":2: --max-lag 5: must be from 1000")
	require.Contains(t, p.shows(t, "/metrics"), "outcry_connections_limit 2")
	require.Contains(t, p.shows(t, "/metrics"), "outcry_config_last_reload_successful 0")

	// A flag still overrides the file, and settings that need a restart are named.
	line = p.reload(t, file, "max-connections = 3\nidle-timeout = 1h\nmax-symbols = 5\nmax-frame = 65536\n"+
		"log-level = DEBUG\nmax-lag = 5000\n", msgRestart)
	require.Equal(t, []any{"max-frame"}, line["settings"])
	require.Contains(t, p.log.String(),
		`"changed":["log-level: DEBUG, was INFO","max-connections: 3, was 2",`+
			`"max-lag: 5000, was 4000000","max-stream-readers: 1000, was 0"]`)
	metrics := p.shows(t, "/metrics")
	require.Contains(t, metrics, "outcry_connections_limit 3")
	require.Contains(t, metrics, "outcry_postgres_lag_limit_records 5000")
	require.Contains(t, metrics, "outcry_config_last_reload_successful 1")
	require.Contains(t, p.shows(t, "/loglevel"), "DEBUG")
	dial(t, p.xml).must(t, connectFrame)

	// A connection that has been idle for longer than the new timeout is closed.
	p.reload(t, file, "idle-timeout = 1ms\n", msgReloaded)
	words, err := idle.r.Next()
	require.NoError(t, err)
	require.Contains(t, string(words), "nothing was sent for 1ms")
	p.reload(t, file, "", msgReloaded)
	dial(t, p.xml).must(t, connectFrame)
	p.stop(t)
}

func TestAPartThatRefusesASettingKeepsAllOthersFromChanging(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	file := writeFile(t, "outcryd.conf", "max-connections = 2\n")
	s, _ := inProcess(t, append(flags, "--config="+file)...)
	var prepared, applied int
	refuse := fmt.Errorf("the certificate has expired")
	s.onReload(func(*settings.Config) (func(), error) {
		prepared++
		return func() { applied++ }, nil
	})
	s.onReload(func(*settings.Config) (func(), error) { return func() { applied++ }, refuse })
	require.NoError(t, os.WriteFile(file, []byte("max-connections = 3\n"), 0o600))
	_, _, err := s.tryReload()
	require.ErrorIs(t, err, refuse)
	require.Equal(t, 1, prepared)
	require.Zero(t, applied)
	require.Equal(t, 2, s.settings().ConnectionsMax)
	refuse = nil
	changed, restart, err := s.tryReload()
	require.NoError(t, err)
	require.Equal(t, 2, applied)
	require.Equal(t, []string{"max-connections: 3, was 2"}, changed)
	require.Empty(t, restart)
	changed, _, err = s.tryReload()
	require.NoError(t, err)
	require.Empty(t, changed, "it is in force")
}

// TestAReloadIsNotRefusedForACertificateThatHasExpired: an operator must be able to change limits even when the
// certificate has expired. A reload is refused only for files that became wrong since the last reload, and then as
// a whole.
func TestAReloadIsNotRefusedForACertificateThatHasExpired(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	flags, _ := dataFlags(t)
	data := strings.TrimPrefix(flags[0], "--data=")
	scope, err := auth.ParseScope("admin")
	require.NoError(t, err)
	_, _, err = auth.Add(data, scope, time.Time{}, "")
	require.NoError(t, err)
	own := authority.Expired("server", x509.ExtKeyUsageServerAuth)
	file := writeFile(t, "outcryd.conf", "max-connections = 2\n")
	s, _ := inProcess(t, append(flags, "--config="+file, "--auth", "--tls-cert="+own.CertFile,
		"--tls-key="+own.KeyFile)...)
	expired := s.guards.certificates.Expires()
	require.True(t, expired.Before(time.Now()), "it has come up with it")
	s.guards.end() // stops following the files, so that only a reload reads them
	require.NoError(t, os.WriteFile(file, []byte("max-connections = 3\n"), 0o600))
	changed, _, err := s.tryReload()
	require.NoError(t, err)
	require.Equal(t, []string{"max-connections: 3, was 2"}, changed)

	// A new certificate is not used while the token file is invalid.
	authority.Server("server")
	tokens := filepath.Join(data, "tokens")
	good, err := os.ReadFile(tokens)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(tokens, []byte("rubbish"), 0o600))
	_, _, err = s.tryReload()
	require.ErrorContains(t, err, "--auth: auth: "+tokens)
	require.Equal(t, expired, s.guards.certificates.Expires())
	require.Zero(t, taken(t, s), "whoever has read the file")
	require.NoError(t, os.WriteFile(tokens, good, 0o600))
	_, _, err = s.tryReload()
	require.NoError(t, err)
	require.True(t, s.guards.certificates.Expires().After(time.Now()))
	require.Equal(t, 1.0, taken(t, s))
}

// taken returns the value of the metric outcry_config_last_reload_successful.
func taken(t *testing.T, s *server) float64 {
	t.Helper()
	all, err := s.metrics.registry.Gather()
	require.NoError(t, err)
	for _, family := range all {
		if family.GetName() == "outcry_config_last_reload_successful" {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	require.Fail(t, "no such metric")
	return 0
}

func TestALogLevelThatWasSetOverHTTPStaysUntilTheFileChangesIt(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	file := writeFile(t, "outcryd.conf", "log-level = INFO\n")
	p := start(t, append(flags, "--config="+file)...)
	require.Equal(t, "INFO\n", p.shows(t, "/loglevel"))
	put, err := http.NewRequest(http.MethodPut, "http://"+p.http+"/loglevel", strings.NewReader("DEBUG"))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(put)
	require.NoError(t, err)
	answer.Body.Close()
	p.reload(t, file, "log-level = INFO\nmax-connections = 3\n", msgReloaded)
	require.Equal(t, "DEBUG\n", p.shows(t, "/loglevel"), "that line has not changed")
	// A reload that sets the log level to ERROR still logs that it happened and what changed.
	line := p.reload(t, file, "log-level = ERROR\nmax-connections = 3\n", msgReloaded)
	require.Equal(t, []any{"log-level: ERROR, was INFO"}, line["changed"])
	is := func(level string) func() bool { return func() bool { return p.shows(t, "/loglevel") == level+"\n" } }
	require.Eventually(t, is("ERROR"), patience, time.Millisecond)
	p.reload(t, file, "max-connections = 3\n", msgReloaded)
	require.Eventually(t, is("INFO"), patience, time.Millisecond)
	p.stop(t)
}

func TestASecretThatChangesIsNotShown(t *testing.T) {
	t.Parallel()
	database, data := writeFile(t, "url", ""), t.TempDir()
	flags, url := dataFlags(t)
	require.NoError(t, os.WriteFile(database, []byte(url+"\n"), 0o600))
	p := start(t, flags[0], "--data="+data, "--database-url-file="+database)
	line := p.reload(t, database, strings.Replace(url, "/test_", "/verysecret_", 1), msgRestart)
	require.Equal(t, []any{"database-url"}, line["settings"])
	require.NotContains(t, p.log.String(), "verysecret")
	p.stop(t)
}

func TestATerminalThatHasGoneIsToldFromOneThatIsThere(t *testing.T) {
	t.Parallel()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	require.False(t, terminalGone(terminal))
	require.NoError(t, master.Close())
	require.True(t, terminalGone(terminal))
	require.NoError(t, terminal.Close())
	plain, err := os.Open(writeFile(t, "log", ""))
	require.NoError(t, err)
	defer plain.Close()
	require.False(t, terminalGone(plain), "a log that is a file")
}
