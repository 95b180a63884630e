package settings

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnAddressNeedsNoPort tries the forms of addresses that users type, and malformed ones.
func TestAnAddressNeedsNoPort(t *testing.T) {
	for text, want := range map[string]string{
		"localhost": "localhost:7", "localhost:8": "localhost:8", "127.0.0.1": "127.0.0.1:7", ":8": ":8",
		"[::1]": "[::1]:7", "[::1]:8": "[::1]:8", "[fe80::1%eth0]": "[fe80::1%eth0]:7", "[::]:0": "[::]:0",
		"my-host.example.org": "my-host.example.org:7", "localhost:http": "localhost:http",
	} {
		got, err := Address(text, "7")
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                   "must be HOST or HOST:PORT",
		"localhost:":         "the port after the colon is missing; without the colon it is 7",
		"[::1]:":             "the port after the colon is missing",
		":":                  "the port after the colon is missing",
		"::1":                "an IPv6 address must be in brackets, such as [::1] or [::1]:7",
		"::1:8":              "an IPv6 address must be in brackets",
		"1:2:3":              "an IPv6 address must be in brackets",
		"[::1":               "is not closed",
		"[::1]8":             "only a colon and the port may follow the bracket",
		"[localhost]:8":      "the brackets must contain an IPv6 address",
		"[]":                 "the brackets must contain an IPv6 address",
		"8":                  "that is a port without a host: write 127.0.0.1:8 for this machine",
		"localhost:99999":    "the port must be from 0 to 65535",
		"localhost:-1":       "the port must be from 0 to 65535",
		"localhost:no-port":  "the port must be from 0 to 65535",
		"http://localhost:8": "without the scheme in front",
		"localhost:8/x":      "no slashes",
		"local host":         "no blanks",
	} {
		_, err := Address(text, "7")
		require.ErrorContains(t, err, want, "%q", text)
	}
}

func TestTheServerListensOnItsOwnPortsUnlessOthersAreGiven(t *testing.T) {
	c, err := Parse([]string{"--listen=[::1]", "--http=localhost"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "[::1]:12345", c.Listen)
	require.Equal(t, "localhost:8080", c.HTTP)
	c, err = Parse([]string{"--http="}, io.Discard)
	require.NoError(t, err)
	require.Empty(t, c.HTTP, "none")
	t.Setenv("OUTCRY_HTTP", "::1")
	_, err = Parse(nil, io.Discard)
	require.EqualError(t, err,
		`OUTCRY_HTTP: --http "::1": an IPv6 address must be in brackets, such as [::1] or [::1]:8080`)
}

// Sizes may have units in the file, the environment and on the command line.
func TestSizesHaveUnits(t *testing.T) {
	file := writeFile(t, "outcryd.conf", "segment = 1 MiB\nmax-reply = 65536\nmemory-limit = 2GiB\n")
	t.Setenv("OUTCRY_MAX_FRAME", "64KiB")
	c, err := Parse([]string{"--config=" + file, "--max-memory=512MiB"}, io.Discard)
	require.NoError(t, err)
	require.EqualValues(t, 1<<20, c.SegmentBytes)
	require.Equal(t, 1<<16, c.ReplyBytesMax)
	require.Equal(t, 64<<10, c.FrameBytesMax)
	require.Equal(t, 512<<20, c.MemoryMax)
	text, err := c.MemoryLimit.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "2147483648", string(text))
	for flag, want := range map[string]string{
		"--max-memory=512MB":                "must be a number of bytes, or of KiB, MiB, GiB or TiB, such as 512MiB",
		"--max-memory=8388608TiB":           "must be at most 9223372036854775807 bytes",
		"--max-memory=99999999999999999999": "must be at most 9223372036854775807 bytes",
		"--max-memory=2048TiB":              "--max-memory 2251799813685248: must be from 1048576 to 1125899906842624",
		"--memory-limit=1KiB":               "must be auto, off, or from 67108864",
	} {
		_, err := Parse([]string{flag}, io.Discard)
		require.ErrorContains(t, err, want, flag)
	}
}
