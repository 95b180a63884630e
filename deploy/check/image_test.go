//go:build deploy

package check

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"outcry/internal/testing/pgtest"
)

// imageBytesMax is the largest permitted size of the image.
const imageBytesMax = 40 << 20

// image is a root directory with the files that deploy/Dockerfile puts into the image.
type image struct {
	root string
	env  []string
	user uint32
}

// line returns the text that the group of a pattern matches in deploy/Dockerfile.
func line(t *testing.T, pattern string) string {
	t.Helper()
	b, err := os.ReadFile(repository + "/deploy/Dockerfile")
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^` + pattern + `$`).FindSubmatch(b)
	require.NotNil(t, found, pattern)
	return string(found[1])
}

// newImage builds the binaries as the Dockerfile does and puts them into an empty root directory.
func newImage(t *testing.T) image {
	t.Helper()
	i := image{root: t.TempDir(), env: strings.Fields(line(t, `ENV (.*)`))}
	require.NoError(t, os.Chmod(i.root, 0o755))
	require.Equal(t, "make binaries", line(t, `RUN (make binaries) OUT=/out && mkdir /data`), "as binaries does")
	require.NoError(t, os.MkdirAll(filepath.Join(i.root, "usr/bin"), 0o755))
	for _, program := range []string{"outcryd", "outcry"} {
		b, err := os.ReadFile(filepath.Join(binaries(t), program))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(i.root, "usr/bin", program), b, 0o755))
	}
	user, err := strconv.ParseUint(line(t, `USER (\d+):65532`), 10, 32)
	require.NoError(t, err)
	i.user = uint32(user)
	require.NotZero(t, i.user)
	data := filepath.Join(i.root, "data")
	require.NoError(t, os.Mkdir(data, 0o755))
	require.NoError(t, os.Chown(data, int(user), int(user)))
	return i
}

// command prepares a program of the image, to run as the image's user, in its root directory and with its environment.
func (i image) command(t *testing.T, env []string, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := command(t, name, args...)
	cmd.Path, cmd.Err, cmd.Dir = name, nil, "/"
	cmd.Env = append(append([]string{}, i.env...), env...)
	cmd.SysProcAttr.Chroot = i.root
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: i.user, Gid: i.user}
	return cmd
}

// passwordDatabase returns the address of a database that is reached over TCP and requires a password, and the
// password.
func passwordDatabase(t *testing.T) (host, port, password string) {
	t.Helper()
	c, dir := pgtest.NewCluster(t)
	password = "not-in-the-address"
	db, err := pgx.Connect(t.Context(), c.AdminURL())
	require.NoError(t, err)
	defer db.Close(context.Background())
	_, err = db.Exec(t.Context(), fmt.Sprintf("CREATE ROLE trader LOGIN PASSWORD '%s'", password))
	require.NoError(t, err)
	_, err = db.Exec(t.Context(), "CREATE DATABASE trader OWNER trader")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data/pg_hba.conf"),
		[]byte("local trader trader scram-sha-256\nlocal all all trust\n"), 0o644))
	_, err = db.Exec(t.Context(), "SELECT pg_reload_conf()")
	require.NoError(t, err)
	require.Eventually(t, func() bool { // until Postgres refuses connections without a password
		u, _ := url.Parse(c.URL())
		q := u.Query()
		q.Set("user", "trader")
		u.Path, u.RawQuery = "/trader", q.Encode()
		conn, err := pgx.Connect(t.Context(), u.String())
		if err == nil {
			conn.Close(t.Context())
		}
		return err != nil
	}, patience, 20*time.Millisecond)
	u, err := url.Parse(c.URL())
	require.NoError(t, err)
	socket := filepath.Join(u.Query().Get("host"), ".s.PGSQL."+u.Query().Get("port"))
	host, port, err = net.SplitHostPort(forward(t, socket))
	require.NoError(t, err)
	return host, port, password
}

// forward listens on a TCP address, which it returns, and forwards connections to a Unix socket.
func forward(t *testing.T, socket string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", socket)
			if err != nil {
				from.Close()
				continue
			}
			go func() { defer to.Close(); io.Copy(to, from) }()
			go func() { defer from.Close(); io.Copy(from, to) }()
		}
	}()
	return l.Addr().String()
}

func TestTheImageIsSmallAndStatic(t *testing.T) {
	i := newImage(t)
	var size int64
	require.NoError(t, filepath.WalkDir(i.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		return err
	}))
	require.Less(t, size, int64(imageBytesMax))
	t.Logf("%.1f MB, without the certificates", float64(size)/1e6)
	for _, program := range []string{"outcryd", "outcry"} {
		b, err := os.ReadFile(filepath.Join(i.root, "usr/bin", program))
		require.NoError(t, err)
		here, err := filepath.Abs(repository)
		require.NoError(t, err)
		require.False(t, bytes.Contains(b, []byte(here+"/")), "%s knows where it was built", program)
	}
}

// TestTheImageTradesWithNothingElseInIt runs the image's programs in an otherwise empty root directory, as the
// image's user, with a database that requires a password.
func TestTheImageTradesWithNothingElseInIt(t *testing.T) {
	i := newImage(t)
	host, port, password := passwordDatabase(t)
	pgpass := filepath.Join(i.root, "pgpass")
	require.NoError(t,
		os.WriteFile(pgpass, []byte(strings.Join([]string{host, port, "trader", "trader", password}, ":")+"\n"), 0o644))
	env := []string{"OUTCRY_LISTEN=127.0.0.1:0", "OUTCRY_HTTP=127.0.0.1:0",
		fmt.Sprintf("DATABASE_URL=postgres://trader@%s:%s/trader?sslmode=disable&passfile=/pgpass", host, port)}

	server := i.command(t, env, "/usr/bin/outcryd")
	log, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	xml, http := addresses(t, log)

	ask := func(args ...string) string {
		return output(t, i.command(t, []string{"OUTCRY_ADDR=" + xml}, "/usr/bin/outcry", args...))
	}
	require.Equal(t, "account 1 opened\n", ask("account", "1", "1000"))
	require.Equal(t, "symbol SPY made\n", ask("symbol", "SPY"))
	require.Equal(t, "order 1 buys 2 SPY at 3\n", ask("buy", "1", "SPY", "2", "3"))

	health := []string{"OUTCRY_HTTP=" + http}
	check := strings.Split(strings.ReplaceAll(line(t, `HEALTHCHECK .* CMD \[(.*)\]`), `"`, ""), ", ")
	require.Equal(t, "ready\n", output(t, i.command(t, health, check[0], check[1:]...)))
	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	require.NoError(t, server.Wait())
	require.Error(t, i.command(t, health, check[0], check[1:]...).Run(), "it is down")

	owner := func(path string) uint32 {
		info, err := os.Stat(filepath.Join(i.root, path))
		require.NoError(t, err)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	require.Equal(t, i.user, owner("data/journal"))
	require.Zero(t, owner("usr/bin/outcryd"), "it cannot change itself")
}

func TestTheImageWithoutADatabaseSaysWhatIsMissing(t *testing.T) {
	i := newImage(t)
	// No database is named, and the proxy makes sure that none can be downloaded into /data.
	server := i.command(t, []string{"OUTCRY_LISTEN=127.0.0.1:0", "OUTCRY_HTTP=", "HTTPS_PROXY=http://127.0.0.1:1"},
		"/usr/bin/outcryd")
	out, err := server.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "--database-url")
}

// addresses reads a log up to the line with the message "ready", and returns the addresses in that line.
func addresses(t *testing.T, log io.Reader) (xml, http string) {
	t.Helper()
	buf, read := make([]byte, 4096), ""
	pattern := regexp.MustCompile(`"msg":"ready".*"xml":"([^"]*)".*"http":"([^"]*)".*\n`)
	for {
		n, err := log.Read(buf)
		read += string(buf[:n])
		if found := pattern.FindStringSubmatch(read); found != nil {
			go io.Copy(io.Discard, log)
			return found[1], found[2]
		}
		require.NoError(t, err, read)
	}
}
