//go:build release

package release

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"outcry/internal/process/version"
)

// commit returns the commit that is checked out.
func commit(t *testing.T) string {
	return strings.TrimSpace(output(t, repository, nil, "git", "rev-parse", "HEAD"))
}

// copyTree copies all files that are in git, or would be added, to a new folder, except those that match the pattern
// not. It returns the folder.
func copyTree(t *testing.T, not string) string {
	t.Helper()
	dir := t.TempDir()
	output(t, repository, nil, "bash", "-c", `set -o pipefail; git ls-files -z --cached --others --exclude-standard |
		grep -zv -e "$2" | tar -c --null -T - | tar -x -C "$1"`, "-", dir, not)
	return dir
}

// TestArchivesHaveTheLicensesOfWhatIsLinkedIn reads the list of linked modules from the programs themselves.
func TestArchivesHaveTheLicensesOfWhatIsLinkedIn(t *testing.T) {
	folders := map[string]string{} // folders by module and version
	for _, line := range strings.Split(strings.TrimSpace(
		output(t, repository, nil, "go", "list", "-m", "-f", "{{.Path}} {{.Version}}={{.Dir}}", "all")), "\n") {
		module, folder, _ := strings.Cut(line, "=")
		folders[module] = folder
	}
	license := regexp.MustCompile(`(?i)^(licen[sc]e|copying|notice|patents)(\.\w+)?$`)
	for _, target := range targets() {
		text, err := os.ReadFile(filepath.Join(archive(target), "THIRD-PARTY-LICENSES"))
		require.NoError(t, err)
		has := func(name, folder string) {
			t.Helper()
			files, err := os.ReadDir(folder)
			require.NoError(t, err)
			texts := 0
			for _, file := range files {
				if !license.MatchString(file.Name()) || strings.HasSuffix(file.Name(), ".go") {
					continue
				}
				b, err := os.ReadFile(filepath.Join(folder, file.Name()))
				require.NoError(t, err)
				for _, part := range []string{"\n" + name + ": " + file.Name() + "\n", string(b)} {
					require.True(t, bytes.Contains(text, []byte(part)), "%s does not have the %s of %s", target, file.Name(), name)
				}
				texts++
			}
			require.Positive(t, texts, "%s has no license in %s", name, folder)
		}
		for _, program := range []string{"outcryd", "outcry"} {
			info, err := buildinfo.ReadFile(filepath.Join(archive(target), program))
			require.NoError(t, err)
			require.NotEmpty(t, info.Deps)
			for _, linked := range info.Deps {
				has(linked.Path+" "+linked.Version, folders[linked.Path+" "+linked.Version])
			}
			has("Go "+info.GoVersion, strings.TrimSpace(output(t, repository, nil, "go", "env", "GOROOT")))
		}
		has("internal/door/web/page/vendor/uplot", filepath.Join(repository, "internal/door/web/page/vendor/uplot"))
		own, err := os.ReadFile(filepath.Join(repository, "LICENSE"))
		require.NoError(t, err)
		packed, err := os.ReadFile(filepath.Join(archive(target), "LICENSE"))
		require.NoError(t, err)
		require.Equal(t, string(own), string(packed))
	}
}

// TestProgramsTellTheirCommitHoweverTheyWereBuilt builds the programs in each way that needs no module proxy.
func TestProgramsTellTheirCommitHoweverTheyWereBuilt(t *testing.T) {
	head := commit(t)
	is := "^outcry[d]? " + regexp.QuoteMeta(version.Number) + " commit " + head
	for _, program := range []string{"outcry version", "outcryd --version"} {
		require.Regexp(t, is, output(t, archive("linux/amd64"), nil, "sh", "-c", "./"+program))
	}
	clone, source := t.TempDir(), t.TempDir()
	here, err := filepath.Abs(repository)
	require.NoError(t, err)
	output(t, here, nil, "git", "clone", "--quiet", "--depth=1", "file://"+here, clone)
	output(t, clone, nil, "go", "build", "-trimpath", "-buildvcs=true", "-o", "outcry-built", "./cmd/outcry")
	require.Regexp(t, is+" go", output(t, clone, nil, "./outcry-built", "version"))
	output(t, repository, nil, "sh", "-c", "git archive HEAD | tar -x -C "+source)
	output(t, source, nil, "go", "build", "-trimpath", "-buildvcs=false", "-o", "outcry-built", "./cmd/outcry")
	require.Regexp(t, is+" go", output(t, source, nil, "./outcry-built", "version"))
}

// TestEverythingCompilesForDarwin vets everything for darwin except the tests, which only run on Linux.
func TestEverythingCompilesForDarwin(t *testing.T) {
	dir := copyTree(t, "_test[.]go$")
	output(t, dir, []string{"GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0",
		"GOFLAGS=" + os.Getenv("GOFLAGS") + " -trimpath -buildvcs=false"}, "go", "vet", "./...")
}

// TestTheModuleCanHaveAnotherPath changes the module's path, as someone who publishes it would, and imports the
// client from another module.
func TestTheModuleCanHaveAnotherPath(t *testing.T) {
	const path = "example.org/outcry"
	dir, foreign := copyTree(t, "^$"), t.TempDir()
	for _, wrong := range []string{"", "outcry", "example.org", "example.org/", "/outcry", "example.org/a b",
		"example.org/x/v2"} {
		before, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		require.NoError(t, err)
		out, err := exec.Command("make", "-C", dir, "module", "PATH="+wrong).CombinedOutput()
		require.Error(t, err, wrong)
		require.Contains(t, string(out), `not "`+wrong+`"`)
		after, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	}
	output(t, dir, nil, "make", "module", "PATH="+path)
	require.Empty(t, output(t, dir, nil, "gofmt", "-l", "."))
	left := exec.Command("grep", "-rlE", `"outcry/(clients|cmd|deploy|docs|internal|loadtest|migrations)/`,
		"--include=*.go", "--include=*.md", dir)
	out, err := left.Output()
	require.Error(t, err, "%s", out)
	env := []string{"GOFLAGS=" + os.Getenv("GOFLAGS") + " -trimpath -buildvcs=false", "GOPROXY=off"}
	output(t, dir, env, "go", "build", "./clients/...")
	if !testing.Short() { // this compiles everything once more
		output(t, dir, env, "make", "binaries", "OUT=made", "COMMIT=0123456789")
		require.Contains(t, output(t, dir, nil, "made/outcry", "version"), version.Number+" commit 0123456789 ")
	}

	program, err := os.ReadFile(filepath.Join(dir, "clients/go/client/README.md"))
	require.NoError(t, err)
	code := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(program)
	require.NotNil(t, code)
	require.NoError(t, os.WriteFile(filepath.Join(foreign, "main.go"), code[1], 0o600))
	env = append(env, "GOMODCACHE="+t.TempDir(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -mod=mod")
	output(t, foreign, env, "go", "mod", "init", "example.com/trader")
	output(t, foreign, env, "go", "mod", "edit", "-replace", path+"="+dir, "-require", path+"@v0.0.0")
	output(t, foreign, env, "go", "build", "-o", "trader")
	require.Contains(t, output(t, foreign, nil, "go", "version", "-m", "trader"), path)
}
