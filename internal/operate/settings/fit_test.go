package settings

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConnectionsAreWhatTheLimitOfOpenFilesLeaves(t *testing.T) {
	const reserve = DescriptorReserve
	for _, c := range []struct {
		files     uint64
		http      string
		xml, over int
		lowered   bool
	}{
		{1 << 20, ":1", 16384, 4096, false}, {16384 + 4096 + reserve, ":1", 16384, 4096, false}, {16384 + 4096 + reserve - 1,
			":1", 16383, 4095, true},
		{reserve + 40, ":1", 32, 8, true}, {reserve + 40, "", 40, 0, true}, {reserve, ":1", 1, 1, true}, {0, ":1", 1, 1,
			true}, {16384 + reserve, "", 16384, 0, false},
	} {
		b := (&Config{ConnectionsMax: 16384, HTTPConnectionsMax: 4096, HTTP: c.http}).connectionsWithin(c.files)
		require.Equal(t, ConnectionBounds{c.xml, c.over, c.files, c.lowered}, b)
	}
}
