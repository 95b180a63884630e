package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"outcry/internal/lab/harness"
)

// statefulSet has the fields of Kubernetes' objects that the tests read.
type statefulSet struct {
	Spec struct {
		Template struct {
			Spec struct {
				Containers []struct {
					Name string
					Env  []struct{ Name, Value string }
				}
			}
		}
	}
}

// nodeVariables returns the environment of a node in Kubernetes.
func nodeVariables(t *testing.T, node int) (environment []string) {
	t.Helper()
	b, err := os.ReadFile("kubernetes/outcry.yaml")
	require.NoError(t, err)
	objects := yaml.NewDecoder(bytes.NewReader(b))
	for {
		var o statefulSet
		err := objects.Decode(&o)
		if errors.Is(err, io.EOF) {
			return environment
		}
		require.NoError(t, err)
		for _, c := range o.Spec.Template.Spec.Containers {
			require.Equal(t, "outcryd", c.Name)
			for _, v := range c.Env {
				if v.Name == "OUTCRY_NODE" {
					v.Value = strconv.Itoa(node) // in Kubernetes it comes from a label of the pod
				}
				environment = append(environment, v.Name+"="+strings.ReplaceAll(v.Value, "$(OUTCRY_NODE)", strconv.Itoa(node)))
			}
		}
	}
}

// TestTheServerTakesTheSettingsOfKubernetes lets the server check each node's environment together with the image's,
// and with certificates made by peers.sh.
func TestTheServerTakesTheSettingsOfKubernetes(t *testing.T) {
	dir := t.TempDir()
	root, err := harness.Root(t.Context())
	require.NoError(t, err)
	program, err := harness.Build(t.Context(), root, "./cmd/outcryd", dir)
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "./peers.sh", dir, "1=outcry-1.outcry", "2=outcry-2.outcry",
		"3=outcry-3.outcry").CombinedOutput()
	require.NoError(t, err, string(out))
	for node := 1; node <= 3; node++ {
		environment := nodeVariables(t, node)
		require.Greater(t, len(environment), 10)
		check := exec.CommandContext(t.Context(), program, "--check-config")
		check.Env = []string{"OUTCRY_DATA=" + filepath.Join(dir, "data"), "OUTCRY_LISTEN=:12345", "OUTCRY_HTTP=:8080"}
		for _, v := range environment {
			check.Env = append(check.Env, strings.Replace(v, "/etc/outcry/peers", dir, 1))
		}
		out, err := check.CombinedOutput()
		require.NoError(t, err, string(out))
		for _, v := range environment {
			if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OUTCRY_") {
				require.Contains(t, string(out), "# "+name+"\n", "no such setting")
			}
		}
	}
}

// TestCertificatesOfPeersAreMadeWholeOrNot requests certificates that cannot be made; no file is left.
func TestCertificatesOfPeersAreMadeWholeOrNot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "peers")
	run := func(nodes ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "./peers.sh", append([]string{dir}, nodes...)...).CombinedOutput()
		return string(out), err
	}
	for _, wrong := range []string{"a.example", "1=", "x=a.example", "1=a.example:12350"} {
		out, err := run("2=b.example", wrong)
		require.Error(t, err)
		require.Contains(t, out, wrong+": must be N=HOST")
		require.NoDirExists(t, dir)
	}
	out, err := run("1=::1")
	require.NoError(t, err, out)
	require.NoError(t, os.Rename(filepath.Join(dir, "ca.key"), filepath.Join(dir, "elsewhere")))
	for range 2 {
		out, err = run("1=::1", "2=b.example")
		require.Error(t, err)
		require.Contains(t, out, "ca.key is not there: it has to sign 2.pem")
		require.NoFileExists(t, filepath.Join(dir, "2.pem"))
	}
	require.NoError(t, os.Rename(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "ca.key")))
	out, err = run("2=b.example")
	require.NoError(t, err, out)
	require.FileExists(t, filepath.Join(dir, "2.pem"))
}
