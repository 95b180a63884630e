//go:build operations

package check

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"outcry/internal/testing/doctest"
)

// notRun is the number of blocks in each page that are not run here and give the reason.
var notRun = map[string]int{
	"README.md":                    1,
	"docs/GUIDE.md":                3,
	"docs/CLUSTER.md":              0,
	"docs/COURSES.md":              0,
	"docs/STRATEGIES.md":           0,
	"docs/OPERATIONS.md":           0,
	"docs/DEPLOYMENT.md":           0,
	"docs/reference/PROCEDURES.md": 0,
	"docs/reference/CONTAINERS.md": 5,
}

func TestBlocksThatAreNotRunAreFew(t *testing.T) {
	for path, want := range notRun {
		var skipped []string
		for _, part := range readPage(t, path).Parts {
			if part.Mode == doctest.Skip {
				skipped = append(skipped, part.About)
			}
		}
		require.Len(t, skipped, want, "%s: %s", path, strings.Join(skipped, "\n"))
	}
}

// modules and compiled are the directories of a test machine that have this machine's Go module and build caches.
const modules, compiled = "/srv/go-modules", "/srv/go-build"

// bootWithGo boots a machine with those caches, a copy of the files in git, and an empty home.
func bootWithGo(t *testing.T, folder string) machine {
	t.Helper()
	m := boot(t, goEnv(t, "GOMODCACHE"), modules, goEnv(t, "GOCACHE"), compiled)
	files := strings.Fields(output(t, command(t, "git", "-C", repository, "ls-files")))
	archive, err := exec.CommandContext(t.Context(), "tar", append([]string{"-C", repository, "-c"}, files...)...).Output()
	require.NoError(t, err)
	m.run("mkdir -p " + folder + " /srv/home")
	out, err := m.shell("tar -C "+folder+" -x", string(archive))
	require.NoError(t, err, out)
	return m
}

// TestTheReadme runs the commands of the README, and then those of the guide and of the pages for courses and
// strategies, which continue from there. It runs on a copy of the files in git, with an empty home, no network, and
// nothing but Go's module and build caches, which the machines share.
func TestTheReadme(t *testing.T) {
	t.Parallel()
	m := bootWithGo(t, "/srv/outcry")
	const dir = "cd /srv/outcry && "
	sh := m.openShell(10*time.Minute, "HOME=/srv/home", "PATH="+os.Getenv("PATH"), "GOPROXY=off", "GOTOOLCHAIN=local",
		"GOMODCACHE="+modules, "GOCACHE="+compiled, "GOFLAGS="+goEnv(t, "GOFLAGS"),
		"CGO_ENABLED="+goEnv(t, "CGO_ENABLED"))
	starts := func() error {
		_, _, err := sh.Run("until curl -sf http://127.0.0.1:8080/readyz; do sleep 0.1; done")
		return err
	}
	meanwhile := map[string]func() error{
		"the exchange starts": starts,
		"the exchange is stopped": func() error {
			m.run("pkill -TERM outcryd; while pgrep outcryd; do sleep 0.1; done")
			return nil
		},
		"a new terminal is opened": func() error {
			_, _, err := sh.Run("unset OUTCRY_DATA OUTCRY_TOKEN_FILE")
			return err
		},
	}
	_, _, err := sh.Run(dir + "true")
	require.NoError(t, err)
	for _, path := range []string{"README.md", "docs/GUIDE.md", "docs/COURSES.md", "docs/STRATEGIES.md"} {
		page := readPage(t, path)
		require.NoError(t, sh.Walk(t.Context(), page, page.Parts, meanwhile))
	}
}

// goEnv returns the value of a variable of go env.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(output(t, command(t, "go", "env", name)))
}
