package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"outcry/internal/lab/harness"
	"outcry/internal/testing/processes"
)

// Ports of each node, on the node's own address.
const (
	xmlPort, httpPort, peerPort = "12345", "8080", "12350"
)

// node is one node of the cluster.
type node struct {
	c       *cluster
	number  int
	dir     string
	address string
	program string
	log     *os.File
	disk    *harness.Disk
	pg      *harness.Postgres
	server  *harness.Server
	lives   int    // how often the node has started without data
	thaw    func() // resumes a stopped process; nil if it is running
	db      *pgx.Conn
}

// certify makes the nodes' certificates for each other.
func (c *cluster) certify(ctx context.Context, root string) error {
	args := []string{c.peers()}
	for number := 1; number <= nodes; number++ {
		args = append(args, fmt.Sprintf("%d=%s", number, c.machines.Address(number)))
	}
	out, err := exec.CommandContext(ctx, filepath.Join(root, "deploy", "peers.sh"), args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("torture: certificates: %w: %s", err, out)
	}
	return nil
}

func (c *cluster) peers() string { return filepath.Join(c.Dir, "peers") }

// newNode starts the Postgres of a node. If it returns a node with an error, the caller must end the node.
func (c *cluster) newNode(ctx context.Context, number int, program string) (n *node, err error) {
	n = &node{c: c, number: number, address: c.machines.Address(number), program: program,
		dir: filepath.Join(c.Dir, fmt.Sprintf("node%d", number))}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	if n.log, err = os.Create(filepath.Join(c.Dir, fmt.Sprintf("node%d.log", number))); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	if n.disk, err = harness.NewDisk(n.data(), diskBytes); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(n.postgresDir(), 0o755); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	if n.pg, err = harness.StartPostgres(ctx, n.postgresDir()); err != nil {
		return nil, err
	}
	return n, nil
}

// postgresDir returns the directory of the node's current Postgres.
func (n *node) postgresDir() string { return filepath.Join(n.dir, fmt.Sprintf("life%d", n.lives)) }

// diskBytes is the size of a node's disk, which does not include its Postgres.
const diskBytes = 512 << 20

func (n *node) xml() string  { return n.address + ":" + xmlPort }
func (n *node) data() string { return filepath.Join(n.dir, "data") }

// start starts the server with additional flags. It does not wait until the server is ready.
func (n *node) start(flags ...string) (err error) {
	var peers []string
	for number := 1; number <= nodes; number++ {
		peers = append(peers, fmt.Sprintf("%d=%s:%s", number, n.c.machines.Address(number), peerPort))
	}
	file := func(name string) string { return filepath.Join(n.c.peers(), name) }
	n.server, err = harness.Launch(harness.ServerOptions{
		Program: n.program, Inside: n.c.machines.Inside(n.number), Data: n.data(), DatabaseURL: n.pg.URL(), Log: n.log,
		Flags: append(
			[]string{"--listen=" + n.xml(), "--http=" + n.address + ":" + httpPort, "--open", "--segment=1048576",
				"--closed-orders=1000", "--refs=200", "--stop-timeout=30s", fmt.Sprintf("--node=%d", n.number),
				"--peers=" + strings.Join(peers, ","), "--peer-ca=" + file("ca.pem"),
				"--peer-cert=" + file(
					fmt.Sprintf("%d.pem", n.number),
				), "--peer-key=" + file(fmt.Sprintf("%d.key", n.number))},
			flags...),
	})
	if err == nil {
		n.server.HTTP = n.address + ":" + httpPort
	}
	return err
}

// mend undoes everything that was done to the node.
func (n *node) mend(context.Context) error {
	n.pg.Slow(0)
	if err := n.disk.Clear(); err != nil {
		return err
	}
	if n.thaw != nil {
		n.thaw()
		n.thaw = nil
	}
	if n.server == nil || n.server.Gone() {
		return n.start()
	}
	return nil
}

// freeze stops the server's process with a signal.
func (n *node) freeze() {
	thaw, _ := processes.Freeze(n.server.Pid())
	n.thaw = thaw
}

// stop stops the server in order.
func (n *node) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	return n.server.Stop(ctx)
}

// verify runs outcry verify on a stopped node and returns the digest.
func (n *node) verify(ctx context.Context, client string) (digest string, err error) {
	out, err := exec.CommandContext(ctx, client, "verify", "--database-url", n.pg.DirectURL(), n.data()).
		CombinedOutput()
	_, digest, ok := strings.Cut(string(out), ", digest ")
	if err != nil || !ok {
		return "", fmt.Errorf("outcry verify of node %d: %w: %s", n.number, err, out)
	}
	return strings.TrimSpace(digest), nil
}

// end ends all processes and connections of the node.
func (n *node) end() error {
	if n.thaw != nil {
		n.thaw()
	}
	if n.db != nil {
		n.db.Close(context.Background())
	}
	if n.server != nil {
		n.server.Kill()
	}
	n.log.Close()
	if err := n.disk.Close(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), agreeTimeout)
	defer cancel()
	return n.pg.Stop(ctx)
}

// view is a node's view of the cluster: a part of GET /api/v1/cluster.
type view struct {
	Node      uint64 `json:"node"`
	Role      string `json:"role"`
	Leader    uint64 `json:"leader"`
	Term      uint64 `json:"term"`
	Seq       uint64 `json:"seq"`
	Digest    string `json:"digest"`
	DigestSeq uint64 `json:"digest_seq"`
}

// viewTimeout is the timeout of a request to a node that may be frozen.
const viewTimeout = 2 * time.Second

// look returns the node's view.
func (n *node) look(ctx context.Context) (v view, err error) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	status, body, err := n.server.Ask(ctx, http.MethodGet, "/api/v1/cluster", "", "")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("node %d answers %d: %s", n.number, status, body)
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &v)
	}
	return v, err
}

// tables returns a direct connection to the node's database, without the proxy.
func (n *node) tables(ctx context.Context) (_ *pgx.Conn, err error) {
	if n.db == nil || n.db.IsClosed() || n.db.Ping(ctx) != nil {
		n.db, err = pgx.Connect(ctx, n.pg.DirectURL())
	}
	return n.db, err
}

// kill kills the server, as in a crash.
func (n *node) kill() { n.server.Kill() }

// signal sends a signal to the server's process.
func (n *node) signal(s syscall.Signal) error {
	err := syscall.Kill(n.server.Pid(), s)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
