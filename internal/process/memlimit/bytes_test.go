package memlimit

import (
	"flag"
	"io"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "7": 7, "1KiB": 1024, "512MiB": 512 << 20, "3 gib": 3 << 30,
		"8388607TiB": 8388607 << 40, "0x10": 16, "9223372036854775807": math.MaxInt64, "-8388608TiB": math.MinInt64} {
		n, err := ParseBytes(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
		again, err := ParseBytes(FormatBytes(n))
		require.NoError(t, err, text)
		require.Equal(t, n, again, text)
	}
	for _, text := range []string{"", "KiB", "1.5GiB", "1KB", "1K", "1kB", "one", "1 2KiB", "1MiBMiB", "5B"} {
		_, err := ParseBytes(text)
		require.ErrorContains(t, err, "must be a number of bytes, or of KiB", text)
	}
	for _, text := range []string{"9223372036854775808", "8388608TiB", "-8388609TiB", "99999999999999999999KiB"} {
		_, err := ParseBytes(text)
		require.ErrorContains(t, err, "must be at most", text)
	}
	require.Equal(t, "512MiB", FormatBytes(512<<20))
	require.Equal(t, "1025", FormatBytes(1025))
	require.Equal(t, "0", FormatBytes(0))
}

func TestASizeThatIsRefusedChangesNothing(t *testing.T) {
	f := flag.NewFlagSet("x", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	var n int
	BytesVar(f, &n, "n", 1<<20, "")
	require.Error(t, f.Parse([]string{"-n=8388608TiB"}))
	require.Equal(t, 1<<20, n)
	require.NoError(t, f.Parse([]string{"-n=2MiB"}))
	require.Equal(t, 2<<20, n)
	require.Equal(t, "1MiB", f.Lookup("n").DefValue)
}
