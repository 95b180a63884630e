package processes

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	waitMax  = time.Minute
	waitPoll = time.Millisecond
)

func TestUsageIsOfTheProcess(t *testing.T) {
	before, err := Of(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, before.Resident, int64(1<<20))
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	after, err := Of(os.Getpid())
	require.NoError(t, err)
	require.Greater(t, after.Files, before.Files)
	require.GreaterOrEqual(t, FamilyCPU(os.Getpid()), after.CPU)
	_, err = Of(1 << 30)
	require.ErrorContains(t, err, "processes:")
}

// The test stops and continues a shell and its child. The state of a stopped process is T.
func TestAFrozenFamilyStandsStill(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var child int
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	_, err = fmt.Sscan(line, &child)
	require.NoError(t, err)
	sleep, err := os.FindProcess(child)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = sleep.Kill()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	stopped := func() (all bool) {
		for _, pid := range []int{cmd.Process.Pid, child} {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			require.NoError(t, err)
			if !strings.Contains(string(b), ") T ") {
				return false
			}
		}
		return true
	}
	thaw, n := Freeze(cmd.Process.Pid)
	require.Equal(t, 2, n)
	require.Eventually(t, stopped, waitMax, waitPoll)
	thaw()
	require.Eventually(t, func() bool { return !stopped() }, waitMax, waitPoll)
	_, n = Freeze(0)
	require.Zero(t, n, "a process that has ended has no family")
}
