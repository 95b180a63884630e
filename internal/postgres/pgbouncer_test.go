//go:build pgbouncer

package postgres

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/testing/pgtest"
)

// TestPgBouncerIsRefused starts the PgBouncer of the distribution in each of its modes: with its default
// settings, with which it refuses our parameters, and with settings that ignore them. CI installs PgBouncer:
//
//	go test -tags pgbouncer -run PgBouncer ./internal/postgres
func TestPgBouncerIsRefused(t *testing.T) {
	for _, mode := range []string{"session", "transaction", "statement"} {
		for ignored, says := range map[string]string{
			"": "unsupported startup parameter",
			"plan_cache_mode,synchronous_commit,statement_timeout,lock_timeout,idle_in_transaction_session_timeout," +
				"default_transaction_read_only,search_path," +
				"tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count,tcp_user_timeout," +
				"enable_hashjoin,enable_mergejoin,enable_seqscan": "the connection is with process",
		} {
			t.Run(mode+" "+says, func(t *testing.T) {
				through := startPgBouncer(t, pgtest.NewDatabase(t), mode, ignored)
				_, err := Open(background, through, slog.New(slog.DiscardHandler))
				require.ErrorContains(t, err, "a connection pooler is in between")
				require.ErrorContains(t, err, says)
				require.True(t, Unusable(err))
				past := mustOpenHistory(t, through)
				_, _, err = past.Order(background, 1, 0, 1)
				require.ErrorContains(t, err, says)
			})
		}
	}
}

// startPgBouncer runs a PgBouncer in front of a database until the test ends, and returns the URL through it.
// PgBouncer refuses to run as root.
func startPgBouncer(t *testing.T, database, mode, ignored string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	q := u.Query()
	dir, err := os.MkdirTemp("", "pgbouncer-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	users, settings := filepath.Join(dir, "users"), filepath.Join(dir, "ini")
	require.NoError(t, os.WriteFile(users, fmt.Appendf(nil, "%q \"\"\n", q.Get("user")), 0o644))
	require.NoError(t, os.WriteFile(settings, fmt.Appendf(nil, `[databases]
%s = host=%s port=%s user=%s
[pgbouncer]
unix_socket_dir = %s
listen_port = %s
auth_type = trust
auth_file = %s
pool_mode = %s
ignore_startup_parameters = %s
`, u.Path[1:], q.Get("host"), q.Get("port"), q.Get("user"), dir, q.Get("port"), users, mode, ignored), 0o644))
	cmd := exec.Command("pgbouncer", settings)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 { // run as the owner of Postgres, whom Postgres admits
		owner, err := os.Stat(filepath.Join(q.Get("host"), ".s.PGSQL."+q.Get("port")))
		require.NoError(t, err)
		uid := owner.Sys().(*syscall.Stat_t).Uid
		if uid == 0 {
			nobody, err := user.Lookup("nobody")
			require.NoError(t, err)
			id, err := strconv.ParseUint(nobody.Uid, 10, 32)
			require.NoError(t, err)
			uid = uint32(id)
		}
		require.NoError(t, os.Chown(dir, int(uid), -1))
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	q.Set("host", dir)
	u.RawQuery = q.Encode()
	require.Eventually(t, func() bool {
		q.Set("default_query_exec_mode", "simple_protocol")
		plain := *u
		plain.RawQuery = q.Encode()
		conn, err := pgx.Connect(background, plain.String())
		if err == nil {
			conn.Close(background)
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond, "it carries sessions that ask for nothing")
	return u.String()
}
