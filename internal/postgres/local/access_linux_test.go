package local

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAUserWithoutANameIsRefused, because Postgres would not let such a user connect.
func TestAUserWithoutANameIsRefused(t *testing.T) {
	nameless := &syscall.SysProcAttr{UidMappings: []syscall.SysProcIDMap{{ContainerID: 1_999_999_999}}}
	_, err := (&Cluster{as: nameless}).users()
	require.ErrorContains(t, err, "user 1999999999 has no name on this machine")
}
