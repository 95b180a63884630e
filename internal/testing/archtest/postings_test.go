package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyFollowersUsePostings checks that only Postgres's batch and the view of accounts use Event.Postings or
// Event.Posting. The ledger, replay, and the model and the audit of the lab compute balances independently, and so do
// the tests that compare these with the tables and the views. So a single mistake cannot be on both sides of a
// comparison.
func TestOnlyFollowersUsePostings(t *testing.T) {
	var users []string
	for _, top := range []string{"clients", "cmd", "internal", "loadtest"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			if s := string(text); strings.Contains(s, ".Postings"+"()") || strings.Contains(s, ".Posting"+"(") {
				path, err = filepath.Rel(root, path)
				users = append(users, filepath.ToSlash(path))
			}
			return err
		})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"internal/exchange/postings.go", "internal/exchange/postings_test.go",
		"internal/postgres/batch.go", "internal/view/accounts/apply.go"}, users)
}
