package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Changed is the suffix of a revision if files differ from it.
const Changed = " with changes"

// Revision returns the checked-out commit, with the suffix Changed if files outside docs differ from it.
// It returns "unknown" if git fails.
func Revision(ctx context.Context, root string) string {
	git := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := git("rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "unknown"
	}
	if changes, err := git("status", "--porcelain", "--", ":/", ":(top,exclude)docs"); err != nil || changes != "" {
		return commit + Changed
	}
	return commit
}

// Commit returns the full hash of a revision's commit. The error, which quotes git, means that there is no git, that
// root is in no repository, or that the repository does not have the revision, as a shallow clone may not.
func Commit(ctx context.Context, root, revision string) (string, error) {
	// A revision that begins with - is not an option.
	args := []string{"-C", root, "rev-parse", "--verify", "--end-of-options", revision + "^{commit}"}
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "", fmt.Errorf("harness: find revision %s: %w", revision, withStderr(err))
	}
	return strings.TrimSpace(string(out)), nil
}

// BuildCommit does the same as Build with the source files of a commit. The files go to a directory below dir, and the
// repository is not changed.
func BuildCommit(ctx context.Context, root, commit, command, dir string) (string, error) {
	source, packed := filepath.Join(dir, "source"), filepath.Join(dir, "source.tar")
	if err := os.MkdirAll(source, 0o755); err != nil {
		return "", fmt.Errorf("harness: build %s: %w", commit, err)
	}
	for _, args := range [][]string{{"git", "-C", root, "archive", "--format=tar", "--output", packed, commit},
		{"tar", "-xf", packed, "-C", source}} {
		if _, err := exec.CommandContext(ctx, args[0], args[1:]...).Output(); err != nil {
			return "", fmt.Errorf("harness: build %s: %s: %w", commit, args[0], withStderr(err))
		}
	}
	return Build(ctx, source, command, dir)
}
