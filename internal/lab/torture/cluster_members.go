package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"outcry/internal/lab/harness"
)

const (
	// refusedFor is how long an empty node that must not join is watched.
	refusedFor = time.Second
	// exitTimeout is how long a node that refuses its data may take to exit.
	exitTimeout = 20 * time.Second
)

// cluster runs `outcry cluster` with the addresses of all nodes. It retries while the command fails, since the
// leader may change.
func (c *cluster) cluster(ctx context.Context, args ...string) error {
	var http []string
	for _, n := range c.nodes {
		http = append(http, n.address+":"+httpPort)
	}
	args = append([]string{"cluster", args[0], "--http", strings.Join(http, ",")}, args[1:]...)
	var out []byte
	err := c.await(ctx, strings.Join(args, " "), 0, func() (bool, error) {
		var err error
		out, err = exec.CommandContext(ctx, c.client, args...).CombinedOutput()
		return err == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w; it says: %s", err, out)
	}
	return nil
}

// lose removes all data of a node: its disk and its Postgres.
func (n *node) lose(ctx context.Context) error {
	n.kill()
	if n.db != nil {
		n.db.Close(ctx)
		n.db = nil
	}
	if err := errors.Join(n.disk.Lose(diskBytes), n.pg.Stop(ctx)); err != nil {
		return err
	}
	if err := harness.RemoveAll(n.postgresDir()); err != nil {
		return err
	}
	n.lives++
	if err := os.MkdirAll(n.postgresDir(), 0o755); err != nil {
		return err
	}
	var err error
	n.pg, err = harness.StartPostgres(ctx, n.postgresDir())
	return err
}

// comeBack makes a node a member again after it has lost all its data.
func (c *cluster) comeBack(ctx context.Context, n *node, command string) error {
	if err := n.start("--join"); err != nil {
		return err
	}
	args := []string{command, fmt.Sprint(n.number)}
	if command == "add" {
		args = append(args, n.address+":"+peerPort)
	}
	if err := c.cluster(ctx, args...); err != nil {
		return err
	}
	return c.upToDate(ctx, n)
}

func (c *cluster) loseDisk(ctx context.Context) error {
	n := c.standbys()[0]
	if err := n.lose(ctx); err != nil {
		return err
	}
	if err := n.start(); err != nil { // without --join, as if the node still had its data
		return err
	}
	for end := time.Now().Add(refusedFor); time.Now().Before(end); {
		if v, err := n.look(ctx); err == nil && (v.Role == leads || v.Role == "standby" && v.Leader != 0) {
			return fmt.Errorf("node %d has lost its disk, but is accepted: %+v", n.number, v)
		}
		if err := wait(ctx, poll); err != nil {
			return err
		}
	}
	if err := n.lose(ctx); err != nil {
		return err
	}
	return c.comeBack(ctx, n, "replace")
}

func (c *cluster) loseKill(ctx context.Context) error {
	n := c.standbys()[0]
	if err := n.lose(ctx); err != nil {
		return err
	}
	killed := make(chan error, 1)
	go func() {
		time.Sleep(c.killAfter())
		c.leader.kill()
		killed <- c.leader.start() // a majority of three is needed
	}()
	err := c.comeBack(ctx, n, "replace")
	return errors.Join(err, <-killed)
}

// killAfter is how long the leader runs while another node catches up, before it is killed.
func (c *cluster) killAfter() time.Duration { return time.Duration(c.Seed%1000) * time.Millisecond }

func (c *cluster) removeAdd(ctx context.Context) error {
	n := c.standbys()[0]
	if err := c.cluster(ctx, "remove", fmt.Sprint(n.number)); err != nil {
		return err
	}
	if err := n.lose(ctx); err != nil {
		return err
	}
	return c.comeBack(ctx, n, "add")
}

func (c *cluster) flipByte(ctx context.Context) error {
	n := c.standbys()[0]
	n.kill()
	log := "journal"
	if c.Rand.IntN(2) == 0 {
		log = "raft"
	}
	if err := c.flip(filepath.Join(n.data(), log)); err != nil {
		return err
	}
	if err := n.start(); err != nil {
		return err
	}
	for end := time.Now().Add(exitTimeout); !n.server.Gone(); {
		if time.Now().After(end) {
			return fmt.Errorf("node %d runs although a byte of its %s is flipped; its log ends with:\n%s",
				n.number, log, n.server.LogTail())
		}
		if err := wait(ctx, poll); err != nil {
			return err
		}
	}
	if err := n.lose(ctx); err != nil {
		return err
	}
	return c.comeBack(ctx, n, "replace")
}

// flip changes a byte in the first half of a log's oldest segment.
func (c *cluster) flip(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("torture: no segment in %s: %w", dir, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	written := len(strings.TrimRight(string(b), "\x00"))
	b[c.Rand.IntN(written/2)] ^= 1 << c.Rand.IntN(8)
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		return fmt.Errorf("torture: %w", err)
	}
	return nil
}
