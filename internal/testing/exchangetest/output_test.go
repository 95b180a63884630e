//go:build linux

package exchangetest

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// failing is a test that records whether it failed.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

// TestOutputIsReadToItsEnd checks that everything that a process has written can still be read after it has ended.
func TestOutputIsReadToItsEnd(t *testing.T) {
	o, ended := newOutput(strings.NewReader("one\ntwo\n"))
	<-ended
	b, err := io.ReadAll(o)
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(b))
}

// TestADataRaceOfAProcessFailsItsTest checks that a report of the race detector fails the test, and another log
// line does not.
func TestADataRaceOfAProcessFailsItsTest(t *testing.T) {
	var f failing
	ReportRaces(&f, []byte("a line\n"))
	require.False(t, f.failed)
	ReportRaces(&f, []byte("a line\n==================\nWARNING: "+"DATA RACE\n"))
	require.True(t, f.failed)
}
