package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/door"
	"outcry/internal/door/admin"
	"outcry/internal/operate/remote"
	"outcry/internal/operate/settings"
)

func TestTheReserveOfDescriptorsHasRoomForEachPart(t *testing.T) {
	const journalPostgresAndFiles = 64
	require.GreaterOrEqual(t, settings.DescriptorReserve,
		journalPostgresAndFiles+admin.OperatorConnectionsMax+door.RefusedMax)
}

// launchWithFiles is launch with a limit on the number of open files.
func launchWithFiles(t *testing.T, files int, flags ...string) *program {
	t.Helper()
	p := &program{log: &logBuffer{}}
	script := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files)
	p.cmd = exec.Command("/bin/sh",
		append([]string{"-c", script, os.Args[0], "--listen=127.0.0.1:0", "--http=127.0.0.1:0"}, flags...)...)
	p.cmd.Env = append(os.Environ(), runVariable+"=1")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = p.log
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	p.waitReady(t)
	return p
}

// TestIdleConnectionsShutNobodyOut: a process limited to 200 open files gets 250 idle connections over TCP and 250 over
// HTTP, half of which have sent a request. A client that was connected before continues to trade through many journal
// segments, health checks and operators are answered, market data continues, and the server stops cleanly.
func TestIdleConnectionsShutNobodyOut(t *testing.T) {
	t.Parallel()
	flags, _ := dataFlags(t)
	p := launchWithFiles(t, 200, append(flags, "--segment=65536")...)
	require.Contains(t, p.log.String(), settings.ConnectionsLowered)
	require.Contains(t, p.log.String(), `"open_files":200,"reserve":160,"max-connections":32,"max-http-connections":8`)
	c := dial(t, p.xml)
	must := func(xml string) string {
		t.Helper()
		reply, err := c.ask(xml)
		require.NoError(t, err, "log: %s", p.log)
		require.NotContains(t, reply, "<error", reply)
		return reply
	}
	must(`<create><account id="1" balance="1000000"/><symbol sym="S"><account id="1">1000000</account></symbol></create>`)
	for i := range 250 {
		idle, err := net.Dial("tcp", p.xml)
		require.NoError(t, err)
		defer idle.Close()
		over, err := net.Dial("tcp", p.http)
		require.NoError(t, err)
		defer over.Close()
		if i%2 == 0 { // the server may have closed it already
			_, _ = io.WriteString(over, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}
	}
	orders := strings.Repeat(`<order sym="S" amount="1" limit="1"/>`, 100)
	for range 100 { // about 600 KB of records
		must(`<transactions id="1">` + orders + `</transactions>`)
		status, stdout, stderr := runHealth(p.http)
		require.Equal(t, exitOK, status, "%s%s; log: %s", stdout, stderr, p.log)
	}
	seq := uint64(0)
	require.Eventually(t, func() bool {
		s := statusOver(t, p.http)
		seq = s.Exchange.Journal.Appended
		return s.Exchange.MarketData == "" && s.Exchange.Postgres.Applied == seq && s.Exchange.Journal.Segments < 5
	}, patience, 10*time.Millisecond, "log: %s", p.log)
	require.Greater(t, seq, uint64(10_000))
	require.Eventually(t, func() bool {
		status, body := askOnce(t, p.http, "/api/v1/book/S")
		return status == http.StatusOK && strings.Contains(body, fmt.Sprintf(`"seq":%d`, seq))
	}, patience, 10*time.Millisecond, "market data has to follow")
	require.NotContains(t, p.log.String(), "too many open files", "the reserve was enough")
	p.stop(t)
}

// askOnce sends a request to the HTTP side on a new connection.
func askOnce(t *testing.T, addr, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Get("http://" + addr + path)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

// statusOver returns the answer to GET /admin/status.
func statusOver(t *testing.T, addr string) (s remote.Status) {
	t.Helper()
	status, body := askOnce(t, addr, "/admin/status")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, json.Unmarshal([]byte(body), &s))
	return s
}
