package main

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runHealth runs `outcryd --health` against an HTTP address.
func runHealth(address string) (exit int, stdout, stderr string) {
	var out, errs strings.Builder
	exit = run(background, []string{"--health", "--http=" + address}, &out, &errs)
	return exit, out.String(), errs.String()
}

func TestHealthIsWhetherTheExchangeTakesOrders(t *testing.T) {
	flags, _ := dataFlags(t)
	s, _ := inProcess(t, flags...)
	address := s.httpAddr.String()
	exit, stdout, _ := runHealth(address)
	require.Equal(t, exitOK, exit)
	require.Equal(t, "ready\n", stdout)

	s.setNotReady(errors.New("the database is away"))
	exit, stdout, stderr := runHealth(address)
	require.Equal(t, exitError, exit)
	require.Empty(t, stdout)
	require.Equal(t, "outcryd: not ready: the database is away\n", stderr)
}

func TestHealthOfAServerOnAllAddressesIsAskedOnThisMachine(t *testing.T) {
	flags, _ := dataFlags(t)
	s, _ := inProcess(t, flags...)
	_, port, err := net.SplitHostPort(s.httpAddr.String())
	require.NoError(t, err)
	for _, host := range []string{"", "0.0.0.0", "[::]", "localhost"} {
		exit, _, stderr := runHealth(host + ":" + port)
		require.Equal(t, exitOK, exit, "%s: %s", host, stderr)
	}
}

func TestHealthIsBadWhereNobodyAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody := l.Addr().String()
	require.NoError(t, l.Close())
	for address, reason := range map[string]string{nobody: "connection refused", "": "--http is empty"} {
		exit, _, stderr := runHealth(address)
		require.Equal(t, exitError, exit)
		require.Contains(t, stderr, reason)
	}
	exit, _, stderr := runHealth("8080")
	require.Equal(t, exitUsage, exit)
	require.Contains(t, stderr, "that is a port without a host")
	require.Equal(t, exitUsage, run(background, []string{"--health", "--ack=never"}, io.Discard, io.Discard))
}
