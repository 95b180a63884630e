package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/operate/backup"
	"outcry/internal/operate/remote"
	"outcry/internal/testing/budget"
	"outcry/internal/testing/exchangetest"
)

// memberProcess is an outcryd that runs as a node of a cluster.
type memberProcess struct {
	exchangetest.Process
	number         int
	peer           string
	data, database string
	output         *output
}

// output collects the output of a process.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// freeAddress returns an address with a free port below the range that the kernel assigns.
func freeAddress(t *testing.T) string {
	t.Helper()
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		if l, err := net.Listen("tcp", address); err == nil {
			require.NoError(t, l.Close())
			return address
		}
	}
}

// launch starts the node with itself and others as the peers.
func (m *memberProcess) launch(t *testing.T, peers ...*memberProcess) {
	t.Helper()
	var list []string
	for _, p := range peers {
		list = append(list, fmt.Sprintf("%d=%s", p.number, p.peer))
	}
	m.output = &output{}
	m.Cmd = exec.Command(exchangetest.Server(t), "--data="+m.data, "--listen="+m.Addr, "--http="+m.Http,
		"--database-url="+m.database, "--segment=65536", fmt.Sprintf("--node=%d", m.number),
		"--peers="+strings.Join(list, ","))
	m.Cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	m.Cmd.Stdout, m.Cmd.Stderr = m.output, m.output
	require.NoError(t, m.Cmd.Start())
	t.Cleanup(m.kill)
}

// kill kills the node and waits for it.
func (m *memberProcess) kill() {
	_ = m.Cmd.Process.Kill()
	_ = m.Cmd.Wait()
}

// view returns the node's view of its cluster, or the zero value if the node does not answer.
func (m *memberProcess) view() (c remote.Cluster) {
	r, err := http.Get("http://" + m.Http + "/api/v1/cluster")
	if err != nil {
		return c
	}
	defer r.Body.Close()
	_ = json.NewDecoder(r.Body).Decode(&c)
	return c
}

// leader waits until one of the nodes leads and the others follow it, and returns the leader.
func leader(t *testing.T, nodes ...*memberProcess) (leads *memberProcess) {
	t.Helper()
	require.Eventually(t, func() bool {
		follow := 0
		for _, m := range nodes {
			switch m.view().Role {
			case remote.RoleLeader:
				leads = m
			case remote.RoleStandby:
				follow++
			}
		}
		return leads != nil && follow == len(nodes)-1
	}, time.Minute, 10*time.Millisecond, "nobody leads: %s", nodes[0].output)
	return leads
}

// TestANodeIsVerifiedBackedUpAndRescued verifies and backs up each node of a cluster while two clients trade. Then all
// nodes but one are lost. That node continues alone, and finally as a server without a cluster, with its complete
// history.
func TestANodeIsVerifiedBackedUpAndRescued(t *testing.T) {
	budget.SkipUnlessFull(t, "the commands of docs/CLUSTER.md")
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	exchangetest.Start(t, t.TempDir(), exchangetest.NewTables(t)).Stop() // only to build the program
	var nodes []*memberProcess
	for i := range 3 {
		m := &memberProcess{number: i + 1, peer: freeAddress(t), data: t.TempDir(), database: exchangetest.NewTables(t)}
		m.T, m.Addr, m.Http = t, freeAddress(t), freeAddress(t)
		nodes = append(nodes, m)
	}
	for _, m := range nodes {
		m.launch(t, nodes...)
	}
	leads := leader(t, nodes...)
	openMarket(t, &leads.Process)
	answered, stop := load(t, &leads.Process, seed)
	require.Eventually(t, func() bool { return answered.Load() > 50 }, time.Minute, time.Millisecond)
	for _, m := range nodes {
		then := answered.Load()
		stateOf(t, must(t, "verify", "--live", "--database-url="+m.database, m.data))
		file := filepath.Join(t.TempDir(), "backup")
		must(t, "backup", "--data="+m.data, "--database-url="+m.database, file)
		_, _, err := backup.CheckFile(file)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return answered.Load() > then }, time.Minute, time.Millisecond, "clients trade")
	}
	stop()
	last := leads.view().Seq
	rescued := nodes[leads.number%3] // a former follower
	require.Eventually(t, func() bool { return rescued.view().Seq >= last }, time.Minute, time.Millisecond)
	refused(t, "the node must not be running", "cluster", "rescue", fmt.Sprint(rescued.number), rescued.data)
	for _, m := range nodes {
		m.kill()
	}
	refused(t, fmt.Sprintf("is node %d's, not node %d's", rescued.number, leads.number),
		"cluster", "rescue", fmt.Sprint(leads.number), rescued.data)
	stdout := must(t, "cluster", "rescue", fmt.Sprint(rescued.number), rescued.data)
	require.Contains(t, stdout, fmt.Sprintf("as of record %d;", last))
	require.Contains(t, stdout, fmt.Sprintf("--peers %d=%s", rescued.number, rescued.peer))
	require.Contains(t, stdout, filepath.Join(rescued.data, "raft.aside-1"))

	rescued.launch(t, rescued)
	leader(t, rescued)
	trade(t, &rescued.Process, rand.New(rand.NewPCG(seed, 9)), 5)
	stateOf(t, must(t, "verify", "--live", "--database-url="+rescued.database, rescued.data))
	more := rescued.view().Seq
	require.Greater(t, more, last, "%s", rescued.output)
	rescued.kill()

	stdout = must(t, "cluster", "rescue", "--alone", fmt.Sprint(rescued.number), rescued.data)
	require.Contains(t, stdout, fmt.Sprintf("as of record %d;", more))
	alone := exchangetest.Start(t, rescued.data, rescued.database)
	trade(t, alone, rand.New(rand.NewPCG(seed, 10)), 5)
	end := alone.Stop()
	require.Greater(t, end.Seq, more)
	seq, digest := stateOf(t, must(t, "verify", "--database-url="+rescued.database, rescued.data))
	require.Equal(t, []string{fmt.Sprint(end.Seq), end.Digest}, []string{seq, digest})
}
