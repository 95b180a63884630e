package durable_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/journal/durable"
)

// TestTheKernelIsAsked syncs files that cannot be synced: the expected errors can only come from the kernel.
func TestTheKernelIsAsked(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.ErrorIs(t, durable.File(w), syscall.EINVAL)
	require.ErrorIs(t, durable.Data(w), syscall.EINVAL)
	err = durable.Dir("/proc")
	require.ErrorIs(t, err, syscall.EINVAL)
	require.ErrorContains(t, err, "/proc")
}
