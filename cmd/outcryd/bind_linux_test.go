package main

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/settings"
	"outcry/internal/process/listen"
)

// descriptors returns the number of open file descriptors of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(all)
}

// TestAfterARefusedStartNoAddressIsTaken: a start that is refused because of the first address, the second, or both
// together leaves neither in use.
func TestAfterARefusedStartNoAddressIsTaken(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	both := free.Addr().String()
	require.NoError(t, free.Close())
	before := descriptors(t)
	for _, c := range []*settings.Config{
		{Listen: "127.0.0.1:0", HTTP: other.Addr().String()},
		{Listen: other.Addr().String(), HTTP: "127.0.0.1:0"},
		{Listen: both, HTTP: both},
		{Listen: "127.0.0.1:0", HTTP: "nonsense"},
		{Listen: "127.0.0.1:0", HTTP: ":0"}, // refused without --open
		{Listen: "[fe80::1%no-such-link]:0"},
	} {
		_, err := (&server{config: c}).bindBoth()
		require.Error(t, err, "%s and %s", c.Listen, c.HTTP)
		require.LessOrEqual(t, descriptors(t), before, "%s and %s", c.Listen, c.HTTP)
	}
}

// TestOfTwoServersThatStartAtOnceOneListens: the kernel lets both servers bind the address, and refuses the second one
// only when it starts to listen.
func TestOfTwoServersThatStartAtOnceOneListens(t *testing.T) {
	first, err := listen.Bind("listen", "127.0.0.1:0")
	require.NoError(t, err)
	second, err := listen.Bind("listen", first.Addr.String())
	require.NoError(t, err)
	before := descriptors(t)
	l, err := first.Listen()
	require.NoError(t, err)
	defer l.Close()
	_, err = second.Listen()
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	require.ErrorContains(t, err, first.Addr.String())
	require.LessOrEqual(t, descriptors(t), before, "the second has given its own back")
}
