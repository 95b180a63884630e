//go:build autobahn && linux

package websocket

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// notForUs are the cases of the suite that need features that the server does not have: binary messages (1.2 and parts
// of 9, closed with 1003), and messages of more than 64 KiB (9, closed with 1009). The script omits the cases of
// compression.
var notForUs = []string{"1.2.*", "9.1.2", "9.1.3", "9.1.4", "9.1.5", "9.1.6", "9.2.*", "9.3.*", "9.4.*", "9.5.*",
	"9.6.*", "9.8.*"}

// casesMin is the minimum number of cases that must run. Fewer mean that the suite has changed.
const casesMin = 240

// TestAutobahn runs the cases of autobahntestsuite, an independent test suite, against an echo server. OUTCRY_PYTHON
// names a Python with the packages of .ci/autobahn.txt; if it is not set, python3 must have them.
func TestAutobahn(t *testing.T) {
	h := serving(t, Options{}, echo)
	python := os.Getenv("OUTCRY_PYTHON")
	if python == "" {
		python = "python3"
	}
	host, port, err := net.SplitHostPort(h.http.Listener.Addr().String())
	require.NoError(t, err)
	arguments := append([]string{"-B", "testdata/autobahn.py", host, port}, notForUs...)
	suite := exec.CommandContext(t.Context(), python, arguments...)
	suite.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	suite.Stderr = &said
	out, err := suite.Output()
	require.NoError(t, err, "%s", &said)
	var cases map[string]struct{ Behavior, BehaviorClose, Result string }
	require.NoError(t, json.Unmarshal(out, &cases))
	require.GreaterOrEqual(t, len(cases), casesMin)
	for name, came := range cases {
		// NON-STRICT: the server finds text that is not UTF-8 at the end of its message, not earlier.
		if !(came.Behavior == "OK" || came.Behavior == "INFORMATIONAL" ||
			came.Behavior == "NON-STRICT" && strings.HasPrefix(name, "6.4.")) ||
			!(came.BehaviorClose == "OK" || came.BehaviorClose == "INFORMATIONAL") {
			t.Errorf("case %s: %+v", name, came)
		}
	}
	t.Logf("%d cases", len(cases))
}
