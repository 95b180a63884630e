package memlimit

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

// files is a machine with the given files.
type files map[string]string

func (f files) read(path string) ([]byte, error) {
	if text, ok := f[path]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

func TestTheLeastOfMachineAndControlGroupsIsWhatThereIs(t *testing.T) {
	const mem, self = "/proc/meminfo", "/proc/self/cgroup"
	for name, c := range map[string]struct {
		files files
		bytes uint64
		of    string
	}{
		"no control group": {files{mem: "MemTotal: 8 kB\n"}, 8192, "of the machine"},
		"no limit": {files{mem: "MemTotal: 8 kB\n", self: "0::/a\n", "/sys/fs/cgroup/a/memory.max": "max\n"}, 8192,
			"of the machine"},
		"version 2": {files{mem: "MemTotal: 8 kB\n", self: "0::/a/b\n", "/sys/fs/cgroup/a/b/memory.max": "4096\n"},
			4096, "of the control group"},
		"one above": {files{mem: "MemTotal: 8 kB\n", self: "0::/a/b\n", "/sys/fs/cgroup/a/memory.max": "5\n",
			"/sys/fs/cgroup/a/b/memory.max": "6"}, 5, "of the control group"},
		"more than there is": {files{mem: "MemTotal: 8 kB\n", self: "5:cpu:/x\n4:memory:/a\n",
			"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n"},
			8192, "of the machine"},
		"version 1": {files{mem: "MemTotal: 8 kB\n", self: "5:cpu:/x\n4:hugetlb,memory:/a\n0::/\n",
			"/sys/fs/cgroup/memory/a/memory.limit_in_bytes": "7\n"}, 7, "of the control group"},
		"version 1 in a container": {files{mem: "MemTotal: 8 kB\n", self: "4:memory:/docker/1\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "7\n"},
			7, "of the control group"},
	} {
		t.Run(name, func(t *testing.T) {
			bytes, of, err := Available(c.files.read)
			require.NoError(t, err)
			require.Equal(t, c.bytes, bytes)
			require.Equal(t, c.of, of)
		})
	}
	for _, text := range []string{"?", "MemTotal: 0 kB"} {
		_, _, err := Available(files{mem: text}.read)
		require.ErrorContains(t, err, mem)
	}
	_, _, err := Available(files{}.read)
	require.Error(t, err)
}

func TestALimitIsGivenOrFollowsTheMachine(t *testing.T) {
	machine := files{"/proc/meminfo": "MemTotal: 10240 kB\n"}
	for text, want := range map[string]int64{"auto": 8 << 20, "off": 0, "0": 0, "67108864": 64 << 20} {
		var l Limit
		require.NoError(t, l.UnmarshalText([]byte(text)))
		bytes, _ := l.Bytes(machine.read)
		require.Equal(t, want, bytes, text)
		again, err := l.MarshalText()
		require.NoError(t, err)
		var same Limit
		require.NoError(t, same.UnmarshalText(again))
		require.Equal(t, l, same)
	}
	for _, text := range []string{"", "1", "-5", "1e9", "2000000000000000"} {
		require.ErrorContains(t, new(Limit).UnmarshalText([]byte(text)), "must be auto, off, or from 67108864")
	}
	bytes, _ := Limit{}.Bytes(files{}.read)
	require.Zero(t, bytes, "there is no limit if the memory is unknown")
}

func TestBoundsThatDoNotFitAreSaid(t *testing.T) {
	n := Needs{OpenOrders: 10, Accounts: 10, Symbols: 10, Large: 1000}
	require.EqualValues(t, 2800+1600+20480+2000, n.Bytes())
	require.Empty(t, n.Excess(n.Bytes(), ""))
	require.Empty(t, n.Excess(0, ""), "no limit")
	require.Contains(t, n.Excess(n.Bytes()-1, "the limit"),
		"--max-open-orders 10, --max-accounts 10, --max-symbols 10 and twice --max-memory 1000 need 0 MiB together, "+
			"and the limit is 0 MiB")
}
