package raftlog

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.etcd.io/raft/v3/raftpb"

	"outcry/internal/replica/core"
)

// writerEnv names the directory to which a child process of the test writes.
const writerEnv = "OUTCRY_TEST_RAFTLOG"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// writeUntilKilled writes entries one at a time, each with a vote for its index, and marks in between, and prints each
// one once it is written.
func writeUntilKilled(dir string) {
	l, d, err := Open(dir, Options{SegmentBytes: 4096, Found: mark(1, 1)})
	for index := d.Mark.Index + uint64(len(d.Entries)) + 1; err == nil; index++ {
		w := &core.Write{Entries: []*raftpb.Entry{entry(index, 1, 300)}, Hard: hard(index, 1, index), After: awaited}
		if index%7 == 0 {
			w.Mark = mark(index-1, 1)
		}
		if err = l.Write([]*core.Write{w}); err == nil {
			fmt.Println(index)
		}
	}
	fmt.Println("error", err)
	os.Exit(1)
}

// TestAKilledProcessLeavesWhatItSaid kills a process repeatedly during its writes. The next process continues with the
// files of the killed one, which must include all writes that it printed.
func TestAKilledProcessLeavesWhatItSaid(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	dir, said := t.TempDir(), uint64(1)
	for range 15 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), writerEnv+"="+dir)
		child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		for n := r.IntN(60); lines.Scan(); n-- {
			require.False(t, strings.HasPrefix(lines.Text(), "error"), lines.Text())
			if n == 0 {
				require.NoError(t, child.Process.Kill())
			}
			_, err := fmt.Sscan(lines.Text(), &said)
			require.NoError(t, err)
		}
		_ = child.Wait()
		_, d, err := openOnce(dir)
		require.NoError(t, err)
		last := d.Mark.Index + uint64(len(d.Entries))
		require.GreaterOrEqual(t, last, said)
		require.LessOrEqual(t, last, said+2)
		require.Equal(t, last, d.Hard.GetTerm(), "written together")
		require.Equal(t, last, d.Hard.GetCommit())
	}
	require.Greater(t, said, uint64(50))
}
