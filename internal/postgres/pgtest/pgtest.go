// Package pgtest gives tests a real Postgres: one cluster for a test binary,
// with a database of its own for every test that asks.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/postgres/cluster"
)

// startTimeout bounds a start. A machine without Postgres downloads it.
const startTimeout = 3 * time.Minute

// fast gives up durability, which tests of other things do not need.
var fast = map[string]string{"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off", "shared_buffers": "64MB", "max_connections": "100"}

var shared struct {
	sync.Once
	dir     string
	cluster *cluster.Cluster
	err     error
	next    atomic.Int64
}

// Main runs a package's tests and ends the cluster. It is called by TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
func Main(m *testing.M) int {
	status := m.Run()
	if shared.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := errors.Join(shared.cluster.Stop(ctx), os.RemoveAll(shared.dir)); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
		}
	}
	return status
}

// NewDatabase returns the URL of a new, empty database, which is dropped when the
// test ends. The cluster starts with the first call, and dies with the process.
func NewDatabase(t testing.TB) string {
	t.Helper()
	shared.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		if shared.dir, shared.err = os.MkdirTemp("", "outcry-pgtest-"); shared.err == nil {
			shared.cluster, shared.err = cluster.Start(ctx, cluster.Options{Dir: shared.dir, Log: slog.New(slog.DiscardHandler), Settings: fast})
		}
	})
	require.NoError(t, shared.err)
	name := fmt.Sprintf("test_%d", shared.next.Add(1))
	admin(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { admin(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(shared.cluster.URL())
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String()
}

// admin runs one statement on the shared cluster.
func admin(t testing.TB, sql string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, shared.cluster.URL())
	require.NoError(t, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	require.NoError(t, err)
}

// NewCluster returns a cluster of the test's own, for tests that stop and kill it,
// and the directory that it lives in.
func NewCluster(t testing.TB) (c *cluster.Cluster, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	dir = t.TempDir()
	c, err := cluster.Start(ctx, cluster.Options{Dir: dir, Log: slog.New(slog.DiscardHandler), Settings: fast})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = c.Stop(ctx) // a test may have stopped it
	})
	return c, dir
}
