package postgres

import (
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"outcry/internal/postgres/local"
)

// TestBothSidesNoticeAPeerThatHasGone reads a TCP connection's settings from Postgres and from the kernel.
func TestBothSidesNoticeAPeerThatHasGone(t *testing.T) {
	dir, host := t.TempDir(), fmt.Sprintf("127.%d.%d.1", 1+os.Getpid()>>8&0x7f, os.Getpid()&0xff)
	c, err := local.Start(background, local.Options{Dir: dir, Log: slog.New(slog.DiscardHandler),
		Settings: map[string]string{"fsync": "off", "shared_buffers": "16MB", "listen_addresses": host}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop(background)) })
	hba := filepath.Join(dir, "data", "pg_hba.conf")
	rules, err := os.ReadFile(hba)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(hba, append(rules, "\nhost all all 127.0.0.0/8 trust\n"...), 0o600))
	mustExec(t, mustConnect(t, c.AdminURL(), "admin"), `SELECT pg_reload_conf()`)
	u, err := url.Parse(c.URL())
	require.NoError(t, err)
	q := u.Query()
	q.Set("host", host)
	u.RawQuery = q.Encode()
	var s *Store
	require.Eventually(t, func() bool {
		s, err = Open(background, u.String(), slog.New(slog.DiscardHandler))
		return err == nil
	}, time.Minute, time.Millisecond, "the rules are read")
	t.Cleanup(s.Close)
	past := mustOpenHistory(t, u.String())
	for name, want := range map[string]string{"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5",
		"tcp_keepalives_count": "3",
		"tcp_user_timeout":     "25000", "client_connection_check_interval": "1s"} {
		var writer, reader string
		require.NoError(t, s.conn.QueryRow(background, "SHOW "+name).Scan(&writer))
		require.NoError(t, past.pool.QueryRow(background, "SHOW "+name).Scan(&reader))
		require.Equal(t, []string{want, want}, []string{writer, reader}, name)
	}
	tcp, ok := s.conn.PgConn().Conn().(*net.TCPConn)
	require.True(t, ok)
	require.Equal(t, []int{1, 10, 5, 3, 25000}, peerOptions(t, tcp))
}

// peerOptions returns options of a connection's socket: keepalives on, idle seconds, interval in seconds,
// number of probes, and for how many milliseconds data may be unacknowledged.
func peerOptions(t *testing.T, c *net.TCPConn) (has []int) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for _, o := range [][2]int{{unix.SOL_SOCKET, unix.SO_KEEPALIVE}, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE},
			{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL},
			{unix.IPPROTO_TCP, unix.TCP_KEEPCNT}, {unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT}} {
			value, err := unix.GetsockoptInt(int(fd), o[0], o[1])
			require.NoError(t, err)
			has = append(has, value)
		}
	}))
	return has
}
