package class

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAClassOfAnotherUsersExchange: a user who may not read the directory gets an error that names its owner.
func TestAClassOfAnotherUsersExchange(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.MkdirAll(filepath.Join(data, "journal"), 0o700))
	denied := &os.PathError{Op: "open", Path: filepath.Join(data, "tokens.lock"), Err: os.ErrPermission}
	me, err := user.Current()
	require.NoError(t, err)
	err = ofAnother(data, fmt.Errorf("auth: %w", denied))
	require.EqualError(t, err, fmt.Sprintf("auth: open %s: permission denied; run this as the user of the exchange, %s",
		denied.Path, me.Username))
	require.Equal(t, os.ErrExist, ofAnother(data, os.ErrExist))
	require.NoError(t, ofAnother(data, nil))
}
