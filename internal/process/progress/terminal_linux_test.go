package progress

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestATerminalSaysHowWideItIs(t *testing.T) {
	t.Setenv("TERM", "xterm")
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer tty.Close()
	require.Equal(t, columnsStandard, columnsOf(tty), "the terminal reports no width")
	require.NoError(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 100}))
	require.Equal(t, 100, columnsOf(tty))
	t.Setenv("TERM", "dumb")
	require.Zero(t, columnsOf(tty))
}
