package settings

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const three = "1=127.0.0.1:7001,2=127.0.0.1:7002,3=localhost:7003"

func TestPeersOfAClusterAreReadInTheOrderOfTheirNumbers(t *testing.T) {
	c, err := Parse([]string{"--node=2", "--peers=3=[::1]:7003, 1=127.0.0.1:7001,2=127.0.0.1:7002"}, io.Discard)
	require.NoError(t, err)
	require.True(t, c.Clustered())
	require.Equal(t, Peers{1: "127.0.0.1:7001", 2: "127.0.0.1:7002", 3: "[::1]:7003"}, c.Peers)
	require.Equal(t, "1=127.0.0.1:7001,2=127.0.0.1:7002,3=[::1]:7003", c.peersText())
	require.Empty(t, c.Warnings)

	alone, err := Parse(nil, io.Discard)
	require.NoError(t, err)
	require.False(t, alone.Clustered())
}

func TestSettingsThatMakeNoClusterAreRefused(t *testing.T) {
	for _, test := range []struct{ flags, wrong string }{
		{"--node=1", "--node 1: --peers is needed as well"},
		{"--peers=" + three, "--node is needed as well"},
		{"--node=4 --peers=" + three, "--node 4: is not in --peers 1=127.0.0.1:7001,2=127.0.0.1:7002,3=localhost:7003"},
		{"--node=1 --peers=1=127.0.0.1:7001,1=127.0.0.1:7002", `"1=127.0.0.1:7002": node 1 is named twice`},
		{"--node=1 --peers=1=127.0.0.1:7001,2=127.0.0.1:7001", "this is also the address of node 1"},
		{"--node=1 --peers=0=127.0.0.1:7001", `"0=127.0.0.1:7001": must be N=HOST:PORT, with N from 1 to 65536`},
		{"--node=1 --peers=01=127.0.0.1:7001", "must be N=HOST:PORT"},
		{"--node=1 --peers=127.0.0.1:7001", "must be N=HOST:PORT"},
		{"--node=1 --peers=1=127.0.0.1", "the port is missing"},
		{"--node=1 --peers=1=:7001", "the host is missing"},
		{"--node=1 --peers=1=127.0.0.1:7001,", `"": must be N=HOST:PORT`},
		{"--node=1 --peers=1=10.0.0.1:7001", "--peers 1=10.0.0.1:7001: is beyond this machine, so nodes need certificates"},
		{"--node=1 --peers=1=one.example:7001", "so nodes need certificates"},
		{"--node=1 --peer-cert=c --peers=" + three, "all three are needed, or none"},
		{"--node=1 --ack=postgres --peers=" + three, `--ack "postgres": in a cluster a reply waits for a majority`},
		{"--node=1 --segment=128MiB --peers=" + three, "--segment 134217728: must be at most 67108864 in a cluster"},
		{"--peer-ca=c", "--peer-ca \"c\": is for a node of a cluster"},
		{"--advertise-http=one", "is for a node of a cluster"},
	} {
		_, err := Parse(strings.Fields(test.flags), io.Discard)
		require.ErrorContains(t, err, test.wrong, test.flags)
	}
	_, err := Parse([]string{"--node=1", "--peers=1=one.example:7001", "--peer-cert=c", "--peer-key=k", "--peer-ca=a"},
		io.Discard)
	require.NoError(t, err, "with certificates, nodes may be on other machines")
}

func TestAnEvenNumberOfNodesIsWarnedOf(t *testing.T) {
	c, err := Parse([]string{"--node=1", "--peers=1=127.0.0.1:7001,2=127.0.0.1:7002"}, io.Discard)
	require.NoError(t, err)
	require.Len(t, c.Warnings, 1)
	require.Contains(t, c.Warnings[0], "3 or 5 are best")
}
